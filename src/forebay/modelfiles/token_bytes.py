"""The bytes behind a token's written form."""

import json
import re

from tokenizers import Tokenizer

_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_METASPACE = "▁"


class TokenBytes:
    """Token id to the bytes that it stands for in a text.

    Three ways of writing a vocabulary are known: GPT-2's, in which each byte is one visible character; SentencePiece's,
    with `▁` for a space and `<0xAB>` for a single byte; and plain text. Added tokens are always plain.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._added = {number: token.content.encode() for number, token in tokenizer.get_added_tokens_decoder().items()}
        decoder = tokenizer.decoder
        steps = "" if decoder is None else json.dumps(json.loads(decoder.__getstate__()), ensure_ascii=False)
        self._alphabet = _byte_alphabet() if '"ByteLevel"' in steps else None
        self._spaces = _METASPACE in steps
        self._bytes = '"ByteFallback"' in steps

    def __call__(self, token_id: int) -> bytes:
        if token_id in self._added:
            return self._added[token_id]
        written: str = self._tokenizer.id_to_token(token_id) or ""
        if self._alphabet is not None:
            # A character outside the alphabet can only be meant as itself.
            return b"".join(self._alphabet.get(char) or char.encode() for char in written)
        if self._bytes and (match := _BYTE.fullmatch(written)):
            return bytes([int(match[1], 16)])
        return (written.replace(_METASPACE, " ") if self._spaces else written).encode()


def _byte_alphabet() -> dict[str, bytes]:
    """GPT-2's: printable Latin-1 characters are their own bytes; the other bytes, in order, are U+0100 and on."""
    visible = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(0x100) if byte not in visible]
    return {
        **{chr(byte): bytes([byte]) for byte in visible},
        **{chr(0x100 + place): bytes([byte]) for place, byte in enumerate(hidden)},
    }
