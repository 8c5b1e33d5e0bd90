"""What a request's fields become for the engine."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from litestar.datastructures import Headers
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit

from forebay.api.completions import CompletionRequest
from forebay.api.decoding import decode
from forebay.core.errors import InvalidRequest
from forebay.engine.request import GenerationRequest, PriorityClass, SamplingParams
from forebay.modelfiles.loading import load
from forebay.modelfiles.model import ModelFiles
from forebay.modelfiles.tokenizer import ModelTokenizer
from forebay.replica.generation import (
    PUBLIC_PREFIX_HEADER,
    generation_requests,
    public_prefix_tokens,
    sampling_params,
    served_tier,
    within_window,
)
from forebay.replica.settings import ReplicaSettings
from forebay.replica.vocabulary import Vocabulary
from tests.support.tiny_chat_model import write_tiny_chat_model

LAST = 257
"""The tiny model's last token: it has one for each byte and two special ones."""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> ModelFiles:
    folder: Path = write_tiny_chat_model(tmp_path_factory.mktemp("model") / "tiny")
    return load(str(folder), folder)


@pytest.fixture(scope="module")
def vocabulary(model: ModelFiles) -> Vocabulary:
    return Vocabulary(model)


def request(fields: str) -> CompletionRequest:
    return decode(f'{{"model": "m", "prompt": [1, 2, 3]{", " if fields else ""}{fields}}}'.encode(), CompletionRequest)


def groups(fields: str, sampling: SamplingParams, prompts: list[list[int]]) -> list[list[GenerationRequest]]:
    return generation_requests("id", request(fields), prompts, sampling, 0)


@pytest.fixture
def generation(vocabulary: Vocabulary) -> Callable[..., GenerationRequest]:
    def made(fields: str = "", public: int = 0) -> GenerationRequest:
        asked = request(fields)
        sampling = sampling_params(asked, 16, vocabulary)
        ((single,),) = generation_requests("id", asked, [[1, 2, 3]], sampling, public)
        return single

    return made


Generation = Callable[..., GenerationRequest]


def test_what_is_not_said_is_openais_default(generation: Generation) -> None:
    assert generation() == GenerationRequest(
        request_id="id",
        prompt_token_ids=(1, 2, 3),
        sampling=SamplingParams(max_tokens=16, temperature=1.0, top_k=0, top_p=1.0, seed=None, stop=()),
        priority=PriorityClass.INTERACTIVE,
        cache_salt="",
        public_prefix_tokens=0,
    )


def test_what_is_said_arrives(generation: Generation) -> None:
    said = generation(
        '"temperature": 0, "top_k": 5, "top_p": 0.5, "min_p": 0.1, "seed": 7, "stop": ["a", "b"], "priority": -3, '
        '"cache_salt": "s", "ignore_eos": true, "min_tokens": 2, "repetition_penalty": 1.5, "presence_penalty": -1, '
        '"frequency_penalty": 0.5, "logit_bias": {"7": -100, "8": 1.5}, "allowed_token_ids": [7, 8, 7], '
        '"stop_token_ids": [9], "include_stop_str_in_output": true, "skip_special_tokens": false, "prompt_logprobs": 3'
    )
    assert said.sampling == SamplingParams(
        max_tokens=16,
        min_tokens=2,
        temperature=0,
        top_k=5,
        top_p=0.5,
        min_p=0.1,
        repetition_penalty=1.5,
        presence_penalty=-1,
        frequency_penalty=0.5,
        logit_bias=((7, -100), (8, 1.5)),
        allowed_token_ids=frozenset({7, 8}),
        seed=7,
        stop=("a", "b"),
        stop_token_ids=frozenset({9}),
        include_stop_str_in_output=True,
        ignore_eos=True,
        skip_special_tokens=False,
        prompt_logprobs=3,
    )
    assert said.priority == -3
    assert said.cache_salt == "s"


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        (f'"logit_bias": {{"0": 1, "{LAST + 1}": 1}}', f"logit_bias.{LAST + 1}"),
        ('"logit_bias": {"7": 1, "07": 1}', "logit_bias.07"),
        (f'"allowed_token_ids": [0, {LAST + 1}]', "allowed_token_ids[1]"),
        (f'"stop_token_ids": [{LAST}, {2**31 - 1}]', "stop_token_ids[1]"),
        ('"min_tokens": 17', "min_tokens"),
    ],
)
def test_what_the_model_has_not_is_named(generation: Generation, fields: str, param: str) -> None:
    with pytest.raises(InvalidRequest) as raised:
        generation(fields)
    assert raised.value.param == param
    assert param in raised.value.detail


def test_what_the_model_has_is_taken(generation: Generation) -> None:
    said = generation(f'"logit_bias": {{"{LAST}": 1}}, "allowed_token_ids": [{LAST}], "min_tokens": 16')
    assert said.sampling.logit_bias == ((LAST, 1),)


def test_a_bad_word_is_banned_at_the_beginning_and_after_a_blank(model: ModelFiles, generation: Generation) -> None:
    written = tuple(model.tokenizer.encode("no", add_special_tokens=False))
    for word in ("no", " no"):
        assert generation(f'"bad_words": ["{word}"]').sampling.bad_words == (written,)


@pytest.mark.parametrize("word", ["\\n", " ", " \\n\\t"])
def test_whitespace_alone_is_a_bad_word_too(model: ModelFiles, generation: Generation, word: str) -> None:
    (banned,) = generation(f'"bad_words": ["{word}"]').sampling.bad_words
    assert model.tokenizer.decode(banned) == json.loads(f'"{word}"')


def test_a_bad_word_that_the_model_cannot_write_is_named(model: ModelFiles) -> None:
    cutting = Tokenizer(WordLevel({"a": 0, "?": 1}, unk_token="?"))
    cutting.pre_tokenizer = WhitespaceSplit()  # type: ignore[assignment]
    vocabulary = Vocabulary(replace(model, tokenizer=ModelTokenizer(cutting)))
    with pytest.raises(InvalidRequest) as raised:
        sampling_params(request('"bad_words": ["a", "\\n"]'), 16, vocabulary)
    assert raised.value.param == "bad_words[1]"


@pytest.mark.parametrize(
    ("fields", "drawn"),
    [
        ("1e-307", 0.0),
        ("9e-6", 0.0),
        ("0", 0.0),
        ("1e-5", 0.01),
        ("0.009", 0.01),
        ("0.01", 0.01),
        ("0.5", 0.5),
        ("null", 1.0),
    ],
)
def test_a_temperature_that_is_almost_none_is_none_or_the_least(
    generation: Generation, fields: str, drawn: float
) -> None:
    assert generation(f'"temperature": {fields}').sampling.temperature == drawn


def test_a_repetition_penalty_never_divides_by_almost_nothing(generation: Generation) -> None:
    assert generation('"repetition_penalty": 1e-307').sampling.repetition_penalty == 0.01
    assert generation('"repetition_penalty": 0.5').sampling.repetition_penalty == 0.5


@pytest.mark.parametrize(("window", "limit"), [(100, 16), (19, 16), (18, 15), (4, 1), (3, None), (2, None)])
def test_the_default_of_tokens_is_what_the_window_leaves(
    generation: Generation, window: int, limit: int | None
) -> None:
    made = within_window(generation(), 16, window)
    assert made.sampling.max_tokens == limit
    assert made.prompt_token_ids == (1, 2, 3)


@pytest.mark.parametrize(
    ("fields", "priority", "told"),
    [
        ("", 0, None),
        ('"service_tier": "priority"', 0, "priority"),
        ('"service_tier": "auto"', 1, "default"),
        ('"service_tier": "default"', 1, "default"),
        ('"service_tier": "scale"', 1, "scale"),
        ('"service_tier": "flex"', 2, "flex"),
        ('"service_tier": "flex", "priority": 0', 0, "flex"),
    ],
)
def test_a_tier_stands_for_a_class_unless_a_priority_says_one(
    generation: Generation, fields: str, priority: int, told: str | None
) -> None:
    assert generation(fields).priority == priority
    assert served_tier(request(fields)) == told


def test_each_prompt_has_its_choices_with_seeds_of_their_own() -> None:
    sampling = SamplingParams(seed=2**64 - 1, prompt_logprobs=2)
    made = groups('"n": 3', sampling, [[1, 2], [3]])
    assert [[each.prompt_token_ids for each in group] for group in made] == [[(1, 2)] * 3, [(3,)] * 3]
    assert [[each.sampling.seed for each in group] for group in made] == [[2**64 - 1, 0, 1]] * 2
    assert [[each.sampling.prompt_logprobs for each in group] for group in made] == [[2, None, None]] * 2
    assert len({each.request_id for group in made for each in group}) == 6


def test_choices_without_a_seed_have_none() -> None:
    ((*several,),) = groups('"n": 2', SamplingParams(), [[1]])
    assert [each.sampling.seed for each in several] == [None, None]


@pytest.mark.parametrize("top_k", [0, -1])
def test_both_ways_of_saying_no_top_k(generation: Generation, top_k: int) -> None:
    assert generation(f'"top_k": {top_k}').sampling.top_k == 0


@pytest.mark.parametrize(("seed", "unsigned"), [(0, 0), (-1, 2**64 - 1), (2**63 - 1, 2**63 - 1), (-(2**63), 2**63)])
def test_each_signed_seed_is_an_unsigned_one_of_its_own(generation: Generation, seed: int, unsigned: int) -> None:
    assert generation(f'"seed": {seed}').sampling.seed == unsigned


def test_a_public_prefix_is_at_most_the_prompt(generation: Generation) -> None:
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
