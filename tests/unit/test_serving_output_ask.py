"""How much output a request asks for."""

import json
from typing import Any

import pytest

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


@pytest.mark.parametrize("value", [-1, 1.5, "7", True, [], 2**40])
def test_what_is_no_count_is_left_for_the_replica_to_refuse(value: object) -> None:
    assert ask(max_tokens=value, n=value) == ask()


def test_each_answer_counts() -> None:
    assert ask(n=3).choices == 3
    assert ask(n=0).choices == ask(n=None).choices == 1


def test_what_a_stream_is_to_tell() -> None:
    told = ask(stream_options={"include_usage": True, "continuous_usage_stats": True})
    assert (told.wants_usage, told.wants_running_usage) == (True, True)
    for options in (None, 7, {}, {"include_usage": "yes"}):
        assert not ask(stream_options=options).wants_usage
