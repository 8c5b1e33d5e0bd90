"""Which version the tables are of, and how they get to another."""

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text

from forebay.core.errors import ConfigurationError
from forebay.storage.relational.database import FOR_OPERATORS, Database

VERSION_TABLE = "forebay_schema"
NOTHING = "base"
MIGRATIONS = Path(__file__).parent / "migrations"
LOCK_ID = 0x666F7265626179
"""Of Postgres's advisory lock that whoever migrates holds."""


def newest() -> str:
    """The version that this code works with."""
    head = _scripts().get_current_head()
    assert head is not None, "the package has migrations"
    return head


def version_of(connection: Connection) -> str:
    """The version of the database's tables; `base` where there are none."""
    heads = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE}).get_current_heads()
    return heads[0] if heads else NOTHING


def require_known(version: str, whose: str) -> None:
    """Raises ConfigurationError where a version is not of this code's past."""
    known = [script.revision for script in _scripts().walk_revisions()]
    if version != NOTHING and version not in known:
        raise ConfigurationError(
            f"{whose} is of version {version!r}, which this Forebay does not know: it was made by a newer one. This "
            f"one knows {newest()} at most. Install the newer Forebay, or restore a backup that was made before."
        )


def lock_for_migrating(connection: Connection, database: Database) -> None:
    """Let no one else migrate until the transaction ends. SQLite's write lock, which is held, does so by itself."""
    if not database.is_sqlite:
        connection.execute(text("SELECT pg_advisory_xact_lock(:id)"), {"id": LOCK_ID})


def move_to(connection: Connection, version: str) -> None:
    """Bring the tables to a `version`, up or down, in the transaction that is open. Each migration says what is dropped
    on the way down.
    """
    config = _config()
    config.attributes |= {"connection": connection, "version_table": VERSION_TABLE}
    known = [NOTHING, *(script.revision for script in reversed(list(_scripts().walk_revisions())))]
    there = version_of(connection)
    if known.index(version) < known.index(there):
        command.downgrade(config, version)
    elif version != there:
        command.upgrade(config, version)


def migrate(url: str, version: str | None = None) -> None:
    """Bring a database to the newest version, or to that one. Of several who try at once, one does it.

    Raises ConfigurationError where the database is of a newer version than this code, StoreUnavailable.
    """
    database = Database(url, FOR_OPERATORS)
    target = newest() if version is None else version
    require_known(target, "What is asked for")
    try:
        with database.reading() as connection:
            there = version_of(connection)
        require_known(there, f"The database {database.name}")
        if there == target:
            return
        with database.writing() as connection:
            lock_for_migrating(connection, database)
            require_known(version_of(connection), f"The database {database.name}")
            move_to(connection, target)
    finally:
        database.close()


def _config() -> Config:
    config = Config()
    # Alembic reads it with ConfigParser, to which a percent sign is special.
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    return config


def _scripts() -> ScriptDirectory:
    return ScriptDirectory.from_config(_config())
