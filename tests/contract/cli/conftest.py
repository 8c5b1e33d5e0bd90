"""The command line against a gateway's real Admin API."""

import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from forebay.cli.main import main
from tests.contract.gateway_admin.platform import OPERATOR, AdminPlatform, admin_platform


@dataclass(frozen=True)
class Ran:
    """What a command printed, and how it ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Cli = Callable[..., Ran]


@pytest.fixture
def platform(tmp_path: Path) -> Iterator[AdminPlatform]:
    with admin_platform(tmp_path) as made:
        made.wall.now = time.time()
        yield made


@pytest.fixture
def forebay(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Runs a command line in this process, in 80 columns."""
    monkeypatch.setenv("COLUMNS", "80")

    def run(*arguments: str) -> Ran:
        monkeypatch.setattr(sys, "argv", ["forebay", *arguments])
        capsys.readouterr()
        # The gateway is in this process too, and its log is no part of what the command prints.
        with pytest.raises(SystemExit) as ended, warnings.catch_warnings(action="ignore"), capture_logs():
            main()
        printed = capsys.readouterr()
        code = ended.value.code
        return Ran(code if isinstance(code, int) else 0 if code is None else 1, printed.out, printed.err)

    return run


@pytest.fixture
def cli(forebay: Cli, platform: AdminPlatform, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Likewise, with the platform's address and the operator's key in the environment."""
    monkeypatch.setenv("FOREBAY_URL", f"http://{platform.host}:{platform.port}")
    monkeypatch.setenv("FOREBAY_API_KEY", OPERATOR)
    return forebay
