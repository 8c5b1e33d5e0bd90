"""From a request to prompt tokens."""

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeVar

from forebay.api.chat import ChatMessage
from forebay.core.errors import InvalidRequest
from forebay.modelfiles.model import ModelFiles

T = TypeVar("T")

INLINE_CHARS = 4096
"""Texts up to this long are cut into tokens where they are (about a millisecond); longer ones in a thread."""


class Prompts:
    """One model's chat template and tokenizer, kept off the event loop where they would hold it up."""

    def __init__(self, model: ModelFiles) -> None:
        self._template = model.chat_template
        self._tokenizer = model.tokenizer

    async def of_chat(
        self, messages: Sequence[ChatMessage], *, add_generation_prompt: bool = True, add_special_tokens: bool = False
    ) -> list[int]:
        """The messages as the chat template writes them (special tokens are its own affair).

        Raises InvalidRequest where the model has no template, or its template does not take these messages.
        """
        template = self._template
        if template is None:
            raise InvalidRequest("This model has no chat template; use /v1/completions instead.", param="messages")
        plain = [message.for_template() for message in messages]

        def tokens() -> list[int]:
            text = template.render(plain, add_generation_prompt=add_generation_prompt)
            return self._tokenizer.encode(text, add_special_tokens=add_special_tokens)

        return await _run(tokens, sum(len(message.text) for message in messages))

    async def of_text(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        """The text as it is, with the tokens that the model wants around it."""
        return await _run(lambda: self._tokenizer.encode(text, add_special_tokens=add_special_tokens), len(text))

    def of_token_ids(self, token_ids: list[int], param: str) -> list[int]:
        """The ids themselves. Raises InvalidRequest for one that the model does not know."""
        last = self._tokenizer.vocab_size - 1
        for index, token_id in enumerate(token_ids):
            if token_id > last:
                where = f"{param}[{index}]"
                raise InvalidRequest(f"{where}: the model has no token {token_id}; its last is {last}.", param=where)
        return token_ids

    async def text_of(self, token_ids: list[int]) -> str:
        """The text that the tokens stand for, special ones included."""
        return await _run(lambda: self._tokenizer.decode(token_ids, skip_special_tokens=False), len(token_ids))

    def token_text(self, token_id: int) -> str:
        return self._tokenizer.token_text(token_id)


async def _run(work: Callable[[], T], size: int) -> T:
    return work() if size <= INLINE_CHARS else await asyncio.to_thread(work)
