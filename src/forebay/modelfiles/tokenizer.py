"""A model's own tokenizer."""

from collections.abc import Sequence
from pathlib import Path

from tokenizers import Tokenizer

from forebay.core.errors import ModelFileError
from forebay.modelfiles.token_bytes import TokenBytes
from forebay.modelfiles.token_chars import token_chars


class ModelTokenizer:
    """Text to token ids and back, as the model was trained. Safe to use from several threads."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        # Some tokenizer.json files carry the limits of a training run.
        tokenizer.no_truncation()
        tokenizer.no_padding()
        self._tokenizer = tokenizer
        self._token_chars = token_chars(tokenizer)
        self._token_bytes = TokenBytes(tokenizer)

    @classmethod
    def from_json(cls, path: Path) -> "ModelTokenizer":
        """Read a `tokenizer.json`; raises ModelFileError where it is missing or cannot be understood."""
        if not path.is_file():
            raise ModelFileError(_missing(path))
        try:
            return cls(Tokenizer.from_file(str(path)))
        # The library raises plain Exception for whatever it cannot parse.
        except Exception as error:
            raise ModelFileError(f"{path} is not a tokenizer that can be read: {error}") from error

    @property
    def vocab_size(self) -> int:
        """Tokens it knows, added ones included; a model's logits may be padded beyond that."""
        return self._tokenizer.get_vocab_size(with_added_tokens=True)

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        """The ids of `text`, in which special tokens written out are recognised.

        `add_special_tokens` adds what the model wants around a raw text (mostly a begin token); a rendered chat
        template has its own.
        """
        # Of the library's ways the batch ones alone let other threads run meanwhile; this one leaves out offsets.
        return self._tokenizer.encode_batch_fast([text], add_special_tokens=add_special_tokens)[0].ids

    def least_tokens(self, text: str) -> int:
        """So many tokens `text` has at least; found at once, mostly far too low, 0 where nothing can be told."""
        return 0 if self._token_chars is None else self._token_chars.least_tokens(text)

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        """The text of `token_ids`; bytes that are not yet whole characters appear as U+FFFD."""
        return self._tokenizer.decode_batch([list(token_ids)], skip_special_tokens=skip_special_tokens)[0]

    def token_id(self, text: str) -> int | None:
        """The id of the one token that is written `text` in the vocabulary, if there is one."""
        return self._tokenizer.token_to_id(text)

    def token_text(self, token_id: int) -> str:
        """How the vocabulary writes a token; empty for an id beyond it."""
        return self._tokenizer.id_to_token(token_id) or ""

    def to_json(self) -> str:
        """Its `tokenizer.json`."""
        return self._tokenizer.to_str()

    @property
    def added_tokens(self) -> dict[str, int]:
        """Text to id of the tokens beside the vocabulary proper, special or not: each is found whole in a text."""
        return {token.content: number for number, token in self._tokenizer.get_added_tokens_decoder().items()}

    def token_bytes(self, token_id: int) -> bytes:
        """The bytes that a token stands for in a text; empty for an id beyond the vocabulary."""
        return self._token_bytes(token_id)


def _missing(path: Path) -> str:
    folder = path.parent
    if (folder / "openvino_tokenizer.xml").is_file():
        return (
            f"{folder} has its tokenizer only as openvino_tokenizer.xml, which is not read: "
            "copy tokenizer.json of the original model beside it"
        )
    if (folder / "tokenizer.model").is_file() or (folder / "vocab.json").is_file():
        return (
            f"{folder} has its tokenizer only in the old form (tokenizer.model or vocab.json): add the tokenizer.json "
            "that `AutoTokenizer.from_pretrained(folder, use_fast=True).save_pretrained(folder)` writes"
        )
    return f"{folder} has no tokenizer.json: add the one of the original model"
