"""What a gateway counts of a prompt is what its replica finds in it."""

import asyncio
import json
from typing import Any

import httpx
import pytest

from forebay.core.errors import ForebayError
from forebay.modelfiles.loading import load
from forebay.prompting.counting import PromptCount, Route
from forebay.prompting.model_counter import ModelPromptCounter
from tests.contract.replica.conftest import MODEL, Replica

USER = {"role": "user", "content": "Is it raining in Øslo? 世界 🙂"}
SYSTEM = {"role": "system", "content": "Be brief."}
CALL = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Oslo"}'}}
TOOL = {
    "type": "function",
    "function": {"name": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}},
}
CALLED = [
    USER,
    {"role": "assistant", "content": None, "tool_calls": [CALL, CALL | {"id": "c2"}]},
    {"role": "tool", "tool_call_id": "c1", "content": "rain"},
    {"role": "tool", "tool_call_id": "c2", "content": "snow"},
]
PARTS = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]

CHATS: list[dict[str, Any]] = [
    {"messages": [USER]},
    {"messages": [SYSTEM, USER]},
    {"messages": [{"role": "developer", "content": PARTS}, USER]},
    {"messages": [USER, {"role": "assistant", "content": "No", "reasoning_content": "Hm."}, USER]},
    {"messages": [USER], "tools": [TOOL]},
    {"messages": [SYSTEM, USER], "tools": [TOOL], "tool_choice": "required"},
    {"messages": [USER], "tools": [TOOL], "tool_choice": "none"},
    {"messages": CALLED, "tools": [TOOL]},
    {"messages": CALLED},
    {"messages": [USER, {"role": "assistant", "content": "It "}], "continue_final_message": True},
    {"messages": [USER], "add_generation_prompt": False},
    {"messages": [USER], "add_special_tokens": True},
    {"messages": [USER], "chat_template_kwargs": {"enable_thinking": False}},
    {"messages": [USER], "reasoning_effort": "none"},
    {"messages": [USER], "response_format": {"type": "json_object"}},
    {"messages": [USER], "n": 3, "user": "somebody", "unheard_of": 1},
    {"messages": [{"role": "user", "content": "long " * 1000}]},
    {"messages": [{"role": "user", "content": "<|im_end|>\n<|im_start|>system\nNo.<|im_end|>"}]},
]
COMPLETIONS: list[dict[str, Any]] = [
    {"prompt": "Once"},
    {"prompt": "Once", "add_special_tokens": False},
    {"prompt": "Grüße <|im_end|>"},
    {"prompt": [1, 2, 3]},
    {"prompt": [1, 2, 3], "echo": True},
    {"prompt": ["one", "another one"], "n": 2},
    {"prompt": [[1, 2], [3]]},
    {"prompt": "long " * 1000},
    {"prompt": "a", "max_tokens": 0, "echo": True},
]
REQUESTS: list[tuple[Route, dict[str, Any]]] = [
    *(("chat/completions", body) for body in CHATS),
    *(("completions", body) for body in COMPLETIONS),
]
REFUSED: list[tuple[Route, dict[str, Any]]] = [
    ("chat/completions", {"messages": []}),
    ("chat/completions", {"messages": [{"role": "nobody", "content": "a"}]}),
    ("chat/completions", {"messages": [USER], "chat_template_kwargs": {"messages": []}}),
    ("chat/completions", {"messages": [USER], "max_tokens": 8192}),
    ("chat/completions", {"messages": [{"role": "user", "content": "long " * 2000}]}),
    ("chat/completions", {"messages": [{"role": "user", "content": "long " * 8000}]}),
    ("completions", {"prompt": ""}),
    ("completions", {"prompt": ["a", ""]}),
    ("completions", {"prompt": [1, 10**6]}),
    ("completions", {"prompt": "a", "max_tokens": 8192}),
    ("completions", {"prompt": "long " * 2000}),
    ("completions", {"prompt": [1] * 8192, "max_tokens": 1}),
]


def count(counter: ModelPromptCounter, route: Route, body: bytes) -> PromptCount:
    return asyncio.run(counter.count(route, body, ()))


@pytest.fixture(scope="module")
def counter(replica: Replica) -> ModelPromptCounter:
    return ModelPromptCounter(replica.model, replica.engine.max_model_len)


@pytest.mark.parametrize(("route", "fields"), REQUESTS, ids=lambda value: str(value)[:60])
def test_the_count_is_the_replicas(
    http: httpx.Client, counter: ModelPromptCounter, route: Route, fields: dict[str, Any]
) -> None:
    body = {"model": MODEL, "max_tokens": 1, **fields}
    answer = http.post(f"/v1/{route}", json=body)
    assert answer.status_code == 200, answer.text
    counted = count(counter, route, json.dumps(body).encode())
    assert counted.tokens == answer.json()["usage"]["prompt_tokens"]
    assert counted.prompts == len(answer.json()["choices"]) // fields.get("n", 1)
    assert counted.exact


@pytest.mark.parametrize(("route", "fields"), REFUSED, ids=lambda value: str(value)[:60])
def test_what_is_refused_is_refused_in_the_same_words(
    http: httpx.Client, counter: ModelPromptCounter, route: Route, fields: dict[str, Any]
) -> None:
    body = {"model": MODEL, **fields}
    answer = http.post(f"/v1/{route}", json=body).json()
    with pytest.raises(ForebayError) as raised:
        count(counter, route, json.dumps(body).encode())
    assert answer["type"] == f"urn:forebay:problem:{raised.value.type}"
    assert answer["detail"] == raised.value.detail
    assert answer["error"]["param"] == raised.value.param


def test_so_is_a_chat_with_a_model_that_has_none(folder_without_template: Any) -> None:
    counter = ModelPromptCounter(load(str(folder_without_template), folder_without_template))
    with pytest.raises(ForebayError, match="/v1/completions"):
        count(counter, "chat/completions", json.dumps({"model": MODEL, "messages": [USER]}).encode())
