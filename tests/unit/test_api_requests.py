"""What decoded requests mean."""

import msgspec
import pytest

from forebay.api.chat import ChatCompletionRequest, ChatMessage
from forebay.api.completions import CompletionRequest
from forebay.api.decoding import decode
from forebay.api.generation import Usage
from forebay.api.tokenization import TokenizeRequest
from forebay.core.errors import InvalidRequest

TOOL = '{"type": "function", "function": {"name": "f"}}'


def message(text: str) -> ChatMessage:
    return decode(text.encode(), ChatMessage)


def test_parts_are_joined_and_developer_is_called_system() -> None:
    parts = message(
        '{"role": "developer", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "name": "n"}'
    )
    assert parts.for_template() == {"role": "system", "content": "a\nb", "name": "n"}


def test_an_assistant_may_have_called_tools_instead_of_speaking() -> None:
    call = '{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}'
    said = message(f'{{"role": "assistant", "content": null, "tool_calls": [{call}]}}')
    assert said.for_template() == {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
    }
    answer = message('{"role": "tool", "content": "4", "tool_call_id": "c1"}')
    assert answer.for_template() == {"role": "tool", "content": "4", "tool_call_id": "c1"}


@pytest.mark.parametrize(
    ("fields", "limit"),
    [
        ("", None),
        ('"max_tokens": 3', 3),
        ('"max_completion_tokens": 4', 4),
        ('"max_tokens": 3, "max_completion_tokens": 4', 4),
    ],
)
def test_the_newer_name_of_max_tokens_wins(fields: str, limit: int | None) -> None:
    body = f'{{"model": "m", "messages": [{{"role": "user", "content": ""}}]{"," if fields else ""} {fields}}}'
    assert decode(body.encode(), ChatCompletionRequest).output_limit == limit


def test_completions_generate_sixteen_tokens_unless_told() -> None:
    assert decode(b'{"model": "m", "prompt": "a"}', CompletionRequest).output_limit == 16
    assert decode(b'{"model": "m", "prompt": "a", "max_tokens": 2}', CompletionRequest).output_limit == 2


@pytest.mark.parametrize(
    ("prompt", "prompts"),
    [
        ('"a"', ["a"]),
        ('["a"]', ["a"]),
        ('["a", ""]', ["a", ""]),
        ("[1, 2]", [[1, 2]]),
        ("[[1, 2]]", [[1, 2]]),
        ("[[1, 2], [3]]", [[1, 2], [3]]),
        ('[[1, 2], "a"]', [[1, 2], "a"]),
        ('""', [""]),
    ],
)
def test_prompts_may_be_written_in_many_ways(prompt: str, prompts: list[str | list[int]]) -> None:
    assert decode(f'{{"model": "m", "prompt": {prompt}}}'.encode(), CompletionRequest).prompts == prompts


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ('"prompt": [1, "a"]', "prompt"),
        ('"prompt": []', "prompt"),
        ('"prompt": "a", "max_tokens": 0', "max_tokens"),
        ('"prompt": "a", "prompt_logprobs": 1, "stream": true', "prompt_logprobs"),
        ('"prompt": ["a", "b"], "n": 65', "prompt"),
    ],
)
def test_completions_that_make_no_sense(fields: str, param: str) -> None:
    with pytest.raises(InvalidRequest) as raised:
        decode(f'{{"model": "m", {fields}}}'.encode(), CompletionRequest)
    assert raised.value.param == param


@pytest.mark.parametrize("fields", ['"echo": true', '"prompt_logprobs": 0'])
def test_nothing_may_be_generated_where_the_prompt_is_told(fields: str) -> None:
    request = decode(f'{{"model": "m", "prompt": "a", "max_tokens": 0, {fields}}}'.encode(), CompletionRequest)
    assert request.output_limit == 0


@pytest.mark.parametrize(("stop", "strings"), [('"x"', ("x",)), ('["x", "y"]', ("x", "y")), ("[]", ()), ("null", ())])
def test_stop_is_a_text_or_several(stop: str, strings: tuple[str, ...]) -> None:
    body = f'{{"model": "m", "prompt": "a", "stop": {stop}}}'
    assert decode(body.encode(), CompletionRequest).stop_strings == strings


def test_an_encoded_request_is_the_same_request() -> None:
    body = b'{"model":"m","messages":[{"role":"user","content":"hi"}],"top_k":-1,"stop":["a"],"stream":true}'
    request = decode(body, ChatCompletionRequest)
    assert decode(msgspec.json.encode(request), ChatCompletionRequest) == request


@pytest.mark.parametrize(("reasoning", "details"), [(None, None), (1, {"reasoning_tokens": 1})])
def test_usage_adds_up(reasoning: int | None, details: dict[str, int] | None) -> None:
    usage = Usage.of(prompt_tokens=5, cached_tokens=4, completion_tokens=2, reasoning_tokens=reasoning)
    assert msgspec.to_builtins(usage) == {
        "prompt_tokens": 5,
        "completion_tokens": 2,
        "total_tokens": 7,
        "prompt_tokens_details": {"cached_tokens": 4},
        "completion_tokens_details": details,
    }


@pytest.mark.parametrize("body", [b"{}", b'{"prompt": "a", "messages": [{"role": "user", "content": "a"}]}'])
def test_tokenize_takes_either_a_prompt_or_messages(body: bytes) -> None:
    with pytest.raises(InvalidRequest, match="either"):
        decode(body, TokenizeRequest)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ('"continue_final_message": true, "add_generation_prompt": true', "continue_final_message"),
        (f'"tools": [{TOOL}, {TOOL}]', "tools[1].function.name"),
        ('"tools": [{"type": "function", "function": {"name": "a b"}}]', "tools[0].function.name"),
    ],
)
def test_tokenize_takes_what_a_chat_takes(fields: str, param: str) -> None:
    with pytest.raises(InvalidRequest) as raised:
        decode(f'{{"messages": [{{"role": "user", "content": "a"}}], {fields}}}'.encode(), TokenizeRequest)
    assert raised.value.param == param


CALLING = '{"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": "{}"}}]}'


@pytest.mark.parametrize(
    ("last", "more"),
    [(CALLING, ""), ('{"role": "assistant", "content": "so"}', ', "add_generation_prompt": true')],
)
@pytest.mark.parametrize("type_", [ChatCompletionRequest, TokenizeRequest])
def test_only_text_is_gone_on_with(type_: type[ChatCompletionRequest | TokenizeRequest], last: str, more: str) -> None:
    body = f'{{"model": "m", "messages": [{last}], "continue_final_message": true{more}}}'
    with pytest.raises(InvalidRequest) as raised:
        decode(body.encode(), type_)
    assert raised.value.param == "continue_final_message"


def test_an_assistant_may_have_refused() -> None:
    parts = '[{"type": "text", "text": "No."}, {"type": "refusal", "refusal": "I will not"}]'
    said = message(f'{{"role": "assistant", "content": {parts}}}')
    assert said.text == "No.\nI will not"
    assert said.for_template() == {"role": "assistant", "content": "No.\nI will not"}


@pytest.mark.parametrize(
    "fields",
    [
        '"disable_any_whitespace": null, "whitespace_pattern": null, "structural_tag": null',
        '"disable_fallback": false, "disable_additional_properties": false',
        '"disable_fallback": true, "disable_any_whitespace": true',
        '"backend": "auto"',
    ],
)
def test_what_else_vllm_says_of_structured_outputs_is_taken_where_it_changes_nothing(fields: str) -> None:
    body = f'{{"model": "m", "prompt": "a", "structured_outputs": {{"regex": "a", {fields}}}}}'
    asked = decode(body.encode(), CompletionRequest).structured_outputs
    assert asked is not None
    assert asked.regex == "a"


@pytest.mark.parametrize(
    ("name", "value"),
    [("whitespace_pattern", '"x"'), ("structural_tag", "{}"), ("disable_additional_properties", "true")],
)
def test_what_would_change_the_output_is_refused_by_its_name(name: str, value: str) -> None:
    body = f'{{"model": "m", "prompt": "a", "structured_outputs": {{"json": {{}}, "{name}": {value}}}}}'
    with pytest.raises(InvalidRequest) as raised:
        decode(body.encode(), CompletionRequest)
    assert raised.value.param == f"structured_outputs.{name}"
