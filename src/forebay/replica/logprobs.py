"""The engine's log-probabilities in the forms that answers have."""

import codecs
from collections.abc import Sequence
from typing import Any

from forebay.api.logprobs import ChatLogprobs, ChatTokenLogprob, CompletionLogprobs, TopLogprob
from forebay.engine.request import TokenLogprob
from forebay.replica.vocabulary import Vocabulary


def chat_logprobs(tokens: Sequence[TokenLogprob], vocabulary: Vocabulary) -> ChatLogprobs:
    """Chat's form: each token's text (with U+FFFD for what is not a whole character) and its bytes."""

    def named(token_id: int) -> tuple[str, list[int]]:
        raw = vocabulary.bytes_of(token_id)
        return raw.decode(errors="replace"), list(raw)

    content: list[ChatTokenLogprob] = []
    for token in tokens:
        text, raw = named(token.token_id)
        top = [TopLogprob(token=(name := named(at))[0], bytes=name[1], logprob=value) for at, value in token.top]
        content.append(ChatTokenLogprob(token=text, bytes=raw, logprob=token.logprob, top_logprobs=top))
    return ChatLogprobs(content=content)


def prompt_logprobs(
    tokens: Sequence[TokenLogprob], num_top: int, vocabulary: Vocabulary
) -> list[dict[str, Any] | None]:
    """vLLM's form, as `api.completions.CompletionChoice` tells it: the prompt's `tokens` from the second on, each with
    the `num_top` likeliest of its place."""

    def told(token_id: int, logprob: float, rank: int | None) -> dict[str, Any]:
        text = vocabulary.bytes_of(token_id).decode(errors="replace")
        return {"logprob": logprob, "rank": rank, "decoded_token": text}

    entries: list[dict[str, Any] | None] = [None]
    for token in tokens:
        ranks = {token_id: rank for rank, (token_id, _) in enumerate(token.top, 1)}
        entry = {str(token.token_id): told(token.token_id, token.logprob, ranks.get(token.token_id))}
        for token_id, logprob in token.top[:num_top]:
            entry.setdefault(str(token_id), told(token_id, logprob, ranks[token_id]))
        entries.append(entry)
    return entries


def token_name(raw: bytes) -> str:
    """How a text completion calls a token: its text, or `bytes:\\xe2\\x80` where that is not whole characters: so
    two tokens never have one name for that reason alone."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{each:02x}" for each in raw)


class CompletionLogprobsWriter:
    """The tokens of one choice, in text completions' form, piece by piece; `text_offset` goes on through all pieces.

    `num_top` 0 asks for the tokens alone; else each place also has so many of the likeliest, and always its own token.
    With `skip_special_tokens` special tokens are not in the text.
    """

    def __init__(self, num_top: int, vocabulary: Vocabulary, *, skip_special_tokens: bool = True) -> None:
        self._num_top = num_top
        self._skip_special_tokens = skip_special_tokens
        self._vocabulary = vocabulary
        self._offset = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def of_prompt(self, text: str, first: int, rest: Sequence[TokenLogprob]) -> CompletionLogprobs:
        """The tokens of an echoed prompt, of which the first has no log-probability. Those that are not in its `text`,
        such as one that every text of the model begins with, take no room in it."""
        tokens = [self._vocabulary.bytes_of(first), *(self._vocabulary.bytes_of(each.token_id) for each in rest)]
        offsets: list[int] = []
        for raw in tokens:
            offsets.append(self._offset)
            self._offset += _room(text, self._offset, self._decoder.decode(raw))
        self._offset = len(text)
        self._decoder.reset()
        return CompletionLogprobs(
            tokens=[token_name(raw) for raw in tokens],
            token_logprobs=[None, *(each.logprob for each in rest)],
            top_logprobs=[None, *(self._top(each) for each in rest)] if self._num_top else None,
            text_offset=offsets,
        )

    def of_output(self, tokens: Sequence[TokenLogprob]) -> CompletionLogprobs:
        """Tokens of the answer itself."""
        names: list[str] = []
        offsets: list[int] = []
        for token in tokens:
            raw = self._vocabulary.bytes_of(token.token_id)
            names.append(token_name(raw))
            offsets.append(self._offset)
            if not (self._skip_special_tokens and self._vocabulary.is_hidden(token.token_id)):
                self._offset += len(self._decoder.decode(raw))
        return CompletionLogprobs(
            tokens=names,
            token_logprobs=[each.logprob for each in tokens],
            top_logprobs=[self._top(each) for each in tokens] if self._num_top else None,
            text_offset=offsets,
        )

    def _top(self, token: TokenLogprob) -> dict[str, float]:
        top = {token_name(self._vocabulary.bytes_of(token.token_id)): token.logprob}
        for token_id, logprob in token.top[: self._num_top]:
            top.setdefault(token_name(self._vocabulary.bytes_of(token_id)), logprob)
        return top


def _room(text: str, at: int, piece: str) -> int:
    """The length of `piece` where it stands in `text`; its tokenizer may have put a blank before it."""
    for form in (piece, piece.removeprefix(" ")):
        if text.startswith(form, at):
            return len(form)
    return 0


def joined(pieces: Sequence[CompletionLogprobs]) -> CompletionLogprobs:
    """All pieces of one choice as one."""
    tops = [piece.top_logprobs for piece in pieces]
    return CompletionLogprobs(
        tokens=[token for piece in pieces for token in piece.tokens],
        token_logprobs=[value for piece in pieces for value in piece.token_logprobs],
        top_logprobs=None if None in tops else [top for each in tops for top in each or ()],
        text_offset=[offset for piece in pieces for offset in piece.text_offset],
    )
