"""Who is let in with what: the prompt is counted, the quotas looked up, and what the request may use is reserved."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from forebay.core.errors import CapacityUnavailable, InvalidRequest
from forebay.fleet.pool import Pool
from forebay.metering.pricing import PriceBook, PriceTerms, most_prompt_nanos, nanos_per_output_token
from forebay.prompting.counting import PromptCount, PromptCounter
from forebay.serving.output_ask import OutputAsk, output_ask
from forebay.serving.refusals import refusal
from forebay.serving.request import InferenceRequest
from forebay.tenancy.directory import Directory
from forebay.tenancy.reservation.expected import OutputLengths
from forebay.tenancy.reservation.lease import Ask, Granted, Refused, ReservationStore

UNKNOWN_WINDOW = 4096
"""Output tokens to make room for where neither the caller nor the pool says how many there may be."""

LOADING_RETRY_S = 2.0


class Configuration(Protocol):
    """What operators have configured, as of now; see `administration.snapshot.PlatformSnapshot`."""

    @property
    def directory(self) -> Directory: ...

    @property
    def prices(self) -> PriceBook: ...

    def prompts_for(self, alias: str) -> Sequence[str]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Admissible:
    """A request that may be let in if its quotas cover it: what it asks for, and at what price."""

    prompt: PromptCount
    output: OutputAsk
    terms: PriceTerms
    ask: Ask
    output_cap: int | None
    """For each answer, by the quotas; None where none is set or the caller asks for less."""
    output_room: int | None
    """For each answer: it ends there, or before; None where that is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Admitted:
    """A request that holds its lease. `output_cap` is what each of its answers is cut at by us, `extends` whether it
    holds less than it may use, so that more must be taken while it runs.
    """

    admissible: Admissible
    granted: Granted
    output_cap: int | None
    extends: bool


class Admission:
    """Sizes requests and reserves for them. `counters` has the prompt counter of each pool, once it is loaded."""

    def __init__(
        self,
        configuration: Callable[[], Configuration],
        counters: Mapping[str, PromptCounter],
        reservations: ReservationStore,
        lengths: OutputLengths,
        unix_time: Callable[[], float],
    ) -> None:
        self._configuration = configuration
        self._counters = counters
        self._reservations = reservations
        self._lengths = lengths
        self._unix_time = unix_time

    async def size(self, request: InferenceRequest, pool: Pool) -> Admissible:
        """Raises what refuses a request that no quota could let in, and CapacityUnavailable."""
        configured = self._configuration()
        output = output_ask(request.route, request.body)
        platform_prompts = configured.prompts_for(request.alias)
        prompt = await self._counter(pool).count(request.route, request.body, platform_prompts)
        cap = configured.directory.max_tokens(request.principal, request.alias)
        if cap is not None and output.max_tokens is not None and output.max_tokens > cap:
            raise InvalidRequest(
                f"{output.max_tokens_field}: {output.max_tokens} is more than the {cap} that this key may ask of "
                f"{request.alias} at once; lower it.",
                param=output.max_tokens_field,
            )
        terms = configured.prices.at(pool.name, request.priority, self._unix_time())
        limits = (self._room(pool, prompt), output.unasked if output.max_tokens is None else output.max_tokens, cap)
        room = min((limit for limit in limits if limit is not None), default=None)
        least, most = self._output_tokens(request, prompt.prompts * output.choices, output, room)
        ask = Ask(
            lease_id=request.id,
            accounts=configured.directory.accounts(request.principal, request.alias),
            prompt_tokens=prompt.tokens,
            output_tokens_min=least,
            output_tokens_max=most,
            prompt_nanos=most_prompt_nanos(terms, prompt.tokens),
            nanos_per_output_token=nanos_per_output_token(terms),
        )
        # Nobody asked for what an endpoint's own default is, so a cap below it is no reason to refuse.
        cut_at = None if output.max_tokens is not None or cap is None else min(cap, output.unasked or cap)
        return Admissible(prompt=prompt, output=output, terms=terms, ask=ask, output_cap=cut_at, output_room=room)

    def _output_tokens(
        self, request: InferenceRequest, answers: int, output: OutputAsk, room: int | None
    ) -> tuple[int, int]:
        """The least and the most to hold, all answers together; each has `room` for so many."""
        if output.max_tokens is not None:
            assert room is not None, "what was asked for is a limit"
            return answers * room, answers * room
        most = UNKNOWN_WINDOW if room is None else room
        expected = min(self._lengths.p95(request.alias), most)
        # A stream tells how far it is, so that it can be given more as it goes. A whole answer cannot.
        return answers * expected, answers * (expected if request.stream else most)

    def _counter(self, pool: Pool) -> PromptCounter:
        counter = self._counters.get(pool.name)
        if counter is None:
            raise CapacityUnavailable(
                f"The tokenizer of the pool {pool.name} is still being loaded. Try again shortly.",
                retry_after_s=LOADING_RETRY_S,
            )
        return counter

    def _room(self, pool: Pool, prompt: PromptCount) -> int | None:
        """What the window leaves beside the prompt, where both are known."""
        window = pool.max_model_len
        if window is None or not prompt.exact or prompt.prompts > 1:
            return window
        return max(window - prompt.tokens, 1)

    async def reserve(self, request: InferenceRequest, sized: Admissible) -> Admitted:
        """Raises TokenRateExceeded, RequestRateExceeded, ConcurrencyExceeded, BudgetExhausted and StoreUnavailable."""
        outcome = await self._reservations.acquire(sized.ask)
        if isinstance(outcome, Refused):
            raise refusal(outcome)
        if sized.output.max_tokens is not None:
            return Admitted(admissible=sized, granted=outcome, output_cap=None, extends=False)
        if request.stream:
            return Admitted(
                admissible=sized, granted=outcome, output_cap=sized.output_cap, extends=bool(sized.ask.accounts)
            )
        each = outcome.output_tokens // (sized.prompt.prompts * sized.output.choices)
        return Admitted(
            admissible=sized,
            granted=outcome,
            output_cap=each if sized.ask.accounts else sized.output_cap,
            extends=False,
        )
