"""What is written about the settings is what they are."""

from pathlib import Path

from forebay.cli.settings import with_table
from forebay.config.documentation import all_settings

DOCUMENT = Path(__file__).parents[2] / "docs" / "configuration.md"


def test_every_setting_says_what_it_does() -> None:
    """In words, or by a name with its unit in it."""
    silent = [setting.path for setting in all_settings() if not setting.text]
    assert silent == []


def test_the_document_s_table_is_the_code_s() -> None:
    written = DOCUMENT.read_text(encoding="utf-8")
    assert with_table(written, str(DOCUMENT)) == written, "run `make docs`"
