"""One database, SQLite or Postgres: its connections and transactions."""

import os
import sqlite3
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError

from forebay.core.errors import ConfigurationError
from forebay.storage.relational.failures import told_as_our_own

SCHEMES = {"sqlite": "sqlite+pysqlite", "postgresql": "postgresql+psycopg", "postgres": "postgresql+psycopg"}
FORMS = "`sqlite:///path/to/file` or `postgresql://user:password@host:5432/database`"
WRITES = "forebay_writes"
# Parameters are rows, with hashes of keys in them: they are not for messages and logs.
POOL: dict[str, Any] = {"pool_size": 5, "pool_timeout": 5.0, "hide_parameters": True}
RETRY_S = 0.05


@dataclass(frozen=True, slots=True)
class TimeLimits:
    """Seconds: of one statement, of waiting for another's lock."""

    statement_s: float = 5.0
    lock_s: float = 5.0


FOR_REQUESTS = TimeLimits()
FOR_OPERATORS = TimeLimits(statement_s=600.0, lock_s=60.0)
"""Of migrations, backup and restore."""


class Database:
    """Connections are made when they are first needed. A transaction is done whole or not at all."""

    def __init__(self, url: str, limits: TimeLimits = FOR_REQUESTS) -> None:
        """Raises ConfigurationError where the URL is wrong, the file cannot be made or the driver is not installed."""
        parsed = _parsed(url)
        self.name = parsed.render_as_string(hide_password=True).replace("+pysqlite", "").replace("+psycopg", "")
        self.is_sqlite = parsed.get_backend_name() == "sqlite"
        self._engine = _sqlite_engine(parsed, limits) if self.is_sqlite else _postgres_engine(parsed, limits)
        isolation: dict[str, Any] = (
            {} if self.is_sqlite else {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
        )
        self._reader = self._engine.execution_options(**isolation)
        self._writer = self._engine.execution_options(**{WRITES: True})

    @contextmanager
    def reading(self) -> Generator[Connection]:
        """All that is read is of one moment. Raises StoreUnavailable."""
        with told_as_our_own(self.name), self._reader.connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def writing(self) -> Generator[Connection]:
        """Raises StoreUnavailable, Conflict."""
        with told_as_our_own(self.name), self._writer.begin() as connection:
            yield connection

    def close(self) -> None:
        self._engine.dispose()


def sqlite_url(path: Path) -> str:
    """The URL of a file, whatever characters its name has."""
    return URL.create("sqlite", database=str(path)).render_as_string()


def sqlite_file(url: str) -> Path | None:
    """The file of an SQLite database; None for another. Raises ConfigurationError where the URL is wrong."""
    parsed = _parsed(url)
    return Path(parsed.database) if parsed.get_backend_name() == "sqlite" and parsed.database else None


def _parsed(url: str) -> URL:
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        raise ConfigurationError(f"The URL of the configuration's database cannot be read. Give {FORMS}.") from None
    scheme = parsed.drivername.removesuffix("+psycopg")
    if scheme not in SCHEMES:
        raise ConfigurationError(f"The configuration's database cannot be a {scheme!r}. Give {FORMS}.")
    if scheme == "sqlite" and (parsed.database in {None, "", ":memory:"} or parsed.query or parsed.host):
        raise ConfigurationError(
            "The URL of the configuration's SQLite database has to name a file, and nothing else: `sqlite:///relative/"
            "path` or `sqlite:////absolute/path`."
        )
    return parsed.set(drivername=SCHEMES[scheme])


def _sqlite_engine(url: URL, limits: TimeLimits) -> Engine:
    assert url.database is not None, "checked when it was parsed"
    _make_file(Path(url.database))
    engine = create_engine(url, connect_args={"timeout": limits.lock_s}, **POOL)

    @event.listens_for(engine, "connect")
    def configure(connection: sqlite3.Connection, _record: object) -> None:  # pyright: ignore[reportUnusedFunction]
        # Transactions begin where we say so, not where Python's driver guesses.
        connection.isolation_level = None
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA synchronous = FULL")
        _use_write_ahead_log(connection, limits.lock_s)

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:  # pyright: ignore[reportUnusedFunction]
        writes = connection.get_execution_options().get(WRITES, False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def _make_file(path: Path) -> None:
    """SQLite gives the files that it puts beside this one the same mode."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        if os.name == "posix" and path.stat().st_mode & 0o077:
            path.chmod(0o600)
    except OSError as error:
        raise ConfigurationError(
            f"The configuration's database {path} cannot be opened: {error.strerror or error}. Set data_dir or "
            "storage.database to where this user may write."
        ) from error


def _use_write_ahead_log(connection: sqlite3.Connection, limit_s: float) -> None:
    """The file remembers it. SQLite's own patience does not cover this switch, which two first starts may both make."""
    deadline = time.monotonic() + limit_s
    while True:
        try:
            if connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
                connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError:
            if time.monotonic() >= deadline:
                raise
            time.sleep(RETRY_S)


def _postgres_engine(url: URL, limits: TimeLimits) -> Engine:
    try:
        connect = partial(
            import_module("forebay.storage.relational.postgres").connect, limits.statement_s + limits.lock_s
        )
        engine = create_engine(url, pool_pre_ping=True, **POOL)
    except ImportError as error:
        raise ConfigurationError(
            "The configuration's database is a Postgres, whose driver is not installed: install the extra `postgres` "
            "(pip install 'forebay[postgres]')."
        ) from error
    bounds = (
        f"SET LOCAL statement_timeout = {round(limits.statement_s * 1000)};"
        f"SET LOCAL lock_timeout = {round(limits.lock_s * 1000)};"
        f"SET LOCAL idle_in_transaction_session_timeout = {round(limits.statement_s * 1000)}"
    )

    @event.listens_for(engine, "do_connect")
    def do_connect(  # pyright: ignore[reportUnusedFunction]
        _dialect: object, _record: object, arguments: list[Any], parameters: dict[str, Any]
    ) -> object:
        return connect(*arguments, **parameters)

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:  # pyright: ignore[reportUnusedFunction]
        connection.exec_driver_sql(bounds)

    return engine
