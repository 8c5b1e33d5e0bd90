"""What a request's fields become for the engine."""

import pytest
from litestar.datastructures import Headers

from forebay.api.completions import CompletionRequest
from forebay.api.decoding import decode
from forebay.core.errors import InvalidRequest
from forebay.engine.request import GenerationRequest, PriorityClass, SamplingParams
from forebay.replica.generation import PUBLIC_PREFIX_HEADER, generation_request, public_prefix_tokens
from forebay.replica.settings import ReplicaSettings


def generation(fields: str = "", public: int = 0) -> GenerationRequest:
    body = f'{{"model": "m", "prompt": [1, 2, 3]{", " if fields else ""}{fields}}}'
    return generation_request("id", decode(body.encode(), CompletionRequest), [1, 2, 3], 16, public)


def test_what_is_not_said_is_openais_default() -> None:
    assert generation() == GenerationRequest(
        request_id="id",
        prompt_token_ids=(1, 2, 3),
        sampling=SamplingParams(max_tokens=16, temperature=1.0, top_k=0, top_p=1.0, seed=None, stop=()),
        priority=PriorityClass.INTERACTIVE,
        cache_salt="",
        public_prefix_tokens=0,
    )


def test_what_is_said_arrives() -> None:
    said = generation(
        '"temperature": 0, "top_k": 5, "top_p": 0.5, "seed": 7, "stop": ["a", "b"], "priority": -3, "cache_salt": "s", '
        '"ignore_eos": true'
    )
    assert said.sampling == SamplingParams(
        max_tokens=16, temperature=0, top_k=5, top_p=0.5, seed=7, stop=("a", "b"), ignore_eos=True
    )
    assert said.priority == -3
    assert said.cache_salt == "s"


@pytest.mark.parametrize("top_k", [0, -1])
def test_both_ways_of_saying_no_top_k(top_k: int) -> None:
    assert generation(f'"top_k": {top_k}').sampling.top_k == 0


@pytest.mark.parametrize(("seed", "unsigned"), [(0, 0), (-1, 2**64 - 1), (2**63 - 1, 2**63 - 1), (-(2**63), 2**63)])
def test_each_signed_seed_is_an_unsigned_one_of_its_own(seed: int, unsigned: int) -> None:
    assert generation(f'"seed": {seed}').sampling.seed == unsigned


def test_a_public_prefix_is_at_most_the_prompt() -> None:
    assert generation(public=2).public_prefix_tokens == 2
    assert generation(public=9).public_prefix_tokens == 3


@pytest.mark.parametrize(("value", "tokens"), [("0", 0), ("12", 12), (None, 0)])
def test_the_header_is_a_count(value: str | None, tokens: int) -> None:
    headers = Headers({} if value is None else {PUBLIC_PREFIX_HEADER: value})
    assert public_prefix_tokens(headers, ReplicaSettings(trust_public_prefix=True)) == tokens
    assert public_prefix_tokens(headers, ReplicaSettings()) == 0


@pytest.mark.parametrize("value", ["", "-1", "1.5", "ten", "٣", "1" * 11])
def test_a_header_that_is_no_count_is_refused_where_it_is_believed(value: str) -> None:
    headers = Headers({PUBLIC_PREFIX_HEADER: value})
    with pytest.raises(InvalidRequest):
        public_prefix_tokens(headers, ReplicaSettings(trust_public_prefix=True))
    assert public_prefix_tokens(headers, ReplicaSettings()) == 0
