"""Sets of allowed tokens, one bit for each token: token t is bit t & 31 of word t >> 5."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from forebay.engine.sampling.arrays import Bools, Ints, Mask
from forebay.engine.sampling.draw import Draw

_WORD_BITS = 32


def allowed_mask(token_ids: Iterable[int], vocab_size: int) -> Mask:
    """The mask that allows `token_ids`, uint32 [ceil(vocab_size / 32)]; ids outside the vocabulary are left out."""
    ids = np.fromiter(token_ids, dtype=np.int64)
    bits = np.zeros(-(-vocab_size // _WORD_BITS) * _WORD_BITS, dtype=np.uint8)
    bits[ids[(ids >= 0) & (ids < vocab_size)]] = 1
    return np.packbits(bits, bitorder="little").view("<u4").astype(np.uint32)


def allowed_ids(mask: Mask) -> Ints:
    """The tokens that `mask` allows, in rising order."""
    return _set_bits(mask[None, :])[1]


@dataclass(frozen=True, slots=True)
class Masks:
    """The masks of those rows of a step that have one."""

    rows: Ints
    """Which rows these are, rising, [m]."""
    words: Mask
    """[m, words]."""
    places: Ints
    """Each row's place in `rows`, [s]; 0 for a row without a mask."""

    @classmethod
    def of(cls, draws: Sequence[Draw], vocab_size: int) -> "Masks":
        masks = [draw.mask for draw in draws if draw.mask is not None]
        num_words = -(-vocab_size // _WORD_BITS)
        rows = np.flatnonzero([draw.mask is not None for draw in draws])
        places = np.zeros(len(draws), dtype=np.int64)
        places[rows] = np.arange(rows.size)
        return cls(rows, np.stack(masks) if masks else np.zeros((0, num_words), dtype=np.uint32), places)

    def num_allowed(self) -> Ints:
        """How many tokens each mask allows, [m]."""
        return np.bitwise_count(self.words).sum(axis=1, dtype=np.int64)

    def allow(self, rows: Ints, ids: Ints) -> Bools:
        """Whether each token is allowed in its row, which must have a mask; the two shapes are broadcast."""
        words = self.words[self.places[rows], ids // _WORD_BITS]
        return (words >> (ids % _WORD_BITS).astype(np.uint32) & np.uint32(1)).astype(np.bool_)

    def listed(self, which: Bools) -> tuple[Ints, Ints]:
        """Row and id of every token that the masks `which` [m] allow, rising."""
        places, ids = _set_bits(self.words[which])
        return self.rows[which][places], ids


def _set_bits(words: Mask) -> tuple[Ints, Ints]:
    """Row and position of each set bit of [m, words], rising."""
    # Most words of a strict mask are empty: only the others are unpacked.
    rows, places = np.nonzero(words)
    bits = np.unpackbits(words[rows, places].astype("<u4").view(np.uint8), bitorder="little")
    found = np.flatnonzero(bits)
    return rows[found // _WORD_BITS], places[found // _WORD_BITS] * _WORD_BITS + found % _WORD_BITS
