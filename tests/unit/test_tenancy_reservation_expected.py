"""Output lengths that are learned."""

import random

import pytest

from forebay.tenancy.reservation.expected import LEAST_NOTES, MAX_ALIASES, OutputLengths


def test_with_few_notes_the_default_holds() -> None:
    lengths = OutputLengths(500)
    for _ in range(LEAST_NOTES - 1):
        lengths.note("m", 10)
    assert lengths.p95("m") == lengths.p95("other") == 500
    lengths.note("m", 10)
    assert lengths.p95("m") != 500


@pytest.mark.parametrize("seed", range(5))
def test_it_is_the_95th_percentile_or_a_little_more(seed: int) -> None:
    draw = random.Random(seed)
    lengths = OutputLengths(1)
    lasted = [round(draw.lognormvariate(5, 1)) for _ in range(400)]
    for tokens in lasted:
        lengths.note("m", tokens)
    near = sorted(lasted)
    # Newer outputs weigh more, so a few ranks to either side.
    assert near[round(0.92 * 400)] <= lengths.p95("m") <= 1.2 * near[round(0.98 * 400)]


@pytest.mark.parametrize("tokens", [0, 1, 2, 3, 5, 7, 8, 9, 100, 1023, 1024, 1025, 2**20, 2**31, 2**40])
def test_it_covers_what_was_seen(tokens: int) -> None:
    lengths = OutputLengths(1)
    for _ in range(100):
        lengths.note("m", tokens)
    assert min(tokens, 2**31) <= lengths.p95("m") <= max(1, 1.19 * tokens)


def test_it_follows_a_change() -> None:
    lengths = OutputLengths(1)
    for _ in range(5000):
        lengths.note("m", 2000)
    for _ in range(3000):
        lengths.note("m", 50)
    assert lengths.p95("m") < 60


def test_weights_stay_finite() -> None:
    lengths = OutputLengths(1)
    for _ in range(25_000):
        lengths.note("m", 100)
    assert 100 <= lengths.p95("m") <= 119


def test_the_aliases_noted_last_are_kept() -> None:
    lengths = OutputLengths(7)
    for _ in range(LEAST_NOTES):
        for alias in ("old", "kept"):
            lengths.note(alias, 100)
    for number in range(MAX_ALIASES - 1):
        lengths.note(f"alias-{number}", 1)
    assert lengths.p95("old") == 7
    assert lengths.p95("kept") != 7
