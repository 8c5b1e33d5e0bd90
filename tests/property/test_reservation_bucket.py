"""The token bucket against an oracle that knows everything: it replays all takes with what they finally used."""

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from forebay.tenancy.reservation.bucket import MAX_LOWS, MAX_TOKENS, UNIT, Bucket

SECOND = 1_000_000


@dataclass
class Charge:
    at_us: int
    tokens: int


@dataclass
class Oracle:
    """All charges, in order, each with what it is known to have used by now."""

    rate: int
    charges: list[Charge] = field(default_factory=list)

    def drawn_at(self, now_us: int) -> int:
        drawn, at_us = 0, 0
        for charge in self.charges:
            drawn = max(0, drawn - self.rate * (charge.at_us - at_us)) + charge.tokens * UNIT
            at_us = charge.at_us
        return max(0, drawn - self.rate * (now_us - at_us))


OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(["take", "take", "give_back", "draw"]),
        st.one_of(st.just(0), st.integers(0, 12 * SECOND)),
        st.integers(0, 30),
        st.integers(0, 40),
    ),
    # Hypothesis draws short lists where it may, in which hardly anything happens.
    min_size=25,
    max_size=50,
)


def _replay(rate: int, burst: int, operations: list[tuple[str, int, int, int]]) -> tuple[Bucket, Oracle, list[Charge]]:
    """Run the operations on both, comparing after each; the charges granted by the bucket, as finally used."""
    bucket, oracle, now_us = Bucket(rate, burst, 0), Oracle(rate), 0
    held: list[tuple[int, Charge]] = []
    granted: list[Charge] = []
    for name, dt_us, tokens, which in operations:
        now_us += dt_us
        if name == "take" and tokens <= bucket.available(now_us):
            charge = Charge(now_us, tokens)
            held.append((bucket.take(tokens, now_us), charge))
            oracle.charges.append(charge)
            granted.append(charge)
        elif name == "give_back" and held:
            seq, charge = held.pop(which % len(held))
            unused = min(tokens, charge.tokens)
            bucket.give_back(seq, unused, now_us)
            charge.tokens -= unused
        elif name == "draw":
            bucket.draw(tokens, now_us)
            oracle.charges.append(Charge(now_us, tokens))
        assert bucket.drawn_at(now_us) == oracle.drawn_at(now_us)
        assert sum(low.leases for low in bucket.lows) + bucket.fresh == len(held)
        assert [low.drawn for low in bucket.lows] == sorted({low.drawn for low in bucket.lows})
    if not held:
        assert bucket.lows == []
    return bucket, oracle, granted


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 60), st.integers(10, 90), OPERATIONS)
def test_a_refund_makes_the_bucket_what_it_would_be_had_only_the_used_been_taken(
    rate: int, burst: int, operations: list[tuple[str, int, int, int]]
) -> None:
    _replay(rate, burst, operations)


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 60), st.integers(10, 90), OPERATIONS)
def test_over_any_window_no_more_is_charged_than_burst_and_rate_allow(
    rate: int, burst: int, operations: list[tuple[str, int, int, int]]
) -> None:
    _, _, granted = _replay(rate, burst, [operation for operation in operations if operation[0] != "draw"])
    for first, start in enumerate(granted):
        charged = 0
        for charge in granted[first:]:
            charged += charge.tokens
            assert charged * UNIT <= burst * UNIT + rate * (charge.at_us - start.at_us)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 3 * SECOND), st.integers(1, 60), st.booleans(), st.integers(0, 200)), max_size=300
    )
)
def test_a_bounded_memory_never_refunds_too_much(steps: list[tuple[int, int, bool, int]]) -> None:
    bucket, oracle, now_us = Bucket(60, 10_000, 0), Oracle(60), 0
    held: list[tuple[int, Charge]] = []
    for dt_us, tokens, settles, which in [*[(0, 9, False, 0)] * (2 * MAX_LOWS), *steps]:
        now_us += dt_us
        if settles and held:
            seq, charge = held.pop(which % len(held))
            bucket.give_back(seq, charge.tokens, now_us)
            charge.tokens = 0
        else:
            charge = Charge(now_us, tokens)
            held.append((bucket.take(tokens, now_us), charge))
            oracle.charges.append(charge)
        assert bucket.drawn_at(now_us) >= oracle.drawn_at(now_us)
        assert len(bucket.lows) <= MAX_LOWS


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 100_000), st.integers(1, 50), st.integers(0, 2**50))
def test_a_caller_at_its_exact_rate_is_never_refused_early(rate: int, burst: int, start_us: int) -> None:
    bucket = Bucket(rate, burst, start_us)
    for _ in range(burst):
        assert bucket.available(start_us) >= 1
        bucket.take(1, start_us)
    interval_us = -(-60 * SECOND // rate)
    for count in range(1, 200):
        now_us = start_us + count * interval_us
        assert bucket.available(now_us) >= 1, f"request {count} at its time was refused"
        bucket.take(1, now_us)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 100_000), st.integers(1, 50))
def test_a_microsecond_faster_than_its_rate_is_refused_in_the_end(rate: int, burst: int) -> None:
    bucket, interval_us = Bucket(rate, burst, 0), -(-60 * SECOND // rate) - 1
    granted = 0
    for count in range(burst + 300):
        now_us = count * interval_us
        if bucket.available(now_us) >= 1:
            bucket.take(1, now_us)
            granted += 1
    assert granted * UNIT <= burst * UNIT + rate * now_us


@settings(max_examples=200, deadline=None)
@given(st.integers(1, MAX_TOKENS), st.integers(1, MAX_TOKENS), st.integers(0, MAX_TOKENS), st.integers(1, MAX_TOKENS))
def test_the_wait_is_exact_to_the_microsecond(rate: int, burst: int, drawn: int, tokens: int) -> None:
    bucket = Bucket(rate, burst, 1_000)
    bucket.draw(drawn, 1_000)
    wait_us = bucket.wait_us(tokens, 1_000)
    if wait_us is None:
        assert tokens > burst
    else:
        assert bucket.available(1_000 + wait_us) >= tokens
        assert wait_us == 0 or bucket.available(1_000 + wait_us - 1) < tokens


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 5 * SECOND), st.sampled_from([(60, 10), (60, 20), (120, 10)]), st.integers(0, 20))
    ),
)
def test_limits_that_change_to_and_fro_give_no_more_than_the_largest_of_them(
    steps: list[tuple[int, tuple[int, int], int]],
) -> None:
    bucket, now_us, taken = Bucket(60, 10, 0), 0, 0
    for dt_us, (rate, burst), tokens in steps:
        now_us += dt_us
        bucket.set_limits(rate, burst, now_us)
        if tokens <= bucket.available(now_us):
            bucket.take(tokens, now_us)
            taken += tokens
        assert taken * UNIT <= 20 * UNIT + 120 * now_us
