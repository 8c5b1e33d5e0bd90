"""The configuration's database, for commands that work on it without a gateway."""

from pathlib import Path

from forebay.storage.relational import backup as backups
from forebay.storage.relational import schema
from forebay.storage.relational.database import sqlite_file, sqlite_url

DATABASE_FILE = "forebay.db"


def database_url(configured: str | None, data_dir: Path) -> str:
    """The one that is configured, else the file in the data directory."""
    return configured or sqlite_url(data_dir / DATABASE_FILE)


def database_file(configured: str | None, data_dir: Path) -> Path | None:
    """The file of that database; None where a server has it. Raises ConfigurationError where its URL is wrong."""
    return sqlite_file(database_url(configured, data_dir))


def backup_database(url: str, file: Path) -> int:
    """Returns how many rows were written. Raises what `storage.relational.backup.backup` raises."""
    return backups.backup(url, file)


def restore_database(url: str, file: Path, *, force: bool) -> int:
    """Returns how many rows were restored. Raises what `storage.relational.backup.restore` raises."""
    return backups.restore(url, file, force=force)


def migrate_database(url: str, version: str | None) -> str:
    """Returns the version that the tables are of then. Raises what `storage.relational.schema.migrate` raises."""
    schema.migrate(url, version)
    return version or schema.newest()
