"""Prompt counts of models whose tokenizer is not at hand.

A token of a byte-level vocabulary stands for one byte at least, so that a text is no more tokens than it has bytes of
UTF-8. What a chat template writes beside the texts is not known: that is what the surcharges are for.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from forebay.api.decoding import decode
from forebay.prompting.counting import PromptCount, Route
from forebay.prompting.offloading import run_sized

TOKENS_AROUND_CHAT = 128
"""What a template writes once: a begin token, a system prompt of its own, the date, the beginning of the answer."""
TOKENS_AROUND_MESSAGE = 32
"""The marks of a message, which are mostly one token each, and its role."""
TOKENS_AROUND_TOOLS = 512
"""What a template says of how to call tools."""
TOKENS_AROUND_TEXT = 8
"""What a tokenizer puts around a raw text."""
TOKENS_OF_MEDIUM = 4096
"""An image, a sound or a file of a message: a guess, as it depends on the model and on what is in it."""
JSON_MAY_GROW = 2
"""Tools and calls may be written with more blanks than they came with."""

_TEXT_PARTS = frozenset({"text", "refusal", "input_text", "output_text"})
_ANY_OBJECT = dict[str, Any]
_BYTES_TO_CHARS = 16
"""To sum bytes up is so much less work than to cut as many characters into tokens."""


class EstimatedPromptCounter:
    """An upper bound for byte-level vocabularies, with the surcharges above; prompts of token ids are counted exactly.

    What it cannot read it takes for so many bytes of text: it refuses nothing but what is no JSON object.
    """

    async def count(self, route: Route, body: bytes, platform_prompts: Sequence[str]) -> PromptCount:
        """No platform prompt is ever found, as that takes the tokens. Raises MalformedJson and InvalidRequest."""
        return await run_sized(lambda: estimate(route, body), len(body) // _BYTES_TO_CHARS)


def estimate(route: Route, body: bytes) -> PromptCount:
    """As `EstimatedPromptCounter` says."""
    fields = decode(body, _ANY_OBJECT)
    return _of_chat(fields) if route == "chat/completions" else _of_completion(fields.get("prompt"))


def _of_chat(fields: dict[str, Any]) -> PromptCount:
    messages = fields.get("messages")
    tokens = TOKENS_AROUND_CHAT + sum(map(_of_message, messages if isinstance(messages, list) else [messages]))
    for name in ("tools", "functions", "documents", "chat_template_kwargs", "response_format"):
        if value := fields.get(name):
            tokens += TOKENS_AROUND_TOOLS + JSON_MAY_GROW * _json_bytes(value)
    return PromptCount(tokens=tokens, prompts=1, public_prefix_tokens=0, exact=False)


def _of_message(message: Any) -> int:
    if not isinstance(message, dict):
        return TOKENS_AROUND_MESSAGE + _json_bytes(message)
    fields: dict[str, Any] = message
    others = [value for name, value in fields.items() if name not in ("role", "content") and value is not None]
    return TOKENS_AROUND_MESSAGE + sum(
        [
            _of_content(fields.get("content")),
            *(_text_bytes(value) if isinstance(value, str) else JSON_MAY_GROW * _json_bytes(value) for value in others),
        ]
    )


def _of_content(content: Any) -> int:
    if content is None:
        return 0
    if isinstance(content, str):
        return _text_bytes(content)
    if isinstance(content, list):
        parts: list[Any] = content
        return sum(map(_of_part, parts))
    return _json_bytes(content)


def _of_part(part: Any) -> int:
    if isinstance(part, str):
        return _text_bytes(part)
    if not isinstance(part, dict):
        return _json_bytes(part)
    fields: dict[str, Any] = part
    if fields.get("type") not in _TEXT_PARTS:
        return TOKENS_OF_MEDIUM
    # Parts are joined by line ends, or by nothing.
    return 1 + sum(_text_bytes(text) for text in fields.values() if isinstance(text, str))


def _of_completion(prompt: Any) -> PromptCount:
    if isinstance(prompt, list) and prompt:
        several: list[Any] = prompt
        prompts = [several] if all(isinstance(each, int) for each in several) else several
    else:
        prompts = [prompt]
    return PromptCount(
        tokens=sum(map(_of_prompt, prompts)),
        prompts=len(prompts),
        public_prefix_tokens=0,
        exact=all(_is_token_ids(each) for each in prompts),
    )


def _of_prompt(prompt: Any) -> int:
    if _is_token_ids(prompt):
        return len(prompt)
    return TOKENS_AROUND_TEXT + (_text_bytes(prompt) if isinstance(prompt, str) else _json_bytes(prompt))


def _is_token_ids(prompt: Any) -> bool:
    if not isinstance(prompt, list):
        return False
    ids: Iterable[Any] = prompt
    return all(isinstance(each, int) for each in ids)


def _text_bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())


def _json_bytes(value: Any) -> int:
    return len(msgspec.json.encode(value))
