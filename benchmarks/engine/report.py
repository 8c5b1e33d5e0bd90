"""The results as markdown, each bar with its verdict."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from benchmarks.engine.machine import LOAD, QUIET_LOAD
from benchmarks.engine.results import Measurement, Results
from benchmarks.engine.stats import median, percentile, ratios

_OURS = "forebay"
_IN_PROCESS = "forebay-in-process"
_GENAI = "genai"
_TTFT_BAR = 1.2
_PREFIX_BAR = 0.15
_BAR_STREAMS = 16


def report(results: Results) -> str:
    parts = [
        "# The engine beside its peers",
        _how(results),
        _facts(results),
        *_throughput(results),
        *_mixed(results),
        *_prefix(results),
        *_left_out(results),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _how(results: Results) -> str:
    load = float(results.machine[LOAD])
    busy = "" if load <= QUIET_LOAD else " **The machine was busy: these numbers are preliminary.**"
    return (
        f"Measured {results.started} in {results.elapsed_s / 60:.0f} minutes by"
        f" {' and '.join(f'`{command}`' for command in results.commands)};"
        f" [README.md](README.md) says what is run and how. One engine at a time has the machine.{busy}"
    )


def _facts(results: Results) -> str:
    machine = _table(["machine", ""], [[name, value] for name, value in results.machine.items()])
    rows = [
        [name, facts.get("version", ""), facts.get("weights", ""), facts.get("settings", "")]
        for name, facts in results.peers.items()
    ]
    return f"{machine}\n\n{_table(['engine', 'version', 'weights', 'settings'], rows)}"


# -- throughput -------------------------------------------------------------------------------------------------------


def _throughput(results: Results) -> list[str]:
    found = results.of("throughput")
    if not found:
        return []
    peers = _names(found)
    streams = sorted({m.values["streams"] for m in found})
    rounds = len({m.round for m in found})
    head = ["engine", *[f"{count} stream{'s' if count > 1 else ''}" for count in streams]]
    parts = [
        f"## Throughput\n\nEach stream sends prompts of 200 tokens and gets 64; all prompts differ. Medians of {rounds}"
        " rounds, in which the engines take turns.",
        "Output tokens/s:\n\n" + _by_streams(found, peers, streams, head, _tokens_per_s),
    ]
    if _OURS in peers and len(peers) > 1:
        parts.append(_ratio_section(found, peers, streams, head))
    for name, key in (("TTFT", "ttft_s"), ("TPOT", "tpot_s")):
        cells = _by_streams(found, peers, streams, head, lambda ms, key=key: _p50_p95(_pooled(ms, key)))
        parts.append(f"{name}, p50 / p95, ms:\n\n{cells}")
    return parts


def _tokens_per_s(found: Sequence[Measurement]) -> str:
    return f"{median(m.values['output_tokens_per_s'] for m in found):.1f}"


def _by_streams(
    found: Sequence[Measurement],
    peers: Sequence[str],
    streams: Sequence[int],
    head: Sequence[str],
    cell: Callable[[Sequence[Measurement]], str],
) -> str:
    def selected(peer: str, count: int) -> list[Measurement]:
        return [m for m in found if m.peer == peer and m.values["streams"] == count]

    return _table(head, [[peer, *[cell(selected(peer, count)) for count in streams]] for peer in peers])


def _ratio_section(
    found: Sequence[Measurement], peers: Sequence[str], streams: Sequence[int], head: Sequence[str]
) -> str:
    """Our tokens/s over each peer's, round by round; GenAI also against our engine in process."""
    rows: list[list[str]] = []
    bars: list[str] = []
    for ours in (name for name in (_OURS, _IN_PROCESS) if name in peers):
        for peer in peers:
            if peer in (_OURS, _IN_PROCESS) or (ours == _IN_PROCESS and not peer.startswith(_GENAI)):
                continue
            quotients = {count: _round_ratios(found, ours, peer, count) for count in streams}
            rows.append([f"{ours} / {peer}", *[_spread(quotients[count]) for count in streams]])
            bars += _throughput_bars(ours, peer, quotients)
    section = "Ratio of output tokens/s, median (lowest to highest round):\n\n" + _table(head, rows)
    return section + "\n\n" + "\n".join(bars) if bars else section


def _round_ratios(found: Sequence[Measurement], ours: str, peer: str, count: int) -> list[float]:
    def rates(name: str) -> dict[int, float]:
        chosen = (m for m in found if m.peer == name and m.values["streams"] == count)
        return {m.round: m.values["output_tokens_per_s"] for m in chosen}

    tops, bottoms = rates(ours), rates(peer)
    both = sorted(tops.keys() & bottoms.keys())
    return ratios([tops[number] for number in both], [bottoms[number] for number in both])


def _throughput_bars(ours: str, peer: str, quotients: dict[int, list[float]]) -> list[str]:
    if peer.startswith(_GENAI):
        worst = min((median(values), count) for count, values in quotients.items() if values)
        return [_verdict(worst[0] >= 0.95, f"{ours} ≥ 0.95 × {peer}: lowest {worst[0]:.2f}, at {worst[1]} streams")]
    values = quotients.get(_BAR_STREAMS, [])
    if ours != _OURS or not values:
        return []
    text = f"{ours} ≥ 1.5 × {peer} at {_BAR_STREAMS} streams (goal 2 ×): {median(values):.2f}"
    return [_verdict(median(values) >= 1.5, text)]


# -- mixed load -------------------------------------------------------------------------------------------------------


def _mixed(results: Results) -> list[str]:
    found = results.of("mixed")
    if not found:
        return []
    alone = {m.peer: m.values["batch_tokens_per_s"] for m in results.of("batch-alone")}
    head = [
        "engine", "prompt", "arrivals", "arrivals/s", "unloaded p50 / p95, ms", "loaded p50 / p95, ms",
        "ratio p50", "ratio p95", "batch tokens/s (alone)",
    ]  # fmt: skip
    rows: list[list[str]] = []
    bars: list[str] = []
    for m in found:
        unloaded, loaded = _times(m.values["unloaded_ttft_s"]), _times(m.values["loaded_ttft_s"])
        quotients = [percentile(loaded, at) / percentile(unloaded, at) for at in (50, 95)]
        rows.append([
            m.peer, str(m.values["prompt_tokens"]), _arrivals(m), f"{m.values['arrivals_per_s']:.2f}",
            _p50_p95(unloaded), _p50_p95(loaded), *[_number(q) for q in quotients],
            f"{m.values['batch_tokens_per_s']:.0f} ({alone.get(m.peer, math.nan):.0f})",
        ])  # fmt: skip
        if m.peer == _OURS and m.values["prompt_tokens"] >= 200:
            text = f"p95 ≤ {_TTFT_BAR} × unloaded at {m.values['prompt_tokens']} tokens: {_number(quotients[1])}"
            bars.append(_verdict(quotients[1] <= _TTFT_BAR, text))
    intro = (
        "## Interactive requests beside batch load\n\nTTFT of interactive requests (16 tokens of output) that arrive at"
        " random moments, at a rate that alone would keep the engine busy about 30% of the time; the same arrivals once"
        " on the idle engine and once beside 12 batch streams (200 + 512 tokens) that never stop. Engines that know"
        " priorities are told them."
    )
    return [intro, _table(head, rows), "\n".join(bars)]


def _arrivals(m: Measurement) -> str:
    lost = sum(value is None for value in m.values["loaded_ttft_s"])
    return f"{m.values['arrivals']} ({lost} unanswered)" if lost else str(m.values["arrivals"])


# -- shared prefix ----------------------------------------------------------------------------------------------------


def _prefix(results: Results) -> list[str]:
    found = results.of("prefix")
    if not found:
        return []
    head = ["engine", "first TTFT p50 / p95, ms", "second p50 / p95, ms", "ratio of medians", "cached tokens"]
    rows: list[list[str]] = []
    bars: list[str] = []
    for m in found:
        first, second = _times(m.values["first_ttft_s"]), _times(m.values["second_ttft_s"])
        quotient = median(second) / median(first)
        cached = [value for value in m.values["second_cached_tokens"] if value is not None]
        told = f"{median(cached):.0f}" if cached else "not told"
        rows.append([m.peer, _p50_p95(first), _p50_p95(second), _number(quotient, 3), told])
        if m.peer == _OURS:
            bars.append(_verdict(quotient <= _PREFIX_BAR, f"second ≤ {_PREFIX_BAR} × first: {quotient:.3f}"))
    values = found[0].values
    intro = (
        f"## Shared prefix\n\n{len(values['first_ttft_s'])} pairs of requests, one at a time; the two of a pair share"
        f" their first {values['prefix_tokens']} tokens and end in {values['own_tokens']} others."
    )
    return [intro, _table(head, rows), "\n".join(bars)]


# -- pieces -----------------------------------------------------------------------------------------------------------


def _left_out(results: Results) -> list[str]:
    lines = [f"- {name} did not run: {reason}" for name, reason in results.skipped.items()]
    lines += [f"- {text.splitlines()[0]}" for text in results.failed]
    return ["## Not measured\n\n" + "\n".join(lines)] if lines else []


def _names(found: Iterable[Measurement]) -> list[str]:
    return list(dict.fromkeys(m.peer for m in found))


def _pooled(found: Iterable[Measurement], key: str) -> list[float]:
    return [value for m in found for value in m.values[key] if value is not None]


def _times(values: Sequence[Any]) -> list[float]:
    """What never came counts as infinitely late."""
    return [math.inf if value is None else value for value in values]


def _p50_p95(seconds: Sequence[float]) -> str:
    return " / ".join(
        _number(percentile(seconds, at) * 1000, 0 if percentile(seconds, at) >= 0.1 else 1) for at in (50, 95)
    )


def _spread(values: Sequence[float]) -> str:
    if not values:
        return "n/a"
    return f"**{median(values):.2f}** ({min(values):.2f} to {max(values):.2f})"


def _number(value: float, digits: int = 2) -> str:
    if math.isnan(value):
        return "n/a"
    return "∞" if math.isinf(value) else f"{value:.{digits}f}"


def _verdict(met: bool, text: str) -> str:
    return f"- {'met' if met else '**not met**'}: {text}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
