"""A redactor to use, or to write another one after: e-mail addresses and long numbers.

It errs on the side of taking out too much. It finds what is written plainly, in any text of the request and the answer;
it cannot find what is spelled out, encoded, or in an image.
"""

import re
from typing import Any

import msgspec

from forebay.serving.content_log import Content
from forebay.storage.content.streamed_texts import join_events

ADDRESS = "[address]"
NUMBER = "[number]"
TOKENS = "[tokens]"

# Possessive, and begun only where a run begins: the time is linear in the text, whatever is in it.
_ADDRESS = re.compile(r"(?<![\w.%+-])[\w.%+-]++[@＠][\w-]++(?:\.[\w-]++)*+")
_NUMBER = re.compile(r"(?<!\d)\+?\d(?:[ ()./-]{0,2}+\d){6,}+")
_LONG = 10**6

_AS_TOKENS = frozenset({"logprobs", "token_ids", "prompt_token_ids", "prompt_logprobs"})
"""Members that say the text once more, in pieces that no pattern can see across."""
_OURS = frozenset({"created", "seed"})
"""Members whose numbers are long and say nothing of anyone."""


def emails_and_numbers(content: Content) -> Content:
    """Without e-mail addresses and without numbers of seven digits or more, parted by spaces, dots, dashes or not.

    A stream's pieces are put together first. Tokens and log-probabilities are taken out whole.
    """
    answered = b"".join(content.answered)
    told = _json(answered)
    whole = join_events(answered) if told is None else told
    asked = _json(content.asked)
    return msgspec.structs.replace(
        content,
        asked=msgspec.json.encode(_redacted(content.asked.decode(errors="replace") if asked is None else asked)),
        answered=[msgspec.json.encode(_redacted(whole))],
    )


def redacted_text(text: str) -> str:
    return _NUMBER.sub(NUMBER, _ADDRESS.sub(ADDRESS, text))


def _redacted(value: Any, member: str = "") -> Any:
    match value:
        case str():
            return redacted_text(value)
        case dict():
            return {redacted_text(name): _member(name, one) for name, one in value.items()}
        case list():
            return TOKENS if _are_tokens(value) else [_redacted(one, member) for one in value]
        case int() | float() if abs(value) >= _LONG and member not in _OURS:
            return NUMBER
        case _:
            return value


def _are_tokens(values: list[Any]) -> bool:
    return bool(values) and all(type(one) is int for one in values)


def _member(name: str, value: Any) -> Any:
    if name in _AS_TOKENS:
        return None if value is None or isinstance(value, bool | int) else TOKENS
    return _redacted(value, name)


def _json(data: bytes) -> Any:
    """None where it is none."""
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError):
        return None
