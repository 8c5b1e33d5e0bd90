"""Order statistics of small samples."""

import math
from collections.abc import Iterable, Sequence


def percentile(values: Iterable[float], percent: float) -> float:
    """The value at `percent` (0 to 100) of the sorted values, interpolated between neighbours; NaN for none.

    Infinite values (what never came) sort last, and give infinity where they are touched.
    """
    ordered = sorted(values)
    if not ordered:
        return math.nan
    place = (len(ordered) - 1) * percent / 100
    low = math.floor(place)
    share = place - low
    if share == 0:
        return ordered[low]
    return math.inf if math.isinf(ordered[low]) else ordered[low] + (ordered[low + 1] - ordered[low]) * share


def median(values: Iterable[float]) -> float:
    return percentile(values, 50)


def ratios(tops: Sequence[float], bottoms: Sequence[float]) -> list[float]:
    """Pairwise quotients; pairs with a bottom of 0 are left out."""
    return [top / bottom for top, bottom in zip(tops, bottoms, strict=True) if bottom]
