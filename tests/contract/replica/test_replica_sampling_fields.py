"""What the fields of sampling and of ending do to an answer."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from openai import OpenAI
from openai.types.chat import ChatCompletionMessageParam

from tests.contract.replica.conftest import MODEL, Replica

HELLO: list[ChatCompletionMessageParam] = [{"role": "user", "content": "Say something."}]
BODY: dict[str, Any] = {"model": MODEL, "messages": HELLO, "temperature": 0, "max_tokens": 12}


def say(http: httpx.Client, **fields: object) -> tuple[str, str, object, int]:
    """Text, finish_reason, stop_reason and completion tokens of a chat, whole; its stream must say the same."""
    response = http.post("/v1/chat/completions", json=BODY | fields)
    assert response.status_code == 200, response.text
    answer = response.json()
    (choice,) = answer["choices"]
    with OpenAI(base_url=f"{http.base_url}/v1", api_key="unused", max_retries=0) as client:
        stream = client.chat.completions.create(**BODY, stream=True, extra_body=fields)
        chunks = [chunk.choices[0] for chunk in stream]
    text = choice["message"]["content"]
    assert "".join(chunk.delta.content or "" for chunk in chunks) == text
    assert chunks[-1].finish_reason == choice["finish_reason"]
    assert (chunks[-1].model_extra or {})["stop_reason"] == choice["stop_reason"]
    return text, choice["finish_reason"], choice["stop_reason"], answer["usage"]["completion_tokens"]


@pytest.fixture
def eos(replica: Replica) -> int:
    return min(replica.model.eos_token_ids)


def tokens_of(replica: Replica, text: str) -> list[int]:
    return replica.model.tokenizer.encode(text, add_special_tokens=False)


def token(replica: Replica, letter: str) -> int:
    return tokens_of(replica, letter)[-1]


def test_a_bias_forces_a_token(http: httpx.Client, replica: Replica) -> None:
    text, reason, _, tokens = say(http, logit_bias={str(token(replica, "#")): 100})
    assert (text, reason, tokens) == ("#" * 12, "length", 12)


def test_a_bias_bans_a_token(http: httpx.Client, replica: Replica) -> None:
    free, *_ = say(http)
    without, *_ = say(http, logit_bias={str(token(replica, free[0])): -100})
    assert free[0] not in without


def test_only_allowed_tokens_are_drawn(http: httpx.Client, replica: Replica) -> None:
    text, *_ = say(http, allowed_token_ids=[token(replica, "#"), token(replica, "%")], temperature=1.5, seed=3)
    assert set(text) == {"#", "%"}


def test_bad_words_are_not_written(http: httpx.Client, replica: Replica) -> None:
    free, *_ = say(http)
    word = replica.model.tokenizer.decode(tokens_of(replica, free)[3:4])
    assert word in free
    assert word not in say(http, bad_words=[word])[0]


def test_penalties_keep_from_saying_it_again(http: httpx.Client) -> None:
    free, *_ = say(http, max_tokens=60)
    assert len(set(free)) < len(free)
    for name, value in (("frequency_penalty", 2), ("presence_penalty", 2), ("repetition_penalty", 5)):
        text, *_ = say(http, **{name: value, "max_tokens": 60})
        assert len(set(text)) > len(set(free)), name


def test_min_p_of_one_is_greedy(http: httpx.Client) -> None:
    assert say(http, temperature=2, min_p=1, seed=5) == say(http)


def test_the_model_s_end_token_ends_without_a_stop_reason(http: httpx.Client, eos: int) -> None:
    assert say(http, logit_bias={str(eos): 100}) == ("", "stop", None, 1)


def test_ignore_eos_goes_on(http: httpx.Client, eos: int) -> None:
    _, reason, stop_reason, tokens = say(http, logit_bias={str(eos): 100}, ignore_eos=True)
    assert (reason, stop_reason, tokens) == ("length", None, 12)


def test_min_tokens_holds_off_every_end(http: httpx.Client, replica: Replica, eos: int) -> None:
    stop = token(replica, "#")
    bias = {str(eos): 100, str(stop): 99}
    text, reason, _, tokens = say(http, logit_bias=bias, stop_token_ids=[stop], min_tokens=4)
    assert (reason, tokens) == ("stop", 5)
    assert text
    assert "#" not in text


def test_a_stop_token_is_told(http: httpx.Client, replica: Replica) -> None:
    free, *_ = say(http)
    tokens = tokens_of(replica, free)
    stop = tokens[4]
    text, reason, stop_reason, _ = say(http, stop_token_ids=[stop])
    before = replica.model.tokenizer.decode(tokens[: tokens.index(stop)])
    assert (text, reason, stop_reason) == (before, "stop", stop)


@pytest.mark.parametrize(
    ("said", "stop", "text", "stop_reason"),
    [
        ("one two", "e t", "on", "e t"),
        ("a€b", "€", "a", "€"),
        ("a€b", "€b", "a", "€b"),
        ("grün 世界!", ["x", "界"], "grün 世", "界"),
        ("ababac", "abac", "ab", "abac"),
        ("abc", ["bc", "b"], "a", "b"),
        ("ab", "abc", "ab", None),
        ("👩‍🚀x", "x", "👩‍🚀", "x"),
    ],
)
@pytest.mark.parametrize("kept", [False, True])
def test_stop_texts_across_tokens_and_characters(
    http: httpx.Client, said: str, stop: object, text: str, stop_reason: str | None, kept: bool
) -> None:
    """The structured output makes the model say `said`, byte by byte."""
    told, reason, told_reason, _ = say(
        http,
        structured_outputs={"choice": [said]},
        stop=stop,
        include_stop_str_in_output=kept,
        max_tokens=40,
    )
    assert (told, reason, told_reason) == (text + (stop_reason or "" if kept else ""), "stop", stop_reason)


def test_special_tokens_are_left_out_unless_wanted(http: httpx.Client, replica: Replica) -> None:
    special = replica.model.tokenizer.token_id("<|im_start|>")
    if special is None:
        pytest.skip("this model has no such token")
    bias = {str(special): 100}
    assert say(http, logit_bias=bias, max_tokens=2)[0] == ""
    assert say(http, logit_bias=bias, max_tokens=2, skip_special_tokens=False)[0] == "<|im_start|>" * 2


@pytest.fixture
def company(http: httpx.Client) -> Iterator[None]:
    """Other requests that run all the while."""
    bodies = [
        {"model": MODEL, "prompt": f"Number {index}", "max_tokens": 150, "temperature": 1.5, "stream": True}
        for index in range(3)
    ]
    with ThreadPoolExecutor(len(bodies)) as pool:
        running = [pool.submit(http.post, "/v1/completions", json=body) for body in bodies]
        yield
        assert all(each.result().status_code == 200 for each in running)


def test_a_seed_gives_the_same_alone_and_in_company(http: httpx.Client, request: pytest.FixtureRequest) -> None:
    fields = {"seed": 42, "temperature": 1.2, "top_p": 0.9, "max_tokens": 30}
    alone = say(http, **fields)
    request.getfixturevalue("company")
    assert say(http, **fields) == alone
