"""Random numbers that depend on (seed, position, token) alone."""

from collections.abc import Sequence

import numpy as np

from forebay.engine.sampling.arrays import Floats, Words
from forebay.engine.sampling.draw import Draw

_ALL_64_BITS = 2**64 - 1
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)

TAIL = np.uint64(2**40)
"""The token id of the tail: none that a vocabulary has."""


def words_of(draws: Sequence[Draw]) -> Words:
    """One word for each (seed, position), [r]."""
    seeds = np.array([d.seed & _ALL_64_BITS for d in draws], dtype=np.uint64)
    positions = np.array([d.position for d in draws], dtype=np.uint64)
    return _mix(_mix(seeds) + (positions + np.uint64(1)) * _GOLDEN)


def gumbel(words: Words, token_ids: Words) -> Floats:
    """A standard Gumbel number for each pair of word and token."""
    bits = _mix(words + (token_ids + np.uint64(1)) * _GOLDEN) >> np.uint64(11)
    return -np.log(-np.log((bits + 0.5) * 2.0**-53))


def _mix(z: Words) -> Words:
    """The output function of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014)."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
