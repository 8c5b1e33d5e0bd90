"""From a request to prompt tokens."""

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeVar

from forebay.api.chat import ChatMessage
from forebay.core.errors import ContextTooLong, InvalidRequest
from forebay.modelfiles.model import ModelFiles

T = TypeVar("T")

INLINE_CHARS = 4096
"""Texts up to this long are cut into tokens where they are (about a millisecond); longer ones in a thread."""
CHARS_AROUND_MESSAGE = 40
"""What one message costs beside its text, as if it were so much more text."""


class Prompts:
    """One model's chat template and tokenizer, kept off the event loop where they would hold it up.

    With `must_fit`, a text that can never fit the window is refused before it is cut into tokens, which takes a second
    for each megabyte.
    """

    def __init__(self, model: ModelFiles, max_model_len: int) -> None:
        self._template = model.chat_template
        self._tokenizer = model.tokenizer
        self._max_model_len = max_model_len

    async def of_chat(
        self,
        messages: Sequence[ChatMessage],
        *,
        add_generation_prompt: bool = True,
        add_special_tokens: bool = False,
        must_fit: bool = True,
    ) -> list[int]:
        """The messages as the chat template writes them (special tokens are its own affair).

        Raises InvalidRequest where the model has no template, or its template does not take these messages, and
        ContextTooLong.
        """
        template = self._template
        if template is None:
            raise InvalidRequest("This model has no chat template; use /v1/completions instead.", param="messages")

        def tokens() -> list[int]:
            plain = [message.for_template() for message in messages]
            text = template.render(plain, add_generation_prompt=add_generation_prompt)
            return self._tokens(text, "messages", add_special_tokens=add_special_tokens, must_fit=must_fit)

        # Many messages are work for the template even where there is little in them.
        return await _run(tokens, sum(len(message.text) + CHARS_AROUND_MESSAGE for message in messages))

    async def of_text(self, text: str, *, add_special_tokens: bool = True, must_fit: bool = True) -> list[int]:
        """The text as it is, with the tokens that the model wants around it. Raises ContextTooLong."""
        return await _run(
            lambda: self._tokens(text, "prompt", add_special_tokens=add_special_tokens, must_fit=must_fit), len(text)
        )

    def _tokens(self, text: str, param: str, *, add_special_tokens: bool, must_fit: bool) -> list[int]:
        window = self._max_model_len
        if must_fit and (least := self._tokenizer.least_tokens(text)) >= window:
            raise ContextTooLong(
                f"the context window is {window} tokens, but {len(text)} characters of prompt are {least} tokens at "
                "the very least; shorten the prompt",
                param=param,
            )
        return self._tokenizer.encode(text, add_special_tokens=add_special_tokens)

    def of_token_ids(self, token_ids: list[int], param: str) -> list[int]:
        """The ids themselves. Raises InvalidRequest for one that the model does not know."""
        last = self._tokenizer.vocab_size - 1
        if token_ids and max(token_ids) > last:
            index = next(index for index, token_id in enumerate(token_ids) if token_id > last)
            where = f"{param}[{index}]"
            raise InvalidRequest(
                f"{where}: the model has no token {token_ids[index]}; its last is {last}.", param=where
            )
        return token_ids

    async def text_of(self, token_ids: list[int]) -> str:
        """The text that the tokens stand for, special ones included."""
        return await _run(lambda: self._tokenizer.decode(token_ids, skip_special_tokens=False), len(token_ids))

    async def token_texts(self, token_ids: list[int]) -> list[str]:
        """How the vocabulary writes each token."""
        return await _run(lambda: list(map(self._tokenizer.token_text, token_ids)), len(token_ids))


async def _run(work: Callable[[], T], size: int) -> T:
    return work() if size <= INLINE_CHARS else await asyncio.to_thread(work)
