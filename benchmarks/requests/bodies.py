"""The kinds of requests that are compared: what each adds to a plain one."""

from collections.abc import Mapping
from typing import Any

PLAIN = "plain"
_PENALTIES = {"repetition_penalty": 1.1, "presence_penalty": 0.2, "frequency_penalty": 0.2, "top_p": 0.9, "logprobs": 5}
_PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 40},
        "age": {"type": "integer", "minimum": 0, "maximum": 120},
        "email": {"type": "string", "format": "email"},
        "roles": {"type": "array", "items": {"enum": ["admin", "editor", "reader"]}, "minItems": 1, "maxItems": 3},
    },
    "required": ["name", "age", "email", "roles"],
    "additionalProperties": False,
}
_PEOPLE = {"type": "array", "items": _PERSON, "minItems": 40}
"""Longer than any answer is let to be, so that each answer has the length asked for."""

BODIES: Mapping[str, Mapping[str, Any]] = {
    PLAIN: {"temperature": 0},
    "penalties, top_p, logprobs": {"temperature": 0, **_PENALTIES},
    "the same at temperature 0.8": {"temperature": 0.8, **_PENALTIES},
    "json_schema": {"temperature": 0, "structured_outputs": {"json": _PEOPLE}},
    "json_schema and logprobs": {"temperature": 0, "logprobs": 0, "structured_outputs": {"json": _PEOPLE}},
}
"""With logprobs, tokens that a grammar leaves no choice about are computed one by one like all others."""

_CODE = '''def add(a, b):
    """Add two numbers."""
    return a + b


def subtract(a, b):
    """Subtract two numbers."""
    return a - b


def multiply(a, b):
    """Multiply two numbers."""
    return a * b
'''
_TEXT = (
    "A forebay is the reservoir in front of the turbines of a power station. It takes in every stream, holds the water "
    "in order, and lets it through to the engines at the rate that they can turn. In spring, when the snow melts, it "
    "fills within a day; in August the operators count every cubic metre."
)
CHATS: Mapping[str, str] = {
    "tell": "Tell me a story about a dam and a river.",
    "explain": "What is the capital of France, and why is it famous?",
    "quote": f"Repeat this text word for word: {_TEXT}",
    "edit": f"Rewrite this code and add a function `divide`. Answer with the whole code.\n```python\n{_CODE}```",
}
"""Two kinds of which answers repeat little, two of which they repeat much: for speculation."""
