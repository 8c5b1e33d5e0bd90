"""Estimates of prompts, and who makes them."""

import asyncio
import json
from typing import Any

import pytest

from forebay.core.errors import InvalidRequest
from forebay.prompting.counting import PromptCount, PromptCounter, Route
from forebay.prompting.estimated_counter import TOKENS_OF_MEDIUM, EstimatedPromptCounter
from forebay.prompting.model_counter import ModelPromptCounter
from tests.support.chat_dialects import PLAIN, model_with

ESTIMATES = EstimatedPromptCounter()
EXACT = ModelPromptCounter(model_with(PLAIN))
USER = {"role": "user", "content": "Hello"}


def count(counter: PromptCounter, route: Route, **fields: object) -> PromptCount:
    body = json.dumps({"model": "m", **fields}).encode()
    return asyncio.run(counter.count(route, body, ["Hello"]))


def test_token_ids_are_counted() -> None:
    told = PromptCount(tokens=3, prompts=1, public_prefix_tokens=0, exact=True)
    assert count(ESTIMATES, "completions", prompt=[1, 2, 3]) == told
    several = PromptCount(tokens=3, prompts=2, public_prefix_tokens=0, exact=True)
    assert count(ESTIMATES, "completions", prompt=[[1, 2], [3]]) == several


def test_an_image_is_not_taken_for_text() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 100_000}}
    said = [{"role": "user", "content": [{"type": "text", "text": "What is this?"}, image]}]
    plain = count(ESTIMATES, "chat/completions", messages=[{"role": "user", "content": "What is this?"}])
    assert TOKENS_OF_MEDIUM <= count(ESTIMATES, "chat/completions", messages=said).tokens - plain.tokens <= 5000


@pytest.mark.parametrize(
    ("route", "fields"),
    [
        ("chat/completions", {}),
        ("chat/completions", {"messages": None}),
        ("chat/completions", {"messages": "text"}),
        ("chat/completions", {"messages": ["text", 1, None, {"content": 5}, {"content": [1, "a", {}]}]}),
        ("completions", {}),
        ("completions", {"prompt": None}),
        ("completions", {"prompt": []}),
        ("completions", {"prompt": [1, "a"]}),
        ("completions", {"prompt": {"a": 1}}),
    ],
)
def test_odd_requests_are_the_replicas_to_refuse(route: Route, fields: dict[str, Any]) -> None:
    assert count(ESTIMATES, route, **fields).prompts >= 1


def test_a_lenient_counter_estimates_what_ours_would_refuse() -> None:
    image = {"type": "image_url", "image_url": {"url": "https://example.invalid/a.png"}}
    fields = {"messages": [{"role": "user", "content": [image]}], "store": True}
    with pytest.raises(InvalidRequest):
        count(EXACT, "chat/completions", **fields)
    lenient = ModelPromptCounter(model_with(PLAIN), lenient=True)
    assert not count(lenient, "chat/completions", **fields).exact
    plain = {"messages": [USER], "unheard_of": True}
    assert count(lenient, "chat/completions", **plain) == count(EXACT, "chat/completions", **plain)
