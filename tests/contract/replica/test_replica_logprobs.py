"""Log-probabilities, echoed prompts, and the prompt's own log-probabilities."""

import math
from typing import Any

import httpx
import pytest
from openai import BadRequestError, OpenAI
from openai.types.chat import ChatCompletionMessageParam, ChatCompletionTokenLogprob

from tests.contract.replica.conftest import MODEL, Replica

HELLO: list[ChatCompletionMessageParam] = [{"role": "user", "content": "Say something."}]
RARE = {"structured_outputs": {"choice": ["a\U00012000b"]}}
"""An answer with a character so rare that no model has a token for it: it is several, of its bytes."""


def test_chat_tells_each_token(client: OpenAI) -> None:
    answer = client.chat.completions.create(
        model=MODEL, messages=HELLO, max_tokens=10, temperature=0, logprobs=True, top_logprobs=3
    )
    (choice,) = answer.choices
    assert choice.logprobs is not None
    content = choice.logprobs.content or []
    assert len(content) == 10
    raw = b"".join(bytes(each.bytes or []) for each in content)
    assert raw.decode() == choice.message.content
    for each in content:
        assert each.token == bytes(each.bytes or []).decode()
        assert len(each.top_logprobs) == 3
        logprobs = [top.logprob for top in each.top_logprobs]
        assert logprobs == sorted(logprobs, reverse=True)
        assert each.top_logprobs[0].token == each.token, "greedy takes the likeliest"
        assert each.logprob == pytest.approx(logprobs[0], abs=1e-4)
        assert 0 < sum(map(math.exp, logprobs)) <= 1 + 1e-4


def test_chat_without_top_logprobs_tells_the_tokens_alone(client: OpenAI) -> None:
    answer = client.chat.completions.create(model=MODEL, messages=HELLO, max_tokens=2, logprobs=True)
    logprobs = answer.choices[0].logprobs
    assert logprobs is not None
    assert [each.top_logprobs for each in logprobs.content or []] == [[], []]
    without = client.chat.completions.create(model=MODEL, messages=HELLO, max_tokens=2)
    assert without.choices[0].logprobs is None


@pytest.mark.parametrize("extra", [{}, RARE], ids=["letters", "bytes"])
def test_a_chat_s_stream_tells_the_same_with_the_step_of_each_token(client: OpenAI, extra: dict[str, object]) -> None:
    whole = client.chat.completions.create(
        model=MODEL, messages=HELLO, max_tokens=12, temperature=0, logprobs=True, top_logprobs=2, extra_body=extra
    )
    chunks = list(
        client.chat.completions.create(
            model=MODEL,
            messages=HELLO,
            max_tokens=12,
            temperature=0,
            logprobs=True,
            top_logprobs=2,
            extra_body=extra,
            stream=True,
        )
    )
    told: list[ChatCompletionTokenLogprob] = []
    for chunk in chunks:
        (choice,) = chunk.choices
        told += (choice.logprobs.content or []) if choice.logprobs else []
    logprobs = whole.choices[0].logprobs
    assert logprobs is not None
    assert [each.bytes for each in told] == [each.bytes for each in logprobs.content or []]
    assert [each.logprob for each in told] == pytest.approx([each.logprob for each in logprobs.content or []], abs=1e-3)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    assert text == whole.choices[0].message.content


def test_completions_have_the_older_form(client: OpenAI) -> None:
    answer = client.completions.create(model=MODEL, prompt="Once upon", max_tokens=6, temperature=0, logprobs=2)
    (choice,) = answer.choices
    logprobs = choice.logprobs
    assert logprobs is not None
    assert logprobs.tokens is not None
    assert logprobs.text_offset is not None
    assert logprobs.top_logprobs is not None
    assert logprobs.token_logprobs is not None
    assert "".join(logprobs.tokens) == choice.text
    assert [choice.text[at : at + 1] for at in logprobs.text_offset] == [token[:1] for token in logprobs.tokens]
    for token, value, top in zip(logprobs.tokens, logprobs.token_logprobs, logprobs.top_logprobs, strict=True):
        assert len(top) == 2
        assert top[token] == value


def test_the_token_is_among_the_top_even_where_it_is_not_likely(client: OpenAI, replica: Replica) -> None:
    (unlikely,) = replica.model.tokenizer.encode("#", add_special_tokens=False)
    answer = client.completions.create(
        model=MODEL, prompt="Once", max_tokens=1, logprobs=1, extra_body={"allowed_token_ids": [unlikely]}
    )
    logprobs = answer.choices[0].logprobs
    assert logprobs is not None
    (top,) = logprobs.top_logprobs or []
    assert len(top) == 2
    assert "#" in top


def test_completions_name_pieces_of_characters_by_their_bytes(client: OpenAI) -> None:
    answer = client.completions.create(
        model=MODEL, prompt="Once", max_tokens=8, temperature=0, logprobs=0, extra_body=RARE
    )
    (choice,) = answer.choices
    assert choice.text == "a\U00012000b"
    assert choice.logprobs is not None
    first, *pieces, last = choice.logprobs.tokens or []
    assert (first, last) == ("a", "b")
    assert "".join(piece.removeprefix("bytes:") for piece in pieces) == "\\xf0\\x92\\x80\\x80"
    assert all(piece.startswith("bytes:") for piece in pieces)
    assert choice.logprobs.text_offset == [0, *(1 for _ in pieces), 2]
    assert choice.logprobs.top_logprobs is None


def test_a_completion_s_stream_tells_the_same(client: OpenAI) -> None:
    asked: dict[str, Any] = {"model": MODEL, "prompt": "Once", "max_tokens": 8, "temperature": 0, "logprobs": 1}
    for extra in ({}, {"echo": True}):
        whole = client.completions.create(**asked, **extra).choices[0]
        stream = client.completions.create(**asked, **extra, stream=True)
        parts = [chunk.choices[0] for chunk in stream]
        assert "".join(part.text for part in parts) == whole.text
        told = [part.logprobs for part in parts if part.logprobs is not None]
        assert whole.logprobs is not None
        assert [token for each in told for token in each.tokens or []] == whole.logprobs.tokens
        assert [at for each in told for at in each.text_offset or []] == whole.logprobs.text_offset


@pytest.mark.parametrize("as_tokens", [False, True])
def test_echo_puts_the_prompt_before_the_answer(client: OpenAI, replica: Replica, as_tokens: bool) -> None:
    text = "Grüße, 世界"
    prompt: Any = replica.model.tokenizer.encode(text, add_special_tokens=False) if as_tokens else text
    plain = client.completions.create(model=MODEL, prompt=prompt, max_tokens=5, temperature=0, n=2)
    echoed = client.completions.create(model=MODEL, prompt=prompt, max_tokens=5, temperature=0, n=2, echo=True)
    assert [choice.text for choice in echoed.choices] == [text + choice.text for choice in plain.choices]
    stream = client.completions.create(model=MODEL, prompt=prompt, max_tokens=5, temperature=0, echo=True, stream=True)
    first, *rest = (chunk.choices[0].text for chunk in stream)
    assert first.startswith(text)
    assert "".join([first, *rest]) == echoed.choices[0].text


def test_echo_with_logprobs_tells_the_prompt_s_too_for_every_choice(client: OpenAI) -> None:
    text = "Grüße, 世界"
    answer = client.completions.create(
        model=MODEL, prompt=text, max_tokens=3, temperature=0, n=2, echo=True, logprobs=1
    )
    for choice in answer.choices:
        logprobs = choice.logprobs
        assert logprobs is not None
        assert logprobs.token_logprobs is not None
        assert logprobs.tokens is not None
        assert logprobs.top_logprobs is not None
        assert logprobs.text_offset is not None
        assert logprobs.token_logprobs[0] is None
        assert logprobs.top_logprobs[0] is None
        assert all(value is not None and value <= 0 for value in logprobs.token_logprobs[1:])
        assert logprobs.text_offset == sorted(logprobs.text_offset)
        assert logprobs.text_offset[-3] == len(text), "there the answer begins, of three tokens"
        for token, at in zip(logprobs.tokens, logprobs.text_offset, strict=True):
            assert token.startswith("bytes:") or choice.text.startswith(token, at)


def test_a_token_s_logprob_is_one_whether_it_was_generated_or_given(client: OpenAI) -> None:
    said = client.completions.create(model=MODEL, prompt="Once", max_tokens=6, temperature=0, logprobs=0)
    logprobs = said.choices[0].logprobs
    assert logprobs is not None
    given = client.completions.create(
        model=MODEL, prompt="Once" + said.choices[0].text, max_tokens=0, echo=True, logprobs=0
    )
    again = given.choices[0].logprobs
    assert again is not None
    assert again.token_logprobs is not None
    assert again.token_logprobs[-6:] == pytest.approx(logprobs.token_logprobs, abs=0.02)


@pytest.mark.parametrize("stream", [False, True])
def test_nothing_is_generated_where_nothing_was_asked_for(http: httpx.Client, stream: bool) -> None:
    body = {"model": MODEL, "prompt": "Once", "max_tokens": 0, "echo": True, "logprobs": 1, "min_tokens": 0}
    if not stream:
        answer = http.post("/v1/completions", json=body).json()
        (choice,) = answer["choices"]
        assert (choice["text"], choice["finish_reason"], choice["stop_reason"]) == ("Once", "length", None)
        assert len(choice["logprobs"]["tokens"]) == answer["usage"]["prompt_tokens"]
        assert answer["usage"]["completion_tokens"] == 0
        return
    text = http.post("/v1/completions", json=body | {"stream": True}).text
    assert text.count("data: ") == 2
    assert '"text":"Once","finish_reason":"length"' in text


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("/v1/completions", {"prompt": "Once upon a time"}),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "hi"}]}),
    ],
)
def test_prompt_logprobs_are_vllms(http: httpx.Client, path: str, fields: dict[str, object]) -> None:
    body = {"model": MODEL, "n": 2, "max_tokens": 1, "temperature": 0, "prompt_logprobs": 2}
    answer = http.post(path, json=body | fields).json()
    holders = answer["choices"] if path == "/v1/completions" else [answer]
    for holder in holders:
        first, *rest = holder["prompt_logprobs"]
        assert first is None
        assert len(rest) == answer["usage"]["prompt_tokens"] - 1
        for entry in rest:
            assert 2 <= len(entry) <= 3
            assert {1, 2} <= {told["rank"] for told in entry.values()}
            assert all(told["logprob"] <= 0 and isinstance(told["decoded_token"], str) for told in entry.values())
    without = http.post(path, json={"model": MODEL, "max_tokens": 1} | fields).json()
    assert "prompt_logprobs" not in without
    assert "prompt_logprobs" not in without["choices"][0]


def test_a_suffix_is_refused_with_its_reason(client: OpenAI) -> None:
    with pytest.raises(BadRequestError, match="fills in the middle") as raised:
        client.completions.create(model=MODEL, prompt="a", suffix="b")
    assert raised.value.param == "suffix"
