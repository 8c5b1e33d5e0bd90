"""Bodies that are wrong, and what is said about them."""

import pytest

from forebay.api.chat import ChatCompletionRequest
from forebay.api.completions import CompletionRequest
from forebay.api.decoding import MAX_DETAIL_CHARS, decode
from forebay.core.errors import InvalidRequest, MalformedJson

USER = '{"role": "user", "content": "hi"}'


def chat(fields: str = "", messages: str = f"[{USER}]") -> bytes:
    return f'{{"model": "m", "messages": {messages}{", " if fields else ""}{fields}}}'.encode()


@pytest.mark.parametrize(
    ("body", "where"),
    [
        (b"", "empty"),
        (b" \r\n\t", "empty"),
        (b"{", "line 1, column 2 (byte 1)"),
        (b'{"model": }', "line 1, column 11 (byte 10)"),
        (b'{\n  "model": "m",\n  "messages": [}\n}', "line 3, column 16 (byte 33)"),
        (chat() + b" x", "trailing characters"),
        (b'{"model": "\xff"}', "not valid UTF-8 at line 1, column 12 (byte 11)"),
        (b'{"model": "\xed\xa0\x80"}', "not valid UTF-8"),
        (b'{"model": "a\\ud800b"}', "surrogate"),
        (b'{"model": "\\ud800\\u0041"}', "surrogate"),
        (b'{"model": "\\udc00"}', "surrogate"),
        (chat('"temperature": NaN'), "invalid character"),
        (chat('"temperature": Infinity'), "invalid character"),
        (chat('"temperature": -Infinity'), "invalid"),
        (b"\xef\xbb\xbf{}", "byte 0"),
        (b"\x00", "byte 0"),
    ],
)
def test_what_is_not_json_is_told_with_its_position(body: bytes, where: str) -> None:
    with pytest.raises(MalformedJson) as raised:
        decode(body, ChatCompletionRequest)
    assert where in raised.value.detail


@pytest.mark.parametrize(
    ("body", "param", "said"),
    [
        (b"[]", None, "expected `object`, got `array`"),
        (b"null", None, "expected `object`"),
        (b"{}", "model", "required"),
        (b'{"model": "m"}', "messages", "required"),
        (b'{"model": "", "messages": []}', "model", "length >= 1"),
        (b'{"model": 5, "messages": []}', "model", "expected `str`, got `int`"),
        (chat(messages="[]"), "messages", "length >= 1"),
        (chat(messages="{}"), "messages", "expected `array`"),
        (chat(messages="[{}]"), "messages[0].role", "required"),
        (chat(messages=f'[{USER}, {{"role": "robot", "content": "x"}}]'), "messages[1].role", "'user', got 'robot'"),
        (chat(messages='[{"role": "user"}]'), "messages[0].content", "required in a user message"),
        (chat(messages='[{"role": "user", "content": 3}]'), "messages[0].content", "got `int`"),
        (chat(messages='[{"role": "user", "content": []}]'), "messages[0].content", "length >= 1"),
        (
            chat(messages='[{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image_url"}]}]'),
            "messages[0].content[1].type",
            "unsupported content part 'image_url'",
        ),
        (chat(messages='[{"role": "user", "content": [{"type": "text"}]}]'), "messages[0].content[0].text", "required"),
        (chat('"temperature": 2.5'), "temperature", "<= 2"),
        (chat('"temperature": "hot"'), "temperature", "got `str`"),
        (chat('"temperature": 1e999'), "temperature", "out of range"),
        (chat('"top_p": 0'), "top_p", "> 0"),
        (chat('"top_k": -2'), "top_k", ">= -1"),
        (chat('"max_tokens": 0'), "max_tokens", "1 or more"),
        (chat('"max_tokens": 1.5'), "max_tokens", "got `float`"),
        (chat(f'"max_tokens": {"9" * 5000}'), "max_tokens", "out of range"),
        (chat(f'"seed": {"9" * 40}'), "seed", "<= 9223372036854775807"),
        (chat('"stop": ""'), "stop", "length >= 1"),
        (chat('"stop": ["a", ""]'), "stop[1]", "length >= 1"),
        (chat(f'"stop": {["a"] * 17}'.replace("'", '"')), "stop", "length <= 16"),
        (chat('"cache_salt": ""'), "cache_salt", "length >= 1"),
        (chat('"stream": "yes"'), "stream", "got `str`"),
        (chat('"stream_options": {"include_usage": true}'), "stream_options", "stream: true"),
        (chat('"metadata": {"a": 1}'), "metadata", "expected `str`"),
        (chat(f'"x": {"[" * 100_000}'), None, "nested too deeply"),
    ],
)
def test_what_is_not_a_request_is_told_with_its_path(body: bytes, param: str | None, said: str) -> None:
    with pytest.raises(InvalidRequest) as raised:
        decode(body, ChatCompletionRequest)
    assert raised.value.param == param
    assert said in raised.value.detail
    assert param is None or param in raised.value.detail


def test_a_detail_never_carries_more_than_its_bound_of_what_was_sent() -> None:
    body = chat(messages=f'[{{"role": "{"x" * 100_000}", "content": ""}}]')
    with pytest.raises(InvalidRequest) as raised:
        decode(body, ChatCompletionRequest)
    assert len(raised.value.detail) <= MAX_DETAIL_CHARS + 1


def test_a_value_that_looks_like_a_path_does_not_move_the_param() -> None:
    body = chat(messages='[{"role": "x - at `$.model`", "content": ""}]')
    with pytest.raises(InvalidRequest) as raised:
        decode(body, ChatCompletionRequest)
    assert raised.value.param == "messages[0].role"


@pytest.mark.parametrize(
    "fields",
    [
        '"tools": [], "tool_choice": "none", "functions": [], "function_call": "none"',
        '"response_format": {"type": "text"}, "logprobs": false, "top_logprobs": 0, "logit_bias": {}',
        '"frequency_penalty": 0, "presence_penalty": 0.0, "repetition_penalty": 1.0, "min_p": 0, "n": 1',
        '"modalities": ["text"], "audio": null, "tools": null, "response_format": null, "n": null',
        '"user": "u", "metadata": {"a": "b"}, "store": false, "service_tier": "auto", "parallel_tool_calls": false',
        '"something_new": {"deep": [1, 2, {"er": null}]}',
        '"stream": null, "stream_options": null, "stop": null, "seed": null, "max_tokens": null, "top_k": null',
    ],
)
def test_harmless_values_null_and_unknown_fields_pass(fields: str) -> None:
    assert decode(chat(fields), ChatCompletionRequest) == decode(chat(fields), ChatCompletionRequest)


@pytest.mark.parametrize(
    ("prompt", "param", "said"),
    [
        ("[]", "prompt", ">= 1"),
        ('["a", 1]', "prompt", "not both"),
        ("[[1], [2, -3]]", "prompt[1][1]", ">= 0"),
        ("[1, -1]", "prompt[1]", ">= 0"),
        ("null", "prompt", "got `null`"),
        ("7", "prompt", "got `int`"),
        ("[true]", "prompt[0]", "got `bool`"),
    ],
)
def test_prompts_that_cannot_be_run(prompt: str, param: str, said: str) -> None:
    with pytest.raises(InvalidRequest) as raised:
        decode(f'{{"model": "m", "prompt": {prompt}}}'.encode(), CompletionRequest)
    assert raised.value.param == param
    assert said in raised.value.detail
