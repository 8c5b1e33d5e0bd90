"""The results file: one JSON object, rewritten after each block, so that an interrupted run can still be reported."""

import time
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.engine.machine import LOAD
from benchmarks.engine.work import WORK

RESULTS = WORK / "results.json"


class Measurement(msgspec.Struct):
    """One load on one peer. `values` is what the workload returned."""

    kind: str
    peer: str
    round: int
    values: dict[str, Any]

    @property
    def identity(self) -> tuple[object, ...]:
        """What two measurements of the same thing have in common."""
        return (self.kind, self.peer, self.round, self.values.get("streams"), self.values.get("prompt_tokens"))


class Results(msgspec.Struct):
    """A whole run. `peers` holds the facts of those that ran, `skipped` and `failed` why others did not."""

    started: str
    commands: list[str]
    machine: dict[str, str]
    peers: dict[str, dict[str, str]] = {}
    skipped: dict[str, str] = {}
    failed: list[str] = []
    measurements: list[Measurement] = []
    elapsed_s: float = 0.0

    def of(self, kind: str, peer: str | None = None) -> list[Measurement]:
        return [m for m in self.measurements if m.kind == kind and peer in (None, m.peer)]

    def continued(self, earlier: "Results") -> "Results":
        """This run as the sequel of `earlier`, on the same machine: what is measured anew replaces what was there."""
        return Results(
            started=earlier.started,
            commands=[*earlier.commands, *self.commands],
            machine=self.machine | {LOAD: max(earlier.machine[LOAD], self.machine[LOAD], key=float)},
            peers=dict(earlier.peers),
            skipped=dict(earlier.skipped),
            measurements=list(earlier.measurements),
            failed=list(earlier.failed),
            elapsed_s=earlier.elapsed_s,
        )

    def add(self, measurement: Measurement) -> None:
        """Keep it, in place of an earlier one of the same peer, load, parameters and round."""
        self.measurements = [m for m in self.measurements if m.identity != measurement.identity]
        self.measurements.append(measurement)

    def save(self, path: Path = RESULTS) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_suffix(".part")
        fresh.write_bytes(msgspec.json.format(msgspec.json.encode(self)))
        fresh.replace(path)


def load_results(path: Path = RESULTS) -> Results:
    return msgspec.json.decode(path.read_bytes(), type=Results)


def now_text() -> str:
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
