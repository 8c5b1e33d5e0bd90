"""API keys are made once, kept safely and compared by hash."""

import stat
from pathlib import Path

import pytest

from forebay.core.errors import ConfigurationError
from forebay.tenancy.keys import KEY_FILE, key_hash, load_or_create_key, new_key


def test_a_key_is_made_once_and_is_readable_by_its_owner_alone(tmp_path: Path) -> None:
    directory = tmp_path / "not" / "there" / "yet"
    key = load_or_create_key(directory)
    assert load_or_create_key(directory) == key
    assert stat.S_IMODE((directory / KEY_FILE).stat().st_mode) == 0o600
    assert [path.name for path in directory.iterdir()] == [KEY_FILE]


def test_keys_differ_and_are_long() -> None:
    keys = {new_key() for _ in range(100)}
    assert len(keys) == 100
    assert min(len(key) for key in keys) >= 40


def test_a_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    load_or_create_key(tmp_path)
    (tmp_path / KEY_FILE).chmod(0o644)
    with pytest.raises(ConfigurationError, match="chmod 600"):
        load_or_create_key(tmp_path)


def test_an_empty_key_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / KEY_FILE).touch(mode=0o600)
    with pytest.raises(ConfigurationError, match="empty"):
        load_or_create_key(tmp_path)


def test_a_directory_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match="data_dir"):
        load_or_create_key(tmp_path / "file" / "below")


def test_each_key_has_a_hash_of_its_own() -> None:
    key = new_key()
    assert key_hash(key) == key_hash(key)
    assert key_hash(key) != key_hash(new_key())
