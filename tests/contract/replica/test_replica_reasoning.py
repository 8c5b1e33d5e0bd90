"""Reasoning, as OpenAI's own client sees it."""

from collections.abc import Iterator
from typing import Any

import pytest
from openai import BadRequestError, OpenAI
from openai.types.chat import ChatCompletion

from tests.support.chat_dialects import HERMES, OPENED, tool
from tests.support.scripted_replica import MODEL, scripted_client

MARKS = ("<think>", "</think>")
THINKS = ["<think>", "\nTwo and", " two.\n", "</think>", "\n\nIt is", " four."]
CHOICES = {"choice": ["yes", "no"]}


def ask(client: OpenAI, *, extra: dict[str, Any] | None = None, **fields: Any) -> ChatCompletion:
    messages = [{"role": "user", "content": "What is <think>?"}]
    return client.chat.completions.create(
        **({"model": MODEL, "messages": messages, "temperature": 0, "max_tokens": 50} | fields), extra_body=extra
    )


def reasoning(message: Any) -> str | None:
    return getattr(message, "reasoning_content", None)


@pytest.fixture(scope="module", params=[(), MARKS], ids=["plain-marks", "special-marks"])
def thinker(request: pytest.FixtureRequest) -> Iterator[OpenAI]:
    with scripted_client(THINKS, HERMES, ("<|im_start|>", *request.param)) as client:
        yield client


@pytest.fixture(scope="module")
def opened() -> Iterator[OpenAI]:
    """Its template opens the reasoning."""
    with scripted_client(THINKS[1:], OPENED, ("<|im_start|>", *MARKS)) as client:
        yield client


def test_reasoning_is_no_content(thinker: OpenAI) -> None:
    answer = ask(thinker)
    (choice,) = answer.choices
    assert reasoning(choice.message) == "Two and two."
    assert choice.message.content == "It is four."
    assert choice.finish_reason == "stop"
    assert answer.usage is not None
    assert answer.usage.completion_tokens_details is not None
    assert answer.usage.completion_tokens_details.reasoning_tokens in range(2, 6)


def test_reasoning_streams(thinker: OpenAI) -> None:
    deltas = [chunk.choices[0].delta for chunk in ask(thinker, stream=True)]  # type: ignore[attr-defined]
    thoughts = [reasoning(delta) for delta in deltas if reasoning(delta)]
    assert "".join(thoughts) == "Two and two."
    assert len(thoughts) > 1
    assert "".join(delta.content or "" for delta in deltas) == "It is four."


def test_a_template_that_opens_the_reasoning(opened: OpenAI) -> None:
    message = ask(opened).choices[0].message
    assert reasoning(message) == "Two and two."
    assert message.content == "It is four."


def test_reasoning_cut_off_leaves_no_content(opened: OpenAI) -> None:
    (choice,) = ask(opened, max_tokens=2).choices
    assert reasoning(choice.message) == "Two and two."
    assert choice.message.content == ""
    assert choice.finish_reason == "length"


def test_a_form_begins_after_the_reasoning(opened: OpenAI, thinker: OpenAI) -> None:
    for client in (opened, thinker):
        message = ask(client, extra={"structured_outputs": CHOICES}).choices[0].message
        assert reasoning(message) == "Two and two."
        assert message.content in {"yes", "no"}


def test_a_forced_call_comes_after_the_reasoning(opened: OpenAI, thinker: OpenAI) -> None:
    choice = {"type": "function", "function": {"name": "now"}}
    for client in (opened, thinker):
        answer = ask(client, tools=[tool("now")], tool_choice=choice, max_tokens=150)
        assert answer.choices[0].finish_reason == "tool_calls"
        assert reasoning(answer.choices[0].message) == "Two and two."
        calls = answer.choices[0].message.tool_calls or []
        assert [(call.function.name, call.function.arguments) for call in calls] == [("now", "{}")]


def test_without_effort_there_is_none() -> None:
    with scripted_client(["It is", " four."], HERMES, ("<|im_start|>", *MARKS)) as client:
        answer = ask(client, reasoning_effort="none")
        assert answer.choices[0].message.content == "It is four."
        assert answer.usage is not None
        with_reasoning = ask(client, reasoning_effort="none", extra={"chat_template_kwargs": {"enable_thinking": True}})
        assert with_reasoning.usage is not None
        assert answer.usage.prompt_tokens > with_reasoning.usage.prompt_tokens
        message = ask(client, reasoning_effort="none", extra={"structured_outputs": CHOICES}).choices[0].message
        assert message.content in {"yes", "no"}


def test_the_servers_own_variables_are_refused(thinker: OpenAI) -> None:
    with pytest.raises(BadRequestError, match=r"chat_template_kwargs\.bos_token"):
        ask(thinker, extra={"chat_template_kwargs": {"bos_token": "x"}})
