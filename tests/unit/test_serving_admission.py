"""What a request holds before it may run."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

import pytest

from forebay.core.errors import CapacityUnavailable, InvalidRequest, TokenRateExceeded
from forebay.fleet.pool import Pool
from forebay.fleet.replica import Replica
from forebay.metering.pricing import Price, PriceBook
from forebay.prompting.counting import PromptCount, Route
from forebay.serving.admission import Admissible, Admission, Admitted
from forebay.serving.request import InferenceRequest
from forebay.storage.counters.memory import MemoryReservations
from forebay.tenancy.directory import Directory
from forebay.tenancy.principal import Principal
from forebay.tenancy.reservation.expected import OutputLengths
from forebay.tenancy.resources import Quota, Tenant

EXPECTED = 256
PROMPT = 20
WINDOW = 1000
ACME = Principal(
    tenant_id="acme",
    key_id="k",
    scopes=frozenset({"inference"}),
    default_class="standard",
    allowed_classes=frozenset({"standard"}),
)


@dataclass
class Counted:
    """A counter that finds `count` in whatever it is given."""

    count_: PromptCount

    async def count(self, route: Route, body: bytes, platform_prompts: Sequence[str]) -> PromptCount:
        assert platform_prompts == ("registered for", "chat")
        return self.count_


@dataclass
class Configured:
    directory: Directory
    prices: PriceBook = field(default_factory=lambda: PriceBook([]))

    def prompts_for(self, alias: str) -> Sequence[str]:
        return ("registered for", alias)


def pool(window: int | None = WINDOW) -> Pool:
    replica = Replica("r")
    replica.max_model_len = window
    return Pool("p", [replica], exact_fields=True)


def asked(route: Route = "chat/completions", *, stream: bool = False, **body: Any) -> InferenceRequest:
    return InferenceRequest(
        id="req-1",
        request_id="mine",
        entrance=route,
        route=route,
        alias="chat",
        stream=stream,
        body=json.dumps(body).encode(),
        principal=ACME,
        priority="standard",
        arrived=0.0,
    )


def admission(
    *,
    tokens: int | None = None,
    cap: int | None = None,
    prices: Sequence[Price] = (),
    prompts: int = 1,
    exact: bool = True,
) -> Admission:
    quota = Quota(id="acme", tenant="acme", tokens_per_minute=tokens, max_tokens=cap)
    configured = Configured(Directory([Tenant(id="acme")], [], [quota]), PriceBook(prices))
    count = PromptCount(tokens=PROMPT, prompts=prompts, public_prefix_tokens=0, exact=exact)
    return Admission(
        lambda: configured,
        {"p": Counted(count)},
        MemoryReservations(lambda: 0, lambda: 0.0),
        OutputLengths(EXPECTED),
        lambda: 0.0,
    )


def sized(admission: Admission, request: InferenceRequest, window: int | None = WINDOW) -> Admissible:
    return asyncio.run(admission.size(request, pool(window)))


def admitted(admission: Admission, request: InferenceRequest) -> Admitted:
    async def both() -> Admitted:
        return await admission.reserve(request, await admission.size(request, pool()))

    return asyncio.run(both())


@pytest.mark.parametrize(
    ("request_", "held"),
    [
        (asked(max_tokens=50), (50, 50)),
        (asked(max_tokens=50, stream=True), (50, 50)),
        (asked(max_tokens=50, n=3), (150, 150)),
        (asked(max_tokens=10, max_completion_tokens=50), (50, 50)),
        (asked(max_tokens=5000), (WINDOW - PROMPT, WINDOW - PROMPT)),
        (asked(), (EXPECTED, WINDOW - PROMPT)),
        (asked(n=2), (2 * EXPECTED, 2 * (WINDOW - PROMPT))),
        (asked(stream=True), (EXPECTED, EXPECTED)),
        (asked("completions"), (16, 16)),
        (asked("completions", max_tokens=0), (0, 0)),
    ],
)
def test_what_is_held(request_: InferenceRequest, held: tuple[int, int]) -> None:
    ask = sized(admission(), request_).ask
    assert ask.prompt_tokens == PROMPT
    assert (ask.output_tokens_min, ask.output_tokens_max) == held


def test_each_prompt_has_answers_of_its_own() -> None:
    ask = sized(admission(prompts=4), asked("completions", max_tokens=5, n=2)).ask
    assert (ask.output_tokens_min, ask.output_tokens_max) == (40, 40)


def test_an_estimated_prompt_takes_nothing_off_the_window() -> None:
    """It may be estimated too long, and must not cut what there is room for."""
    assert sized(admission(exact=False), asked()).output_room == WINDOW
    assert sized(admission(), asked(), window=None).output_room is None
    # Nor do several: which of them is how long is not told.
    assert sized(admission(prompts=2), asked()).output_room == WINDOW
    assert sized(admission(), asked(), window=PROMPT).output_room == 1, "the replica refuses what does not fit"


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
def test_more_than_the_cap_is_refused_by_the_name_that_asked(name: str) -> None:
    with pytest.raises(InvalidRequest, match="more than the 30") as refused:
        sized(admission(cap=30), asked(**{name: 31}))
    assert refused.value.param == name
    assert sized(admission(cap=30), asked(**{name: 30})).cap is None


def test_a_cap_cuts_what_asks_for_nothing() -> None:
    for stream in (False, True):
        found = sized(admission(cap=30), asked(stream=stream))
        assert (found.cap, found.output_room) == (30, 30)
        assert (found.ask.output_tokens_min, found.ask.output_tokens_max) == (30, 30)
    assert sized(admission(cap=9), asked("completions")).cap == 9
    # It is 16 then anyhow, and must not become more.
    assert sized(admission(cap=99), asked("completions")).cap is None


def test_a_whole_answer_is_cut_at_what_it_could_get_and_a_stream_extended() -> None:
    whole = admitted(admission(tokens=PROMPT + 601), asked(n=2))
    assert (whole.output_cap, whole.extends, whole.granted.output_tokens) == (300, False, 601)
    stream = admitted(admission(tokens=PROMPT + 601), asked(stream=True))
    assert (stream.output_cap, stream.extends, stream.granted.output_tokens) == (None, True, EXPECTED)
    said = admitted(admission(tokens=PROMPT + 601), asked(stream=True, max_tokens=600))
    assert (said.output_cap, said.extends) == (None, False)
    for stream in (False, True):
        free = admitted(admission(), asked(stream=stream))
        assert (free.output_cap, free.extends) == (None, False)
        capped = admitted(admission(cap=30), asked(stream=stream))
        assert (capped.output_cap, capped.extends) == (30, False)


@pytest.mark.parametrize("stream", [False, True])
def test_a_cap_beyond_the_window_asks_for_no_more_than_there_is_room_for(stream: bool) -> None:
    assert admitted(admission(cap=WINDOW * 9), asked(stream=stream)).output_cap == WINDOW - PROMPT


def test_a_whole_answer_that_may_fill_the_window_is_not_cut() -> None:
    for exact in (True, False):
        free = admitted(admission(tokens=10 * WINDOW, exact=exact), asked())
        assert (free.output_cap, free.extends) == (None, False)


def test_where_the_window_is_not_known_an_answer_is_cut_at_what_is_held() -> None:
    async def unknown() -> Admitted:
        one = admission(tokens=10**6)
        return await one.reserve(asked(), await one.size(asked(), pool(None)))

    admitted_ = asyncio.run(unknown())
    assert admitted_.output_cap == admitted_.granted.output_tokens > 0


def test_a_guess_shuts_out_nothing_that_the_bucket_could_hold() -> None:
    for stream in (False, True):
        tight = admitted(admission(tokens=PROMPT + EXPECTED - 1), asked(stream=stream))
        assert tight.granted.output_tokens == EXPECTED - 1
    with pytest.raises(TokenRateExceeded) as refused:
        admitted(admission(tokens=PROMPT), asked(stream=True))
    assert refused.value.should_retry is False


def test_how_long_one_tenant_s_answers_are_says_nothing_of_another_s() -> None:
    one = admission()
    for _ in range(50):
        one.learn(asked(), sized(one, asked()), 700)
        one.learn(asked(), sized(one, asked(max_tokens=3)), 3)
    other = replace(asked(), principal=replace(ACME, tenant_id="other"))
    assert sized(one, other).ask.output_tokens_min == EXPECTED
    assert 700 <= sized(one, asked()).ask.output_tokens_min <= 840, "what was cut at 3 tells nothing"


def test_what_is_not_covered_is_refused() -> None:
    with pytest.raises(TokenRateExceeded, match="may take 121 tokens"):
        admitted(admission(tokens=120), asked(max_tokens=101))


def test_the_dearest_that_it_may_come_to_is_held() -> None:
    price = Price(
        id="x",
        prompt_usd_per_million=Decimal(1),
        cached_usd_per_million=Decimal(3),
        output_usd_per_million=Decimal("2.0005"),
        effective_from=0,
    )
    ask = sized(admission(prices=[price]), asked(max_tokens=5)).ask
    assert ask.prompt_nanos == PROMPT * 3000
    assert ask.nanos_per_output_token == 2001


def test_the_price_is_that_of_the_class_that_was_asked_for() -> None:
    prices = [
        Price(
            id=priority,
            priority=priority,
            prompt_usd_per_million=Decimal(1),
            output_usd_per_million=Decimal(1),
            effective_from=0,
        )
        for priority in ("standard", "batch")
    ]
    found = sized(admission(prices=prices), replace(asked(), priority="batch"))
    assert found.terms.version == "batch"


def test_a_pool_whose_tokenizer_is_not_there_yet_is_asked_later() -> None:
    empty = Admission(
        lambda: Configured(Directory()),
        {},
        MemoryReservations(lambda: 0, lambda: 0.0),
        OutputLengths(1),
        lambda: 0.0,
    )
    with pytest.raises(CapacityUnavailable) as refused:
        sized(empty, asked())
    assert refused.value.retry_after_s == 2.0
