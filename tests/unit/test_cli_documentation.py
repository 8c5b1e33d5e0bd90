"""Every command is in the document, and the command line stays quick to start."""

import subprocess
import sys
from pathlib import Path

import pytest

from forebay.cli.admin.commands import GROUPS, PACKAGE
from forebay.cli.main import build_app

DOCUMENT = Path(__file__).parents[2] / "docs" / "cli.md"
COMMANDS = [
    (group, name)
    for group, (_, commands) in GROUPS.items()
    for names in commands
    for name in ((names,) if isinstance(names, str) else names)
]


@pytest.mark.parametrize(("group", "name"), COMMANDS)
def test_every_command_is_in_the_document(group: str, name: str) -> None:
    text = " ".join(DOCUMENT.read_text(encoding="utf-8").split())
    assert f"forebay {group} {name}" in text


@pytest.mark.parametrize(("group", "name"), [*COMMANDS, ("apply", "")])
def test_every_command_has_a_help_that_says_what_it_does(
    group: str, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Which also imports it, and reads its flags."""
    build_app()([group, *([name] if name else []), "--help"], result_action="return_value")
    assert f"Usage: forebay {group}" in capsys.readouterr().out


def test_apply_is_in_the_document() -> None:
    assert "forebay apply -f" in DOCUMENT.read_text(encoding="utf-8")


def test_help_imports_no_command() -> None:
    program = (
        "import sys; from forebay.cli.main import build_app; build_app()(['--help'], result_action='return_value'); "
        f"print([name for name in sys.modules if name.startswith('{PACKAGE}.') and name != '{PACKAGE}.commands'], "
        "'aiohttp' in sys.modules, 'duckdb' in sys.modules, 'yaml' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert ran.stdout.splitlines()[-1] == "[] False False False"


@pytest.mark.parametrize(
    ("group", "name"), [*COMMANDS, ("apply", ""), ("engine", "serve"), ("serve", ""), ("doctor", "")]
)
def test_help_has_no_python_in_it(group: str, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    build_app()([group, *([name] if name else []), "--help"], result_action="return_value")
    printed = capsys.readouterr().out
    assert not [leak for leak in ("default: ()", "False", "True", "None", "where None") if leak in printed]
