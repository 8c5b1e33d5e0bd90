"""What `forebay doctor` asks of the engine's runtime."""

from dataclasses import dataclass

from forebay.core.errors import UnsupportedMachine
from forebay.engine.runtime.capabilities import check_machine, require_paged_attention


@dataclass(frozen=True, slots=True)
class EngineSupport:
    """How the embedded engine would run here; `problem` says why it cannot, and the way out, or is empty."""

    cpu: str
    usable_cores: int
    inference_precision: str
    problem: str


def engine_support() -> EngineSupport:
    """Try it, with a model of a few kilobytes."""
    report = check_machine()
    problem = ""
    try:
        require_paged_attention(report)
    except UnsupportedMachine as error:
        problem = error.detail
    return EngineSupport(report.cpu, report.usable_cores, report.inference_precision, problem)
