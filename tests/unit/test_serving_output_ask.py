"""How much output a request asks for."""

import json
from typing import Any

import pytest

from forebay.core.errors import InvalidRequest
from forebay.serving.output_ask import OutputAsk, output_ask


def ask(route: Any = "chat/completions", **fields: Any) -> OutputAsk:
    return output_ask(route, json.dumps(fields).encode())


def test_the_larger_of_two_limits_counts() -> None:
    assert ask(max_tokens=5, max_completion_tokens=9).max_tokens == 9
    assert ask(max_tokens=9, max_completion_tokens=5).max_tokens == 9
    assert ask(max_tokens=None, max_completion_tokens=5).max_tokens == 5
    assert ask(max_tokens=5, max_completion_tokens=9).max_tokens_field == "max_completion_tokens"
    assert ask(max_tokens=9, max_completion_tokens=5).max_tokens_field == "max_tokens"


def test_a_chat_without_a_limit_has_none_a_text_has_openai_s() -> None:
    assert (ask().max_tokens, ask().unasked) == (None, None)
    assert (ask("completions").max_tokens, ask("completions").unasked) == (None, 16)
    assert ask("completions", max_tokens=0).max_tokens == 0


@pytest.mark.parametrize("field", ["n", "best_of", "max_tokens", "max_completion_tokens"])
@pytest.mark.parametrize("value", [-1, 1.5, "7", 7.0, True, [], 2**40, 10**30])
def test_what_is_no_count_is_refused_for_any_pool(field: str, value: object) -> None:
    with pytest.raises(InvalidRequest) as refused:
        ask(**{"max_tokens": 5, field: value})
    assert refused.value.param == field


def test_each_answer_counts() -> None:
    assert ask(n=3).choices == ask(n=2, best_of=3).choices == 3
    assert ask(n=None).choices == ask().choices == 1
    with pytest.raises(InvalidRequest):
        ask(n=0)


def test_what_a_stream_is_to_tell() -> None:
    told = ask(stream_options={"include_usage": True, "continuous_usage_stats": True})
    assert told.told_usage == "all"
    assert ask(stream_options={"include_usage": True}).told_usage == "last"
    for options in (None, 7, {}, {"include_usage": "yes"}, {"continuous_usage_stats": True}):
        assert ask(stream_options=options).told_usage == "none"
