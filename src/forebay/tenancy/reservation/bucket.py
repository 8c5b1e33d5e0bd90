"""An exact token bucket whose refunds are retroactive. Integers only.

Rule: over any time T, what is finally charged to requests granted in it is at most burst + rate × T (and what they
used beyond what they held). To simply put back what a lease has not used would break that: while it was held the bucket
may have filled to the brim, and what then flowed over cannot be had once more. So a refund makes the bucket what it
would be had the lease taken only what it used, when it took it.

Kept is what is *drawn*: taken and not flowed back yet (the level is burst - drawn). It falls with time, to 0 at least,
and jumps up with each take. Had a lease taken less by x at time s, then all that is drawn since would be less by x,
except that it would have stopped at 0: so by min(x, the least that was drawn at any time since s). That least is found
only just before a take, or now; `lows` are those of them that a lease which is still held can yet need.
"""

from dataclasses import dataclass, field
from itertools import pairwise

US_PER_MINUTE = 60_000_000
UNIT = US_PER_MINUTE
"""One token in units: at a rate of r a minute exactly r units flow back in a microsecond."""
MAX_TOKENS = 100_000_000
"""Of a burst or rate. It keeps every number below 2^53, where also doubles (Lua's only numbers) are exact."""
MAX_DEBT_TOKENS = 150_000_000
"""What more than this is drawn is forgotten: a burst of MAX_TOKENS, and half as much of debt at least."""
MAX_DRAWN = MAX_DEBT_TOKENS * UNIT
MAX_LOWS = 64


@dataclass(slots=True)
class Low:
    """At most `drawn` was drawn at some time since any take before the one numbered `seq`. `leases`: how many of the
    takes that are still held came before it and after the low before this one.
    """

    seq: int
    drawn: int
    leases: int


@dataclass(slots=True)
class Bucket:
    """`rate` in tokens a minute, `burst` in tokens (0 to MAX_TOKENS each), `drawn` in units at `at_us` (microseconds).

    `seq` counts takes, `fresh` how many that are still held came after the last low. Lows rise in `seq` and in `drawn`.
    Time that goes backwards stands still.
    """

    rate: int
    burst: int
    at_us: int
    drawn: int = 0
    seq: int = 0
    fresh: int = 0
    lows: list[Low] = field(default_factory=list[Low])

    def drawn_at(self, now_us: int) -> int:
        return max(0, self.drawn - self.rate * max(0, now_us - self.at_us))

    def available(self, now_us: int) -> int:
        """Whole tokens that can be taken now; negative with a debt."""
        return (self.burst * UNIT - self.drawn_at(now_us)) // UNIT

    def wait_us(self, tokens: int, now_us: int) -> int | None:
        """Microseconds until so many tokens can be taken, exactly; None for never."""
        if tokens > self.burst or self.rate == 0:
            return None
        return self._until_drawn(self.burst * UNIT - tokens * UNIT, now_us)

    def full_us(self, now_us: int) -> int | None:
        """Microseconds until it is full; None for never."""
        return self._until_drawn(0, now_us) if self.rate or not self.drawn else None

    def _until_drawn(self, most: int, now_us: int) -> int:
        if self.drawn_at(now_us) <= most:
            return 0
        return self.at_us + -(-(self.drawn - most) // self.rate) - now_us

    def set_limits(self, rate: int, burst: int, now_us: int) -> None:
        """What was drawn stays drawn: a burst raised by n raises the level by n at once, one lowered lowers it, so that
        two who call by turns with an old and a new burst gain nothing. What flowed back until now did at the old rate.
        """
        if rate != self.rate:
            self._flow(now_us)
            self.rate = rate
        self.burst = burst

    def take(self, tokens: int, now_us: int) -> int:
        """Take for a lease what is available; the number of this take, for `give_back`."""
        self.draw(tokens, now_us)
        self.fresh += 1
        return self.seq

    def draw(self, tokens: int, now_us: int) -> None:
        """Take for good, available or not (`MAX_DRAWN` bounds the debt)."""
        self._flow(now_us)
        self._note_low()
        self.drawn = min(MAX_DRAWN, self.drawn + min(tokens, MAX_DEBT_TOKENS) * UNIT)

    def give_back(self, seq: int, tokens: int, now_us: int) -> None:
        """End the take numbered `seq`, which leaves so many tokens (of those it took) unused. Once for each."""
        self._flow(now_us)
        first = next((index for index, low in enumerate(self.lows) if low.seq > seq), None)
        least = self.drawn if first is None else min(self.lows[first].drawn, self.drawn)
        back = min(min(tokens, MAX_DEBT_TOKENS) * UNIT, least)
        self.drawn -= back
        if first is None:
            self.fresh -= 1
            return
        lows = self.lows
        for low in lows[first:]:
            low.drawn -= back
        # Before it is dropped with its last lease: an older low that is not lower any more gives way to it.
        while first > 0 and lows[first - 1].drawn >= lows[first].drawn:
            lows[first].leases += lows[first - 1].leases
            first -= 1
            del lows[first]
        lows[first].leases -= 1
        if lows[first].leases == 0:
            del lows[first]

    def _flow(self, now_us: int) -> None:
        if now_us > self.at_us:
            self.drawn = self.drawn_at(now_us)
            self.at_us = now_us

    def _note_low(self) -> None:
        self.seq += 1
        leases, self.fresh = self.fresh, 0
        lows = self.lows
        while lows and lows[-1].drawn >= self.drawn:
            leases += lows.pop().leases
        if leases:
            lows.append(Low(self.seq, self.drawn, leases))
        if len(lows) > MAX_LOWS:
            _merge_nearest(lows)


def _merge_nearest(lows: list[Low]) -> None:
    """The two that differ least become one, with the lower's amount: a refund may come out smaller, never larger."""
    gaps = [later.drawn - earlier.drawn for earlier, later in pairwise(lows)]
    index = gaps.index(min(gaps))
    earlier = lows.pop(index)
    lows[index].drawn = earlier.drawn
    lows[index].leases += earlier.leases
