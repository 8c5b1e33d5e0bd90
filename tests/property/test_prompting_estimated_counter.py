"""Estimates are never below what a byte-level tokenizer makes of a prompt, whatever is in it."""

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.prompting.counting import PromptCount, PromptCounter, Route
from forebay.prompting.estimated_counter import EstimatedPromptCounter
from forebay.prompting.model_counter import ModelPromptCounter
from tests.support.chat_dialects import HERMES, LLAMA, PLAIN, model_with, tool

ESTIMATES = EstimatedPromptCounter()
MARKS = ["<|im_start|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"]
EXACT = {
    name: ModelPromptCounter(model_with(template, special=MARKS))
    for name, template in {"plain": PLAIN, "hermes": HERMES, "llama": LLAMA}.items()
}


def count(counter: PromptCounter, route: Route, **fields: object) -> PromptCount:
    body = json.dumps({"model": "m", **fields}).encode()
    return asyncio.run(counter.count(route, body, ["Hello"]))


texts = st.text(max_size=40)
contents = texts | st.lists(texts.map(lambda text: {"type": "text", "text": text}), min_size=1, max_size=3)
messages = st.lists(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["system", "user", "assistant"]), "content": contents}, optional={"name": texts}
    ),
    min_size=1,
    max_size=5,
)
calls = st.builds(
    lambda city: {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "c", "type": "function", "function": {"name": "weather", "arguments": json.dumps({"city": city})}}
        ],
    },
    texts,
)
tools = st.lists(
    st.builds(
        lambda index, text: tool(f"f{index}", {"type": "object", "properties": {text: {"enum": [text]}}}),
        st.integers(0, 10**6),
        texts,
    ),
    max_size=3,
    unique_by=lambda each: each["function"]["name"],
)


@pytest.mark.parametrize("model", EXACT)
@given(messages, calls, tools)
def test_of_a_chat(model: str, said: list[Any], call: dict[str, Any], tools: list[Any]) -> None:
    fields: dict[str, Any] = {"messages": [*said, call], **({"tools": tools} if tools else {})}
    exact = count(EXACT[model], "chat/completions", **fields)
    estimate = count(ESTIMATES, "chat/completions", **fields)
    assert estimate.tokens >= exact.tokens
    assert (estimate.prompts, estimate.exact, estimate.public_prefix_tokens) == (1, False, 0)


@given(st.text(min_size=1, max_size=60) | st.lists(st.text(min_size=1, max_size=60), min_size=1, max_size=4))
def test_of_texts(prompt: str | list[str]) -> None:
    exact = count(EXACT["plain"], "completions", prompt=prompt)
    estimate = count(ESTIMATES, "completions", prompt=prompt)
    assert estimate.tokens >= exact.tokens
    assert estimate.prompts == exact.prompts
    assert not estimate.exact
