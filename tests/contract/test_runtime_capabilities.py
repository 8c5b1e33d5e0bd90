"""What the embedded runtime says of this machine."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from forebay.core.errors import UnsupportedMachine
from forebay.engine.runtime.capabilities import MachineReport, check_machine, require_paged_attention


def test_the_machine_that_runs_the_golden_logits_has_paged_attention() -> None:
    report = check_machine()
    assert report.paged_attention, report.reason
    assert report.reason == ""
    assert report.cpu
    assert report.usable_cores >= 1
    require_paged_attention(report)


def test_a_machine_without_it_is_shown_the_way_out() -> None:
    report = MachineReport("Some ARM", 8, "f32", paged_attention=False, reason="PagedAttention is not supported")
    with pytest.raises(UnsupportedMachine, match=r"Some ARM\): PagedAttention is not supported.*set `url`"):
        require_paged_attention(report)


def test_the_runtime_reports_its_use_to_nobody(tmp_path: Path) -> None:
    environment = {**os.environ, "HOME": str(tmp_path)}
    environment.pop("CI", None)
    script = (
        "import forebay.engine.runtime.capabilities, openvino.tools.ovc as ovc; print(type(ovc.telemetry).__module__)"
    )
    said = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=60, check=True
    )
    assert "openvino_telemetry" not in said.stdout
    assert list(tmp_path.iterdir()) == []
