"""The corners of the API, as OpenAI's own client sees them."""

import json
from typing import Any

import httpx
import msgspec
import openai
import pytest
from openai import OpenAI

from forebay.api.chat import ChatCompletionRequest
from forebay.api.completions import CompletionRequest
from forebay.api.generation import GenerationFields
from forebay.api.unknown_fields import IGNORED_FIELDS_HEADER
from tests.contract.replica.conftest import MODEL

CHAT = ("/v1/chat/completions", {"messages": [{"role": "user", "content": "hi"}]})
TEXT = ("/v1/completions", {"prompt": "hi"})
BOTH = pytest.mark.parametrize(("path", "fields"), [CHAT, TEXT])


def body(fields: dict[str, Any], **more: object) -> dict[str, Any]:
    return {"model": MODEL, "max_tokens": 3, "temperature": 0} | fields | more


def events(response: httpx.Response) -> list[dict[str, Any]]:
    assert response.status_code == 200, response.text
    lines = [line for line in response.text.split("\n\n") if line]
    assert lines.pop() == "data: [DONE]"
    return [json.loads(line.removeprefix("data: ")) for line in lines]


@pytest.mark.parametrize(("path", "fields", "type_"), [(*CHAT, ChatCompletionRequest), (*TEXT, CompletionRequest)])
def test_null_is_the_same_as_missing(
    http: httpx.Client, path: str, fields: dict[str, Any], type_: type[GenerationFields]
) -> None:
    missing = http.post(path, json=body(fields, seed=1)).json()
    asked = body(fields, seed=1)
    nulls = {name: None for field in msgspec.structs.fields(type_) if (name := field.encode_name) not in asked}
    assert len(nulls) > 30
    null = http.post(path, json=asked | nulls).json()
    assert null["choices"] == missing["choices"]
    assert null.keys() == missing.keys()


@BOTH
@pytest.mark.parametrize("stream", [False, True])
def test_unknown_fields_are_ignored_and_named(
    http: httpx.Client, path: str, fields: dict[str, Any], stream: bool
) -> None:
    response = http.post(path, json=body(fields, stream=stream, verbosity="low", **{"a,b\r\nc": 1}))
    assert response.status_code == 200
    assert response.headers[IGNORED_FIELDS_HEADER] == "verbosity, a?b??c"
    assert IGNORED_FIELDS_HEADER not in http.post(path, json=body(fields, stream=stream)).headers


def test_tokenization_names_them_too(http: httpx.Client) -> None:
    assert http.post("/tokenize", json={"prompt": "a", "x": 1}).headers[IGNORED_FIELDS_HEADER] == "x"
    assert http.post("/detokenize", json={"tokens": [1], "y": 1}).headers[IGNORED_FIELDS_HEADER] == "y"


@BOTH
@pytest.mark.parametrize(
    ("asked", "told"), [("auto", "default"), ("default", "default"), ("flex", "flex"), ("priority", "priority")]
)
def test_the_service_tier_is_echoed(
    http: httpx.Client, path: str, fields: dict[str, Any], asked: str, told: str
) -> None:
    assert http.post(path, json=body(fields, service_tier=asked)).json()["service_tier"] == told
    streamed = events(http.post(path, json=body(fields, service_tier=asked, stream=True)))
    assert {event["service_tier"] for event in streamed} == {told}
    assert "service_tier" not in http.post(path, json=body(fields)).json()


@BOTH
@pytest.mark.parametrize("n", [1, 2])
def test_usage_comes_last_without_choices_and_is_null_before(
    http: httpx.Client, path: str, fields: dict[str, Any], n: int
) -> None:
    asked = body(fields, stream=True, n=n, stream_options={"include_usage": True})
    *before, last = events(http.post(path, json=asked))
    assert all(event["usage"] is None and event["choices"] for event in before)
    assert last["choices"] == []
    assert last["usage"] == http.post(path, json=body(fields, n=n)).json()["usage"] | {
        "prompt_tokens_details": last["usage"]["prompt_tokens_details"]
    }
    plain = events(http.post(path, json=body(fields, stream=True, n=n)))
    assert all("usage" not in event for event in plain)


@BOTH
def test_who_asks_changes_nothing(http: httpx.Client, path: str, fields: dict[str, Any]) -> None:
    named = http.post(path, json=body(fields, user="u", metadata={"team": "a"}, store=False)).json()
    assert named["choices"] == http.post(path, json=body(fields)).json()["choices"]


def test_nothing_is_stored(client: OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="stored") as raised:
        client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "hi"}], store=True)
    assert raised.value.param == "store"


def test_every_reason_to_finish(http: httpx.Client) -> None:
    path, fields = CHAT
    schema = {"type": "object", "properties": {}, "additionalProperties": False}
    tool = {"type": "function", "function": {"name": "f", "parameters": schema}}
    for more, reason in (
        ({"structured_outputs": {"choice": ["ab"]}, "max_tokens": 50}, "stop"),
        ({"max_tokens": 2}, "length"),
        ({"tools": [tool], "tool_choice": "required", "parallel_tool_calls": False, "max_tokens": 200}, "tool_calls"),
        ({"tools": [tool], "tool_choice": "required", "max_tokens": 5}, "length"),
    ):
        choice = http.post(path, json=body(fields) | more).json()["choices"][0]
        assert choice["finish_reason"] == reason
        *_, last = events(http.post(path, json=body(fields, stream=True) | more))
        assert last["choices"][0]["finish_reason"] == reason


def test_whatever_was_asked_wrongly_is_a_bad_request_with_its_name(http: httpx.Client) -> None:
    """Of those things that only the model, or its grammar, can know."""
    path, fields = CHAT
    for more, param in (
        ({"logit_bias": {"1000000": 1}}, "logit_bias.1000000"),
        ({"allowed_token_ids": [1, 1_000_000]}, "allowed_token_ids[1]"),
        ({"stop_token_ids": [1_000_000]}, "stop_token_ids[0]"),
        ({"min_tokens": 4}, "min_tokens"),
        ({"chat_template_kwargs": {"messages": []}}, "chat_template_kwargs.messages"),
        ({"structured_outputs": {"json": "{"}}, "structured_outputs.json"),
    ):
        for stream in (False, True):
            response = http.post(path, json=body(fields, stream=stream) | more)
            assert response.status_code == 400
            assert response.json()["error"]["param"] == param


@pytest.mark.parametrize(
    "format_",
    [
        {"structured_outputs": {"regex": "("}},
        {"structured_outputs": {"grammar": "start: ("}},
        {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "nothing"}}}},
    ],
)
@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("stream", [False, True])
def test_a_form_that_cannot_be_kept_to_is_a_bad_request_before_a_stream_begins(
    http: httpx.Client, format_: dict[str, object], n: int, stream: bool
) -> None:
    path, fields = CHAT
    response = http.post(path, json=body(fields, n=n, stream=stream) | format_)
    assert response.status_code == 400
    assert response.headers["content-type"] == "application/problem+json"


def test_a_last_message_is_gone_on_with(client: OpenAI, http: httpx.Client) -> None:
    messages = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "im glad "}]
    tokens = http.post("/tokenize", json={"messages": messages, "continue_final_message": True}).json()["tokens"]
    text = http.post("/detokenize", json={"tokens": tokens}).json()["prompt"]
    assert text.endswith("im glad ") or text.endswith("im glad")
    chat = http.post(
        CHAT[0], json={"model": MODEL, "messages": messages, "continue_final_message": True, "max_tokens": 8, "seed": 1}
    ).json()
    same = client.completions.create(model=MODEL, prompt=tokens, max_tokens=8, seed=1)
    assert chat["choices"][0]["message"]["content"] == same.choices[0].text
    assert chat["usage"]["prompt_tokens"] == len(tokens)


def test_a_generation_prompt_is_left_out_where_it_is_not_wanted(http: httpx.Client) -> None:
    messages = [{"role": "user", "content": "hi"}]
    counts = [
        http.post(CHAT[0], json={"model": MODEL, "messages": messages, "max_tokens": 1} | more).json()["usage"][
            "prompt_tokens"
        ]
        for more in ({}, {"add_generation_prompt": False})
    ]
    tokens = [
        http.post("/tokenize", json={"messages": messages} | more).json()["count"]
        for more in ({}, {"add_generation_prompt": False})
    ]
    assert counts == tokens
    assert counts[0] > counts[1]


def test_tools_count_in_tokenize_as_in_a_chat(http: httpx.Client) -> None:
    tools = [{"type": "function", "function": {"name": "f", "description": "Does what it is told to do."}}]
    asked = {"messages": [{"role": "user", "content": "hi"}], "tools": tools}
    chat = http.post(CHAT[0], json={"model": MODEL, "max_tokens": 1} | asked).json()
    told = http.post("/tokenize", json=asked).json()["count"]
    assert told == chat["usage"]["prompt_tokens"]
    assert told > http.post("/tokenize", json={"messages": asked["messages"]}).json()["count"]
