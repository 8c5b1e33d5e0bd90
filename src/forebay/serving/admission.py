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
from forebay.tenancy.reservation.limits import Account

UNKNOWN_WINDOW = 4096
"""Output tokens to make room for where neither the caller nor the pool says how many there may be."""

ROOM_AT_LEAST = 8
"""A prompt whose estimate fills the window is taken to leave this part of it."""
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
    cap: int | None
    """For each answer, by the quotas, where the caller leaves it open; None where it does not, or none is set."""
    output_room: int | None
    """For each answer: it ends there, or before; None where that is not known."""
    window: int | None
    """Prompt plus output tokens of the model; None where that is not known."""

    @property
    def answers(self) -> int:
        """How many: so many choices to each prompt."""
        return self.prompt.prompts * self.output.choices


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
        accounts = configured.directory.accounts(request.principal, request.alias)
        window = pool.max_model_len
        asked = output.unasked if output.max_tokens is None else output.max_tokens
        limits = [limit for limit in (_room(window, prompt), asked, cap) if limit is not None]
        room = min(limits, default=None)
        least, most = self._output_tokens(request, prompt, output, room, accounts)
        ask = Ask(
            lease_id=request.id,
            accounts=accounts,
            prompt_tokens=prompt.tokens,
            output_tokens_min=least,
            output_tokens_max=most,
            prompt_nanos=most_prompt_nanos(terms, prompt.tokens),
            nanos_per_output_token=nanos_per_output_token(terms),
        )
        return Admissible(
            prompt=prompt,
            output=output,
            terms=terms,
            ask=ask,
            cap=_cap_on(output, cap),
            output_room=room,
            window=window,
        )

    def accounts(self, request: InferenceRequest) -> tuple[Account, ...]:
        """The limits that the request is under as they are now."""
        return self._configuration().directory.accounts(request.principal, request.alias)

    def _output_tokens(
        self,
        request: InferenceRequest,
        prompt: PromptCount,
        output: OutputAsk,
        room: int | None,
        accounts: Sequence[Account],
    ) -> tuple[int, int]:
        """The least and the most to hold, all answers together; each has `room` for so many."""
        answers = prompt.prompts * output.choices
        if output.max_tokens is not None:
            assert room is not None, "what was asked for is a limit"
            return answers * room, answers * room
        most = UNKNOWN_WINDOW if room is None else room
        expected = min(self._lengths.p95(_of_answers(request)), most)
        # A guess must not shut out what a bucket could hold.
        bursts = [account.limits.token_burst for account in accounts if account.limits.token_burst is not None]
        holdable = (min(bursts) - prompt.tokens) // answers if bursts else expected
        least = max(min(expected, holdable), 1)
        # A stream tells how far it is, so that it can be given more as it goes. A whole answer cannot.
        return answers * least, answers * (expected if request.stream else most)

    def learn(self, request: InferenceRequest, sized: Admissible, output_tokens: int) -> None:
        """So long were the answers to a request that ended. Those that were cut tell nothing."""
        each = output_tokens // sized.answers
        if sized.output_room is None or each < sized.output_room:
            self._lengths.note(_of_answers(request), each)

    def _counter(self, pool: Pool) -> PromptCounter:
        counter = self._counters.get(pool.name)
        if counter is None:
            raise CapacityUnavailable(
                f"The tokenizer of the pool {pool.name} is still being loaded. Try again shortly.",
                retry_after_s=LOADING_RETRY_S,
            )
        return counter

    async def reserve(self, request: InferenceRequest, sized: Admissible) -> Admitted:
        """Raises TokenRateExceeded, RequestRateExceeded, ConcurrencyExceeded, BudgetExhausted and StoreUnavailable."""
        outcome = await self._reservations.acquire(sized.ask)
        if isinstance(outcome, Refused):
            raise refusal(outcome)
        if sized.output.max_tokens is not None:
            return Admitted(admissible=sized, granted=outcome, output_cap=None, extends=False)
        if request.stream:
            return Admitted(
                admissible=sized,
                granted=outcome,
                output_cap=_cut(sized, sized.cap),
                extends=bool(sized.ask.accounts),
            )
        each = outcome.output_tokens // sized.answers
        # What no quota limits, and what holds all that it may use, need not be cut.
        all_of_it = outcome.output_tokens >= sized.ask.output_tokens_max and sized.output_room is not None
        held = None if all_of_it or not sized.ask.accounts else each
        limits = [limit for limit in (sized.cap, held) if limit is not None]
        return Admitted(
            admissible=sized, granted=outcome, output_cap=_cut(sized, min(limits, default=None)), extends=False
        )


def _of_answers(request: InferenceRequest) -> str:
    """Whose answers are alike in length: one tenant's say nothing of another's."""
    return f"{request.principal.tenant_id}/{request.alias}"


def _cap_on(output: OutputAsk, cap: int | None) -> int | None:
    """Where it cuts what nobody asked for: an endpoint's own default, below that, or what is left open."""
    if output.max_tokens is not None or cap is None:
        return None
    return cap if output.unasked is None or cap < output.unasked else None


def _room(window: int | None, prompt: PromptCount) -> int | None:
    """The most that the window can leave beside each prompt. Where the prompt is only estimated, which may be far too
    high, that is the window itself.
    """
    if window is None or not prompt.exact or prompt.prompts > 1:
        return window
    return max(window - prompt.tokens, 1)


def _cut(sized: Admissible, limit: int | None) -> int | None:
    """`limit` as a `max_tokens` that the model's server takes: its window must have room for it beside the prompt."""
    if limit is None or sized.window is None or sized.prompt.prompts > 1:
        return limit
    left = sized.window - sized.prompt.tokens
    return min(limit, max(left, 1) if sized.prompt.exact else max(left, sized.window // ROOM_AT_LEAST))
