"""What was measured, as markdown, each bar with its verdict."""

from collections.abc import Callable, Mapping, Sequence

from benchmarks.engine.machine import LOAD, QUIET_LOAD
from benchmarks.engine.stats import median, percentile
from benchmarks.gateway.gateways.base import Cores
from benchmarks.gateway.load_plan import Arrivals, LoadResult
from benchmarks.gateway.measure import DIRECT, Load, Measured, Sizes
from benchmarks.gateway.prompts import BODIES
from benchmarks.gateway.upstream import INTERVAL_S

_PEER = "litellm"
_OURS = "forebay"
_BAR_P50_MS, _BAR_P99_MS, _BAR_RATE = 1.5, 5.0, 500.0

_ARRIVALS: dict[Arrivals, str] = {"poisson": "Poisson arrivals", "even": "evenly spaced arrivals"}

Facts = Mapping[str, Mapping[str, str]]


class Report:
    """The text of one run."""

    def __init__(self, sizes: Sizes, cores: Cores, prompt_tokens: int, facts: Facts, measured: Mapping[str, Measured]):
        self._sizes = sizes
        self._cores = cores
        self._prompt_tokens = prompt_tokens
        self._facts = facts
        self._measured = {name: found for name, found in measured.items() if found.closed}
        self._direct = self._measured.pop(DIRECT)

    def text(self, head: str, machine: Mapping[str, str], left_out: Mapping[str, str]) -> str:
        parts = [head + self._disturbed(machine), self._setting(machine), self._capacity(), self._latency()]
        parts += [self._streams(), self._verdicts(), self._honesty()]
        parts += [f"Not measured: {name}: {' '.join(reason.split())[:300]}" for name, reason in left_out.items()]
        return "\n\n".join(part for part in parts if part)

    def _disturbed(self, machine: Mapping[str, str]) -> str:
        busy = float(machine[LOAD]) > QUIET_LOAD
        return " **The machine was busy: these numbers are preliminary.**" if busy else ""

    def _setting(self, machine: Mapping[str, str]) -> str:
        told = ", ".join(f"{name}: {machine[name]}" for name in ("CPU", "cores", "Python", LOAD))
        rows = [[name, facts["version"], facts["on"]] for name, facts in self._facts.items()]
        return (
            f"{told}. Each gateway is one process pinned to core {self._cores.gateway}; the no-op upstream, the load"
            f" generator and Valkey share core {self._cores.rest}. All gateways run from start to end, and one at a"
            f" time has the load. Medians of {self._sizes.rounds} rounds, in which they take turns (lowest to highest)."
            f" The requests are {BODIES} different chats of {self._prompt_tokens} tokens of text.\n\n"
            + _table(["gateway", "version", "what is on"], rows)
        )

    # -- the three tables ---------------------------------------------------------------------------------------------

    def _capacity(self) -> str:
        head = ["gateway", "requests/s", "**requests per gateway CPU-second**", f"of {_PEER}'s", "core busy", "errors"]
        rows = [
            [
                name,
                _over(found.closed, lambda load: load.seen.good / load.seen.elapsed_s, 0),
                _over(found.closed, _per_cpu_s, 0),
                self._ratio(name, lambda one: [_per_cpu_s(load) for load in one.closed]),
                _over(found.closed, lambda load: 100 * load.gateway_cpu_s / load.seen.elapsed_s, 0, "%"),
                _errors(found.closed),
            ]
            for name, found in self._measured.items()
        ]
        alone = _over(self._direct.closed, lambda load: load.seen.good / load.seen.elapsed_s, 0)
        return (
            f"**Capacity**: {self._sizes.connections} callers without a pause, whole answers. Without a gateway the"
            f" load generator and the upstream make {alone} requests/s.\n\n" + _table(head, rows)
        )

    def _latency(self) -> str:
        head = ["gateway", "requests/s", "direct p50 / p99, ms", "through it p50 / p99, ms", "**added p50, ms**"]
        head += ["**added p99, ms**", f"added p50, of {_PEER}'s", "errors"]
        rows = [
            [
                name,
                _over(found.opened, lambda load: load.rate, 0),
                _pair([_direct(load).latencies_s for load in found.opened]),
                _pair([load.seen.latencies_s for load in found.opened]),
                _over(found.opened, lambda load: _added_ms(load, _latencies, 50)),
                _over(found.opened, lambda load: _added_ms(load, _latencies, 99)),
                self._ratio(name, lambda one: [_added_ms(load, _latencies, 50) for load in one.opened]),
                _errors(found.opened),
            ]
            for name, found in self._measured.items()
        ]
        return (
            f"**Latency at half saturation**: {_ARRIVALS[self._sizes.arrivals]} at half of what the gateway itself did"
            " above, in the same round; added is through it less direct at the same rate, percentile by percentile.\n\n"
            + _table(head, rows)
        )

    def _streams(self) -> str:
        head = ["streams", "", "TTFT p50 / p99, ms", "gap p50 / p99, ms", "**added TTFT** p50; p99, ms"]
        head += ["**added gap** p50; p99, ms", "added delay of a piece p50; p99, ms", "gateway CPU a piece, µs"]
        head += ["core busy", "errors"]
        rows: list[list[str]] = []
        for count, loads in self._direct.streams.items():
            seen = [_pair([of(load.seen) for load in loads]) for of in (_ttft, _gaps)]
            rows.append([str(count), DIRECT, *seen, "", "", "", "", "", _errors(loads)])
            for name, found in self._measured.items():
                rows.append([str(count), name, *_stream_cells(found.streams[count])])
        return (
            f"**Streams** of {self._sizes.chunks} pieces each, the first at once and then one every"
            f" {INTERVAL_S * 1000:g} ms, with usage at the end. The delay of a piece is from its writing by the"
            " upstream to its arrival. CPU is all of the request's, divided by its pieces. Where the core is fully busy"
            " the gateway does not keep up, and its times are those of its queue.\n\n" + _table(head, rows)
        )

    # -- what follows from them ---------------------------------------------------------------------------------------

    def _verdicts(self) -> str:
        lines: list[str] = []
        for name, found in self._measured.items():
            if name.startswith(_OURS):
                rate = median(_per_cpu_s(load) for load in found.closed)
                p50, p99 = (median(_added_ms(load, _latencies, at) for load in found.opened) for at in (50, 99))
                lines += [
                    _verdict(rate >= _BAR_RATE, f"{name}: ≥ {_BAR_RATE:g} requests/s a core: {rate:.0f}"),
                    _verdict(p50 <= _BAR_P50_MS, f"{name}: added p50 ≤ {_BAR_P50_MS:g} ms: {p50:.2f} ms"),
                    _verdict(p99 <= _BAR_P99_MS, f"{name}: added p99 ≤ {_BAR_P99_MS:g} ms: {p99:.2f} ms"),
                ]
        return "\n".join(lines)

    def _honesty(self) -> str:
        closed = self._direct.closed
        loader = _over(closed, lambda load: load.seen.cpu_s / load.seen.good * 1e6, 0)
        upstream = _over(closed, lambda load: load.upstream_cpu_s / load.seen.good * 1e6, 0)
        late = max(
            (percentile(load.seen.lateness_s, 99) for found in self._measured.values() for load in found.opened),
            default=0.0,
        )
        lines = [
            f"The load generator takes {loader} µs of CPU a request, the upstream {upstream} µs; requests of the open"
            f" load were sent at most {late * 1000:.2f} ms late (p99, worst round), and are timed from their sending."
        ]
        for name, found in self._measured.items():
            if any(load.helper_cpu_s for load in found.closed):
                used = _over(found.closed, lambda load: load.helper_cpu_s / load.seen.good * 1e6, 0)
                lines.append(f"{name}'s Valkey takes {used} µs a request, which its CPU above does not hold.")
        return " ".join(lines)

    def _ratio(self, name: str, of: Callable[[Measured], Sequence[float]]) -> str:
        """Inside each round; empty for the peer itself and where it did not run."""
        peer = self._measured.get(_PEER)
        if peer is None or name == _PEER:
            return ""
        found = [ours / theirs for ours, theirs in zip(of(self._measured[name]), of(peer), strict=False) if theirs]
        return f"**{median(found):.2f}** ({min(found):.2f} to {max(found):.2f})" if found else ""


def _stream_cells(loads: Sequence[Load]) -> list[str]:
    added = [
        "; ".join(_over(loads, lambda load, of=of, at=at: _added_ms(load, of, at)) for at in (50, 99))
        for of in (_ttft, _gaps, _delays)
    ]
    return [
        *(_pair([of(load.seen) for load in loads]) for of in (_ttft, _gaps)),
        *added,
        _over(loads, lambda load: load.gateway_cpu_s / max(load.seen.pieces, 1) * 1e6, 0),
        _over(loads, lambda load: 100 * load.gateway_cpu_s / load.seen.elapsed_s, 0, "%"),
        _errors(loads),
    ]


def _latencies(seen: LoadResult) -> list[float]:
    return seen.latencies_s


def _ttft(seen: LoadResult) -> list[float]:
    return seen.ttft_s


def _gaps(seen: LoadResult) -> list[float]:
    return seen.gaps_s


def _delays(seen: LoadResult) -> list[float]:
    return seen.delays_s


def _direct(load: Load) -> LoadResult:
    assert load.direct is not None, "only what was also measured directly is compared"
    return load.direct


def _added_ms(load: Load, of: Callable[[LoadResult], list[float]], percent: float) -> float:
    return 1000 * (percentile(of(load.seen), percent) - percentile(of(_direct(load)), percent))


def _per_cpu_s(load: Load) -> float:
    return load.seen.good / load.gateway_cpu_s if load.gateway_cpu_s else 0.0


def _over(loads: Sequence[Load], of: Callable[[Load], float], digits: int = 2, unit: str = "") -> str:
    values = [of(load) for load in loads]
    if not values:
        return "n/a"
    if len(values) == 1:
        return f"{values[0]:.{digits}f}{unit}"
    return f"{median(values):.{digits}f}{unit} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def _pair(rounds: Sequence[Sequence[float]]) -> str:
    """p50 / p99 in ms, each the median over the rounds."""
    return " / ".join(f"{1000 * median(percentile(values, at) for values in rounds):.2f}" for at in (50, 99))


def _errors(loads: Sequence[Load]) -> str:
    total: dict[str, int] = {}
    for load in loads:
        for reason, count in load.seen.errors.items():
            total[reason] = total.get(reason, 0) + count
    return "; ".join(f"{count} × {reason}" for reason, count in total.items()) or "0"


def _verdict(met: bool, text: str) -> str:
    return f"- {'met' if met else '**not met**'}: {text}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
