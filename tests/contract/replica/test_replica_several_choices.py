"""Several answers to one request."""

import json
from collections import defaultdict
from collections.abc import Iterable

import httpx
import pytest
from openai import BadRequestError, OpenAI
from openai.types.chat import ChatCompletionChunk, ChatCompletionMessageParam

from tests.contract.replica.conftest import MODEL, Replica
from tests.contract.replica.test_replica_disconnect import BOUND_S, begin, idle
from tests.contract.replica.test_replica_info import samples
from tests.support.running_app import eventually

HELLO: list[ChatCompletionMessageParam] = [{"role": "user", "content": "Say something."}]
CHOICES = 3


def texts_of(chunks: Iterable[ChatCompletionChunk]) -> dict[int, str]:
    """The text of each choice, whose chunks must be in order: a role first, a reason to end last."""
    texts: dict[int, str] = defaultdict(str)
    roles: set[int] = set()
    ended: set[int] = set()
    for chunk in chunks:
        (choice,) = chunk.choices
        assert choice.index not in ended
        assert (choice.delta.role == "assistant") == (choice.index not in roles)
        roles.add(choice.index)
        texts[choice.index] += choice.delta.content or ""
        if choice.finish_reason is not None:
            ended.add(choice.index)
    assert ended == roles
    return texts


def test_chat_answers_n_times_whole_and_streamed_alike(client: OpenAI) -> None:
    whole = client.chat.completions.create(
        model=MODEL, messages=HELLO, n=CHOICES, max_tokens=20, temperature=1.5, seed=11
    )
    assert [choice.index for choice in whole.choices] == list(range(CHOICES))
    texts = [choice.message.content for choice in whole.choices]
    assert len(set(texts)) == CHOICES, "each has a seed of its own"
    *chunks, usage = client.chat.completions.create(
        model=MODEL,
        messages=HELLO,
        n=CHOICES,
        max_tokens=20,
        temperature=1.5,
        seed=11,
        stream=True,
        stream_options={"include_usage": True},
    )
    assert all(chunk.usage is None for chunk in chunks)
    assert dict(texts_of(chunks)) == dict(enumerate(texts))
    assert usage.choices == []
    assert usage.usage is not None
    assert whole.usage is not None
    assert usage.usage.completion_tokens == whole.usage.completion_tokens == CHOICES * 20
    assert usage.usage.prompt_tokens == whole.usage.prompt_tokens


def test_choice_i_of_a_seeded_request_is_that_of_seed_plus_i(client: OpenAI) -> None:
    def say(seed: int, n: int) -> list[str]:
        answer = client.completions.create(
            model=MODEL, prompt="Once", n=n, seed=seed, temperature=1.5, max_tokens=20, logprobs=0
        )
        return [choice.text for choice in answer.choices]

    assert say(7, CHOICES) == [text for seed in (7, 8, 9) for text in say(seed, 1)]


def test_a_stream_of_several_is_interleaved(client: OpenAI) -> None:
    stream = client.chat.completions.create(model=MODEL, messages=HELLO, n=2, max_tokens=30, stream=True)
    order = [chunk.choices[0].index for chunk in stream]
    assert order != sorted(order)


def test_several_prompts_are_numbered_through(client: OpenAI) -> None:
    prompts = ["Once upon", "Two", "A third prompt"]
    alone = [
        client.completions.create(model=MODEL, prompt=prompt, max_tokens=8, temperature=0).choices[0].text
        for prompt in prompts
    ]
    answer = client.completions.create(model=MODEL, prompt=prompts, n=2, max_tokens=8, temperature=0)
    assert [choice.index for choice in answer.choices] == list(range(6))
    assert [choice.text for choice in answer.choices] == [text for text in alone for _ in range(2)]
    texts: dict[int, str] = defaultdict(str)
    for chunk in client.completions.create(model=MODEL, prompt=prompts, n=2, max_tokens=8, temperature=0, stream=True):
        texts[chunk.choices[0].index] += chunk.choices[0].text
    assert [texts[index] for index in range(6)] == [choice.text for choice in answer.choices]


def test_a_prompt_is_computed_once_and_counted_once(client: OpenAI, http: httpx.Client, replica: Replica) -> None:
    prompt = "A prompt that is longer than a few blocks of the cache, so that most of it is found again. " * 8
    length = len(replica.model.tokenizer.encode(prompt, add_special_tokens=True))
    before = samples(http)
    answer = client.completions.create(
        model=MODEL, prompt=prompt, n=4, max_tokens=6, extra_body={"cache_salt": "several"}
    )
    after = samples(http)
    assert answer.usage is not None
    assert answer.usage.prompt_tokens == length
    assert answer.usage.completion_tokens == sum(
        len(replica.model.tokenizer.encode(choice.text, add_special_tokens=False)) for choice in answer.choices
    )
    assert answer.usage.prompt_tokens_details is not None
    assert answer.usage.prompt_tokens_details.cached_tokens == 0
    hits = after["vllm:prefix_cache_hits_total", None] - before["vllm:prefix_cache_hits_total", None]
    assert hits >= 3 * 0.7 * length


@pytest.mark.parametrize(
    "prompt", [["a", [10**7]], ["a", ""], [[1, 2], []], ["a"] * 2 + [[1] * 9000]], ids=["unknown", "", "[]", "long"]
)
@pytest.mark.parametrize("stream", [False, True])
def test_one_prompt_that_cannot_be_run_refuses_all(client: OpenAI, prompt: list[object], stream: bool) -> None:
    with pytest.raises(BadRequestError) as raised:
        client.post("/completions", body={"model": MODEL, "prompt": prompt, "stream": stream}, cast_to=object)
    assert raised.value.code == "context_length_exceeded" or (raised.value.param or "").startswith("prompt[1]")


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_leaves_ends_all_its_choices(replica: Replica, http: httpx.Client, stream: bool) -> None:
    eventually("nothing runs before", lambda: idle(replica))
    before = samples(http)
    connection = begin(
        replica, "/v1/completions", prompt=["Once", "Twice"], n=2, stream=stream, ignore_eos=True, max_tokens=5000
    )
    eventually("all run", lambda: replica.engine.stats().running == 4)
    connection.close()
    eventually("its blocks are free", lambda: idle(replica), BOUND_S)
    key = ("vllm:request_success_total", "abort")
    eventually("all are counted", lambda: samples(http)[key] == before[key] + 4)


def test_a_client_that_leaves_in_the_middle_of_a_stream_ends_all_its_choices(replica: Replica) -> None:
    eventually("nothing runs before", lambda: idle(replica))
    connection = begin(
        replica, "/v1/chat/completions", messages=HELLO, n=4, stream=True, ignore_eos=True, max_tokens=5000
    )
    received = b""
    while b'"index":3' not in received:
        received += connection.recv(65536)
    connection.close()
    eventually("its blocks are free", lambda: idle(replica), BOUND_S)


def test_more_choices_than_the_engine_has_places_come_all(http: httpx.Client) -> None:
    body = {"model": MODEL, "prompt": [f"{index}" for index in range(8)], "n": 3, "max_tokens": 3, "temperature": 0}
    answer = http.post("/v1/completions", content=json.dumps(body)).json()
    assert [choice["index"] for choice in answer["choices"]] == list(range(24))
    assert all(choice["finish_reason"] == "length" for choice in answer["choices"])
