"""The redactor that comes with the platform, and how one is named."""

import json
import time
from typing import Any

import pytest

from forebay.core.errors import ConfigurationError
from forebay.serving.content_log import Content
from forebay.storage.content.document import document_of
from forebay.storage.content.redaction import load_redactor
from forebay.storage.content.redactors import emails_and_numbers, redacted_text


def content(asked: object, *answered: bytes) -> Content:
    return Content(
        id="req_1",
        request_id="mine",
        tenant="alpha",
        key="key_1",
        alias="small",
        at=1_790_000_000.5,
        asked=asked if isinstance(asked, bytes) else json.dumps(asked).encode(),
        answered=list(answered),
    )


def kept(one: Content) -> dict[str, Any]:
    return json.loads(document_of(emails_and_numbers(one)))


def events(*pieces: dict[str, Any]) -> list[bytes]:
    return [b"data: " + json.dumps(piece).encode() + b"\n\n" for piece in pieces] + [b"data: [DONE]\n\n"]


def delta(**said: Any) -> dict[str, Any]:
    return {"id": "c1", "created": 1790000000, "model": "small", "choices": [{"index": 0, "delta": said}]}


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("write to Ann.Lee+x@mail.example.org, please", "write to [address], please"),
        ("root@localhost and a＠b.example", "[address] and [address]"),
        ("ünal@beispiel.example", "[address]"),
        ("call +49 170 123 45 67 now", "call [number] now"),
        ("card 4111-1111-1111-1111.", "card [number]."),
        ("4111111111111111", "[number]"),
        ("۴۱۱۱۱۱۱۱", "[number]"),
        ("room 123456, year 2026, @handle, 3.14", "room 123456, year 2026, @handle, 3.14"),
    ],
)
def test_what_is_taken_out_of_a_text(said: str, expected: str) -> None:
    assert redacted_text(said) == expected


@pytest.mark.parametrize("said", ["a" * 400_000, "a@" * 200_000, "1 " * 200_000, "1-a" * 100_000, "@" * 400_000])
def test_no_text_makes_it_slow(said: str) -> None:
    began = time.process_time()
    redacted_text(said)
    # Linear time takes milliseconds; the square of it would take hours.
    assert time.process_time() - began < 20


def test_every_text_of_a_request_is_looked_at() -> None:
    asked = {
        "messages": [
            {"role": "user", "content": "I am a@b.example"},
            {"role": "user", "content": [{"type": "text", "text": "or 5551234567"}]},
        ],
        "tools": [{"function": {"name": "f", "description": "for c@d.example"}}],
        "user": "e@f.example",
        "metadata": {"g@h.example": 15551234567},
        "seed": 1234567890,
        "prompt": [[40, 41], [42]],
        "stop": None,
        "stream": True,
    }
    assert kept(content(asked, b"{}"))["asked"] == {
        "messages": [
            {"role": "user", "content": "I am [address]"},
            {"role": "user", "content": [{"type": "text", "text": "or [number]"}]},
        ],
        "tools": [{"function": {"name": "f", "description": "for [address]"}}],
        "user": "[address]",
        "metadata": {"[address]": "[number]"},
        "seed": 1234567890,
        "prompt": ["[tokens]", "[tokens]"],
        "stop": None,
        "stream": True,
    }


def test_a_whole_answer_loses_its_tokens_too() -> None:
    answer = {
        "created": 1790000000,
        "choices": [
            {"message": {"content": "it is a@b.example"}, "logprobs": {"content": [{"token": "a@", "bytes": [97, 64]}]}}
        ],
        "usage": {"completion_tokens": 5},
    }
    assert kept(content({}, json.dumps(answer).encode()))["answered"] == {
        "created": 1790000000,
        "choices": [{"message": {"content": "it is [address]"}, "logprobs": "[tokens]"}],
        "usage": {"completion_tokens": 5},
    }


def test_what_came_in_pieces_is_found() -> None:
    call = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "send", "arguments": '{"to": "a@'}}
    parts = events(
        delta(role="assistant", content="I am a"),
        delta(content="@b.exa"),
        delta(content="mple, 555"),
        delta(content="1234567"),
        delta(tool_calls=[call]),
        delta(tool_calls=[{"index": 0, "function": {"arguments": 'b.example"}'}}]),
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}], "usage": None},
        {"choices": [], "usage": {"completion_tokens": 7}},
    )
    answered = kept(content({"stream": True}, *parts))["answered"]
    assert answered["choices"] == [
        {
            "index": 0,
            "delta": {
                "role": "assistant",
                "content": "I am [address], [number]",
                "tool_calls": [
                    {
                        "index": 0,
                        "id": "call_1",
                        "type": "function",
                        "function": {"name": "send", "arguments": '{"to": "[address]"}'},
                    }
                ],
            },
            "finish_reason": "tool_calls",
        }
    ]
    assert answered["usage"] == {"completion_tokens": 7}
    assert answered["model"] == "small"


def test_completions_and_several_choices_are_put_together() -> None:
    parts = events(
        {"choices": [{"index": 1, "text": "x@", "logprobs": {"tokens": ["x@"]}}]},
        {"choices": [{"index": 0, "text": "one"}]},
        {"choices": [{"index": 1, "text": "y.example"}]},
    )
    answered = kept(content({"stream": True}, *parts))["answered"]
    assert {one["index"]: one["text"] for one in answered["choices"]} == {0: "one", 1: "[address]"}
    assert "x@" not in json.dumps(answered)


@pytest.mark.parametrize(
    "answered",
    [b"", b"data: {broken a@b.example\n\n", b"data: [1]\n\n", b"\xff\xfe a@b.example", b'data: {"choices": 5}'],
)
def test_what_cannot_be_read_is_not_kept(answered: bytes) -> None:
    one = emails_and_numbers(content(b"\xffa@b.example{", answered))
    assert b"b.example" not in document_of(one)


def test_a_document_is_readable() -> None:
    document = json.loads(document_of(content({"prompt": "Hi"}, b'data: {"a": 1}\n\n', b"data: [DONE]\n\n")))
    assert document == {
        "id": "req_1",
        "request_id": "mine",
        "tenant": "alpha",
        "key": "key_1",
        "alias": "small",
        "at": "2026-09-21T14:13:20.500000Z",
        "asked": {"prompt": "Hi"},
        "answered": 'data: {"a": 1}\n\ndata: [DONE]\n\n',
    }
    assert json.loads(document_of(content(b"\xff", b'{"b": 2}')))["answered"] == {"b": 2}


def test_a_redactor_is_named_by_module_and_function() -> None:
    assert load_redactor("forebay.storage.content.redactors:emails_and_numbers") is emails_and_numbers


@pytest.mark.parametrize(
    "name",
    ["no.such.module:f", "forebay.storage.content.redactors:no_such", "forebay.storage.content.redactors:NUMBER"],
)
def test_a_redactor_that_is_none_names_the_setting(name: str) -> None:
    with pytest.raises(ConfigurationError, match=r"content\.redactor.*" + name.replace(".", r"\.")):
        load_redactor(name)
