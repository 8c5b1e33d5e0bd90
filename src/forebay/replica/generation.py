"""From a decoded request to the engine's."""

from litestar.datastructures import Headers

from forebay.api.generation import GenerationFields
from forebay.core.errors import InvalidRequest
from forebay.engine.request import GenerationRequest, PriorityClass, SamplingParams
from forebay.replica.settings import ReplicaSettings

PUBLIC_PREFIX_HEADER = "X-Forebay-Public-Prefix-Tokens"
"""How many of the prompt's leading tokens are a registered platform prompt. For gateways; a client cannot say it."""

_SEEDS = 2**64


def generation_request(
    request_id: str,
    fields: GenerationFields,
    prompt_token_ids: list[int],
    max_tokens: int | None,
    public_prefix_tokens: int,
) -> GenerationRequest:
    """What the engine is to run."""
    return GenerationRequest(
        request_id=request_id,
        prompt_token_ids=tuple(prompt_token_ids),
        sampling=_sampling(fields, max_tokens),
        priority=PriorityClass.INTERACTIVE if fields.priority is None else fields.priority,
        cache_salt=fields.cache_salt or "",
        public_prefix_tokens=min(public_prefix_tokens, len(prompt_token_ids)),
    )


def _sampling(fields: GenerationFields, max_tokens: int | None) -> SamplingParams:
    return SamplingParams(
        max_tokens=max_tokens,
        temperature=1.0 if fields.temperature is None else fields.temperature,
        top_k=max(fields.top_k or 0, 0),
        top_p=1.0 if fields.top_p is None else fields.top_p,
        # OpenAI and vLLM take negative seeds; the engine's are unsigned.
        seed=None if fields.seed is None else fields.seed % _SEEDS,
        stop=fields.stop_strings,
        ignore_eos=bool(fields.ignore_eos),
    )


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
