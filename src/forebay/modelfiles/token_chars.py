"""How much text one token can stand for."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tokenizers import Tokenizer, models

_KEEPS_ALL = {"Sequence", "ByteLevel", "Digits", "Metaspace", "Prepend", "Split", "Replace", "NFC"}
"""Steps before the model that lose nothing of a text; Split and Replace only as `_loses_nothing` says."""
ASCII = 0x80
NFC_SHRINKS = 3
"""Unicode's composition makes one character of three at most (Hangul syllables)."""


@dataclass(frozen=True, slots=True)
class TokenChars:
    """No token stands for more than `most` characters of a text, not counting `lost`, which may vanish."""

    most: int
    lost: tuple[str, ...] = ()

    def least_tokens(self, text: str) -> int:
        """So many tokens at least are needed for `text`; found without cutting it into tokens."""
        return -(-(len(text) - sum(map(text.count, self.lost))) // self.most)


def token_chars(tokenizer: Tokenizer) -> TokenChars | None:
    """None where whole stretches of any text may be dropped or become one token, so that there is no such number."""
    steps = [*_steps(tokenizer.normalizer), *_steps(tokenizer.pre_tokenizer)]
    lost = _lost(tokenizer, steps)
    if lost is None or not all(_loses_nothing(step) for step in steps):
        return None
    if any(token.lstrip or token.rstrip for token in tokenizer.get_added_tokens_decoder().values()):
        return None
    # A vocabulary writes a byte as one character or more, and a character as itself or as its bytes.
    longest = max((len(text.encode()) for text in tokenizer.get_vocab(with_added_tokens=True)), default=1)
    return TokenChars(longest * (NFC_SHRINKS if any(step["type"] == "NFC" for step in steps) else 1), lost)


def _steps(component: Any) -> Iterator[dict[str, Any]]:
    """The steps of a normalizer or a pre-tokenizer, as tokenizer.json writes them."""
    if component is not None:
        yield from _flat(json.loads(component.__getstate__()))


def _flat(step: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield step
    for below in step.get("normalizers", step.get("pretokenizers", ())):
        yield from _flat(below)


def _loses_nothing(step: dict[str, Any]) -> bool:
    match step["type"]:
        case "Split":
            return step["behavior"] != "Removed"
        case "Replace":
            replaced = step["pattern"].get("String")
            return replaced is not None and len(step["content"]) >= len(replaced)
        case kind:
            return kind in _KEEPS_ALL


def _lost(tokenizer: Tokenizer, steps: list[dict[str, Any]]) -> tuple[str, ...] | None:
    """The characters of which the vocabulary has no byte; None where those may be more than some of ASCII."""
    model = tokenizer.model
    if not isinstance(model, models.BPE):
        return None
    if any(step["type"] == "ByteLevel" for step in steps):
        missing = [byte for byte, text in enumerate(_byte_texts()) if tokenizer.token_to_id(text) is None]
        if any(0x80 <= byte < 0xC0 for byte in missing):
            # A byte that every character beyond ASCII may have.
            return None
        return tuple(chr(byte) for byte in missing if byte < ASCII)
    fallback = model.byte_fallback and all(tokenizer.token_to_id(f"<0x{byte:02X}>") is not None for byte in range(256))
    return () if fallback else None


def _byte_texts() -> list[str]:
    """How byte-level vocabularies write each byte: as its Latin-1 character where that is visible, else as one of the
    characters from U+0100 on.
    """
    visible = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = (chr(0x100 + index) for index in range(256))
    return [chr(byte) if byte in visible else next(others) for byte in range(256)]
