"""Every field of both kinds of completions with values that it cannot have: each is named."""

from collections.abc import Sequence

import msgspec
import pytest

from forebay.api.chat import CHAT_REFUSED, ChatCompletionRequest
from forebay.api.completions import COMPLETION_REFUSED, CompletionRequest
from forebay.api.decoding import decode
from forebay.api.generation import REFUSED, GenerationFields
from forebay.core.errors import InvalidRequest

CALL = '{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}'
FLAG = ("1", '"true"', "[]")
PENALTY = ("2.1", "-2.1", '"much"', "true")
COUNT = ("-1", "1.5", '"many"', "true", "2147483648", "[]")
LOGPROBS = ("-1", "21", "1.5", "true")

BAD: dict[str, Sequence[str]] = {
    "model": ('""', "5", "null", "[]"),
    "stream": FLAG,
    "n": ("0", "129", "-1", "1.5", '"two"', "true"),
    "max_tokens": COUNT,
    "min_tokens": COUNT,
    "temperature": ("-0.1", "2.1", '"hot"', "1e999", "true", "[]"),
    "top_p": ("0", "1.1", "-1", '"all"', "true"),
    "top_k": ("-2", "1.5", '"all"', "2147483648", "true"),
    "min_p": ("-0.1", "1.1", '"all"', "true"),
    "frequency_penalty": PENALTY,
    "presence_penalty": PENALTY,
    "repetition_penalty": ("0", "-1", "10.1", '"much"', "true"),
    "logit_bias": ('{"a": 1}', '{"-1": 1}', '{"1.5": 1}', '{"1": 101}', '{"1": -101}', '{"1": "x"}', "[1]", '{"": 1}'),
    "allowed_token_ids": ("[]", "[-1]", '["a"]', "[1.5]", "5", "[2147483648]"),
    "bad_words": ('[""]', '"word"', "[5]"),
    "seed": ("9223372036854775808", "-9223372036854775809", "1.5", '"x"', "true"),
    "stop": ('""', '["a", ""]', "5", "[5]", '["a", "b", "c", "d", "e", "f", "g", "h", "i"' + ', "j"' * 8 + "]"),
    "stop_token_ids": ("[-1]", "5", '["a"]', "[2147483648]"),
    "include_stop_str_in_output": FLAG,
    "ignore_eos": FLAG,
    "skip_special_tokens": FLAG,
    "prompt_logprobs": LOGPROBS,
    "response_format": (
        '"json"',
        "{}",
        '{"type": "xml"}',
        '{"type": "json_schema"}',
        '{"type": "json_schema", "json_schema": {}}',
        '{"type": "json_schema", "json_schema": {"name": "x", "schema": 5}}',
    ),
    "structured_outputs": (
        "{}",
        '{"json": 5}',
        '{"choice": []}',
        '{"choice": [5]}',
        '{"regex": 5}',
        '{"regex": "a", "choice": ["a"]}',
        '{"json_object": false}',
        '{"xml": "a"}',
        '{"regex": "a", "whitespace_pattern": " "}',
        '{"json": {}, "structural_tag": {"type": "structural_tag"}}',
        '{"json": {}, "disable_additional_properties": true}',
        '{"json": {}, "disable_any_whitespace": "yes"}',
        '"a"',
    ),
    "priority": ("2147483648", "1.5", '"high"', "true"),
    "cache_salt": ('""', "5"),
    "service_tier": ('"gold"', "5", '""'),
    "user": ("5", "[]"),
    "metadata": ('"x"', '{"a": 1}', "[]"),
    "store": ("true", "1", '"yes"'),
    "truncate_prompt_tokens": ("5", "-1", "0", '"x"'),
    "use_beam_search": ("true", '"yes"'),
    "guided_json": ("{}", '"x"', "false"),
    "guided_regex": ('"x"', '""'),
    "guided_choice": ('["x"]',),
    "guided_grammar": ('"x"',),
    "stream_options": ('{"include_usage": true}', "5", '{"include_usage": "yes"}'),
}
CHAT_BAD: dict[str, Sequence[str]] = {
    "messages": (
        "[]",
        "null",
        '"hi"',
        "[5]",
        '[{"role": "robot", "content": "x"}]',
        '[{"role": "user"}]',
        '[{"role": "user", "content": null}]',
        '[{"role": "user", "content": []}]',
        '[{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]',
        '[{"role": "user", "content": [{"type": "refusal", "refusal": "x"}]}]',
        '[{"role": "assistant", "content": [{"type": "refusal"}]}]',
        '[{"role": "assistant", "content": [{"type": "text", "refusal": "x"}]}]',
        '[{"role": "user", "content": "x", "name": 5}]',
        '[{"role": "assistant", "tool_calls": [{"id": "c"}]}]',
        f'[{{"role": "assistant", "tool_calls": {CALL}}}]',
    ),
    "max_tokens": ("0",),
    "max_completion_tokens": ("0", *COUNT),
    "logprobs": FLAG,
    "top_logprobs": ("1", *LOGPROBS),
    "tools": (
        "{}",
        "[5]",
        "[{}]",
        '[{"type": "retrieval", "function": {"name": "f"}}]',
        '[{"type": "function", "function": {"name": ""}}]',
        '[{"type": "function", "function": {"name": "a b"}}]',
        '[{"type": "function", "function": {"name": "f", "parameters": "x"}}]',
        '[{"type": "function", "function": {"name": "f"}}, {"type": "function", "function": {"name": "f"}}]',
    ),
    "tool_choice": (
        '"required"',
        '"any"',
        "5",
        '{"type": "function"}',
        '{"type": "function", "function": {"name": "g"}}',
    ),
    "parallel_tool_calls": FLAG,
    "reasoning_effort": ('"extreme"', "5", '""'),
    "add_generation_prompt": FLAG,
    "continue_final_message": FLAG,
    "add_special_tokens": FLAG,
    "chat_template_kwargs": ('"x"', "[]", "5"),
    "functions": ('[{"name": "f"}]', '"x"'),
    "function_call": ('"auto"', '{"name": "f"}'),
    "modalities": ('["audio"]', '["text", "audio"]', '"text"'),
    "audio": ("{}", '{"voice": "x", "format": "wav"}'),
    "web_search_options": ("{}",),
    "chat_template": ('"x"', "5"),
    "documents": ('[{"text": "x"}]', "5"),
    "echo": ("true", "1"),
}
COMPLETION_BAD: dict[str, Sequence[str]] = {
    "prompt": ("[]", "null", "5", "{}", '["a", 1]', "[true]", "[-1]", "[[1], [-2]]", "[[[1]]]", "[null]"),
    "max_tokens": ("0",),
    "echo": FLAG,
    "logprobs": LOGPROBS,
    "add_special_tokens": FLAG,
    "best_of": ("2", "0", '"x"'),
    "suffix": ('"x"', "5"),
}


def cases(*tables: dict[str, Sequence[str]]) -> list[tuple[str, str]]:
    return [(field, value) for table in tables for field, values in table.items() for value in values]


def refused(body: dict[str, str], type_: type[GenerationFields]) -> InvalidRequest:
    text = "{" + ", ".join(f'"{name}": {value}' for name, value in body.items()) + "}"
    with pytest.raises(InvalidRequest) as raised:
        decode(text.encode(), type_)
    return raised.value


def is_named(error: InvalidRequest, field: str) -> None:
    param = error.param or ""
    assert param == field or param.startswith((f"{field}.", f"{field}[")), error.detail
    assert param in error.detail


@pytest.mark.parametrize(("field", "value"), cases(BAD, CHAT_BAD))
def test_chat(field: str, value: str) -> None:
    good = {"model": '"m"', "messages": '[{"role": "user", "content": "hi"}]'}
    is_named(refused(good | {field: value}, ChatCompletionRequest), field)


@pytest.mark.parametrize(("field", "value"), cases(BAD, COMPLETION_BAD))
def test_completions(field: str, value: str) -> None:
    is_named(refused({"model": '"m"', "prompt": '"a"'} | {field: value}, CompletionRequest), field)


@pytest.mark.parametrize(
    ("type_", "tables"),
    [(ChatCompletionRequest, (BAD, CHAT_BAD)), (CompletionRequest, (BAD, COMPLETION_BAD))],
)
def test_no_field_is_left_out(type_: type[GenerationFields], tables: Sequence[dict[str, Sequence[str]]]) -> None:
    assert {field.name for field in msgspec.structs.fields(type_)} == set().union(*tables)


@pytest.mark.parametrize("field", [*REFUSED, *CHAT_REFUSED])
def test_what_is_refused_says_what_to_do_and_passes_where_it_changes_nothing(field: str) -> None:
    good = '"model": "m", "messages": [{"role": "user", "content": "hi"}]'
    harmless = [msgspec.json.encode(value).decode() for value in (None, *(REFUSED | CHAT_REFUSED)[field])]
    for value in harmless:
        decode(f'{{{good}, "{field}": {value}}}'.encode(), ChatCompletionRequest)


@pytest.mark.parametrize("field", [*REFUSED, *COMPLETION_REFUSED])
def test_the_same_for_completions(field: str) -> None:
    for value in (None, *({**REFUSED, **COMPLETION_REFUSED})[field]):
        text = msgspec.json.encode(value).decode()
        decode(f'{{"model": "m", "prompt": "a", "{field}": {text}}}'.encode(), CompletionRequest)
