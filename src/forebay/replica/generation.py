"""From a decoded request to the engine's."""

from collections.abc import Sequence
from dataclasses import replace

from litestar.datastructures import Headers

from forebay.api.generation import PUBLIC_PREFIX_HEADER, GenerationFields, ServiceTier
from forebay.core.errors import InvalidRequest
from forebay.engine.request import GenerationRequest, PriorityClass, SamplingParams
from forebay.replica.settings import ReplicaSettings
from forebay.replica.vocabulary import Vocabulary

GREEDY_BELOW = 1e-5
LEAST_TEMPERATURE = 0.01
LEAST_REPETITION_PENALTY = 0.01
"""What logits are divided by is never so small that they could no longer be told apart, or be written at all."""

_SEEDS = 2**64

TIER_CLASSES: dict[ServiceTier, PriorityClass] = {
    "priority": PriorityClass.INTERACTIVE,
    "auto": PriorityClass.STANDARD,
    "default": PriorityClass.STANDARD,
    "scale": PriorityClass.STANDARD,
    "flex": PriorityClass.BATCH,
}


def generation_requests(
    answer_id: str,
    fields: GenerationFields,
    prompts: Sequence[Sequence[int]],
    sampling: SamplingParams,
    public_prefix_tokens: int,
) -> list[list[GenerationRequest]]:
    """What the engine is to run: for each prompt (token ids) its `n` generations.

    The i-th of a seeded request has the seed + i. The first alone tells the log-probabilities of the prompt, which are
    the same for all.
    """
    priority = _priority(fields)
    several = len(prompts) * fields.num_choices > 1

    def request(prompt: Sequence[int], number: int, choice: int) -> GenerationRequest:
        return GenerationRequest(
            request_id=f"{answer_id}-{choice}" if several else answer_id,
            prompt_token_ids=tuple(prompt),
            sampling=_of_sibling(sampling, number) if number else sampling,
            priority=priority,
            cache_salt=fields.cache_salt or "",
            public_prefix_tokens=min(public_prefix_tokens, len(prompt)),
        )

    n = fields.num_choices
    return [[request(prompt, number, at * n + number) for number in range(n)] for at, prompt in enumerate(prompts)]


def within_window(request: GenerationRequest, max_tokens: int, window: int) -> GenerationRequest:
    """With as many of `max_tokens` as its prompt leaves of the `window`. Where that is none, the engine says so."""
    room = window - len(request.prompt_token_ids)
    sampling = replace(request.sampling, max_tokens=min(max_tokens, room) if room >= 1 else None)
    return replace(request, sampling=sampling)


def _of_sibling(sampling: SamplingParams, number: int) -> SamplingParams:
    seed = None if sampling.seed is None else (sampling.seed + number) % _SEEDS
    return replace(sampling, seed=seed, prompt_logprobs=None)


def _priority(fields: GenerationFields) -> int:
    if fields.priority is not None:
        return fields.priority
    return PriorityClass.INTERACTIVE if fields.service_tier is None else TIER_CLASSES[fields.service_tier]


def served_tier(fields: GenerationFields) -> ServiceTier | None:
    """What an answer calls the tier that its request asked for, where it did."""
    return "default" if fields.service_tier == "auto" else fields.service_tier


def sampling_params(fields: GenerationFields, max_tokens: int | None, vocabulary: Vocabulary) -> SamplingParams:
    """What both kinds of completions say of sampling. Raises InvalidRequest where they name a token that is not there,
    and where `min_tokens` is more than `max_tokens`.
    """
    if max_tokens is not None and (fields.min_tokens or 0) > max_tokens:
        raise InvalidRequest(
            f"min_tokens: {fields.min_tokens} is more than the {max_tokens} tokens that the answer may have; lower it, "
            "or raise max_tokens.",
            param="min_tokens",
        )
    allowed = fields.allowed_token_ids
    vocabulary.require_all(allowed or (), "allowed_token_ids")
    vocabulary.require_all(fields.stop_token_ids or (), "stop_token_ids")
    return SamplingParams(
        max_tokens=max_tokens,
        min_tokens=fields.min_tokens or 0,
        temperature=_temperature(fields),
        top_k=max(fields.top_k or 0, 0),
        top_p=_or(fields.top_p, 1.0),
        min_p=fields.min_p or 0.0,
        repetition_penalty=max(_or(fields.repetition_penalty, 1.0), LEAST_REPETITION_PENALTY),
        presence_penalty=fields.presence_penalty or 0.0,
        frequency_penalty=fields.frequency_penalty or 0.0,
        logit_bias=_logit_bias(fields, vocabulary),
        allowed_token_ids=None if allowed is None else frozenset(allowed),
        bad_words=_bad_words(fields, vocabulary),
        # OpenAI and vLLM take negative seeds; the engine's are unsigned.
        seed=None if fields.seed is None else fields.seed % _SEEDS,
        stop=fields.stop_strings,
        stop_token_ids=frozenset(fields.stop_token_ids or ()),
        include_stop_str_in_output=bool(fields.include_stop_str_in_output),
        ignore_eos=bool(fields.ignore_eos),
        skip_special_tokens=fields.skip_special_tokens is not False,
        prompt_logprobs=fields.prompt_logprobs,
    )


def _temperature(fields: GenerationFields) -> float:
    asked = _or(fields.temperature, 1.0)
    return 0.0 if asked < GREEDY_BELOW else max(asked, LEAST_TEMPERATURE)


def _or(value: float | None, default: float) -> float:
    return default if value is None else value


def _logit_bias(fields: GenerationFields, vocabulary: Vocabulary) -> tuple[tuple[int, float], ...]:
    biases: dict[int, float] = {}
    for name, bias in (fields.logit_bias or {}).items():
        where = f"logit_bias.{name}"
        vocabulary.require(int(name), where)
        if int(name) in biases:
            raise InvalidRequest(f"{where}: token {int(name)} is there twice; give it one bias.", param=where)
        biases[int(name)] = bias
    return tuple(biases.items())


def _bad_words(fields: GenerationFields, vocabulary: Vocabulary) -> tuple[tuple[int, ...], ...]:
    found: list[tuple[int, ...]] = []
    for index, word in enumerate(fields.bad_words or ()):
        spellings = vocabulary.spellings(word)
        if not spellings:
            where = f"bad_words[{index}]"
            raise InvalidRequest(f"{where}: the model has no tokens for {word[:100]!r}; leave it out.", param=where)
        found += spellings
    return tuple(found)


def public_prefix_tokens(headers: Headers, settings: ReplicaSettings) -> int:
    """What the gateway says of the prompt, where it is to be believed. Raises InvalidRequest where that is no count."""
    given = headers.get(PUBLIC_PREFIX_HEADER)
    if given is None or not settings.trust_public_prefix:
        return 0
    if not (given.isascii() and given.isdecimal() and len(given) <= 10):
        raise InvalidRequest(
            f"{PUBLIC_PREFIX_HEADER} must be a number of tokens, 0 or more.", param=PUBLIC_PREFIX_HEADER
        )
    return int(given)
