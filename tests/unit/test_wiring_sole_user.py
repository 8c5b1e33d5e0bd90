"""Who may count in memory over a data directory."""

from pathlib import Path

import pytest

from forebay.core.errors import ConfigurationError
from forebay.wiring.sole_user import sole_user


def test_a_second_one_is_told_what_to_do_until_the_first_is_gone(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    with sole_user(directory):
        with pytest.raises(ConfigurationError, match=r"storage\.counters"), sole_user(directory):
            pass
        with sole_user(tmp_path / "other"):
            pass
    with sole_user(directory):
        pass


def test_a_directory_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match="data_dir"), sole_user(tmp_path / "file" / "below"):
        pass
