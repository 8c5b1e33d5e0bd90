"""The whole configuration in one file, which any database of ours takes back.

Gzipped JSON lines: a header, one line for each row (with its table), and a last line with their number, so that a file
that was cut off is known. It has the hashes of keys in it, so that only its owner may read it.
"""

import gzip
import os
import secrets
import zlib
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, cast

import msgspec
from sqlalchemy import JSON, Connection, TableClause, column, delete, func, insert, inspect, select, table

from forebay.core.errors import ConfigurationError, Conflict, StoreUnavailable
from forebay.storage.relational import schema
from forebay.storage.relational.database import FOR_OPERATORS, Database, sqlite_file
from forebay.storage.relational.tables import CHANGE_COUNT, METADATA

FORMAT = "forebay-configuration"
FORMAT_VERSION = 1
ROWS_AT_ONCE = 200


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """The first line. `version` is of the tables."""

    format: str
    format_version: int
    version: str


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One row of a table."""

    table: str
    row: dict[str, Any]


class End(msgspec.Struct, frozen=True, kw_only=True):
    """The last line."""

    rows: int


def backup(url: str, file: Path) -> int:
    """Write all of a database, as of one moment, to `file`, which appears whole or not at all. Returns how many rows.

    Raises ConfigurationError where the database has no tables of ours or the file cannot be written, StoreUnavailable.
    """
    kept = sqlite_file(url)
    if kept is not None and not kept.exists():
        raise ConfigurationError(f"The database {kept} has nothing in it to back up: there is no such file.")
    database = Database(url, FOR_OPERATORS)
    beside = file.with_name(f"{file.name}.{secrets.token_hex(8)}")
    try:
        with database.reading() as connection:
            version = schema.version_of(connection)
            if version == schema.NOTHING:
                raise ConfigurationError(f"The database {database.name} has nothing in it to back up.")
            schema.require_known(version, f"The database {database.name}")
            with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
                rows = _write(connection, version, out)
                out.flush()
                os.fsync(out.fileno())
        beside.replace(file)
        return rows
    except OSError as error:
        raise ConfigurationError(f"The backup {file} cannot be written: {error.strerror or error}.") from error
    finally:
        beside.unlink(missing_ok=True)
        database.close()


def restore(url: str, file: Path, *, force: bool = False) -> int:
    """Put what `backup` wrote into a database that holds nothing yet, or with `force` in place of what it holds. All is
    done or nothing. The tables end at the newest version, whatever that of the backup. Returns how many rows.

    Gateways that run on that database have to be started again: they tell a new configuration by the number of its last
    change, which goes back. Raises Conflict where the database holds anything, ConfigurationError, StoreUnavailable.
    """
    try:
        with file.open("rb") as raw, gzip.open(raw) as lines, ExitStack() as opened:
            reader = _Reader(file, cast(BinaryIO, lines))
            header = reader.header()
            # Only now, as it makes SQLite's file where there is none.
            database = opened.enter_context(_opened(url))
            with database.writing() as connection:
                schema.lock_for_migrating(connection, database)
                schema.require_known(schema.version_of(connection), f"The database {database.name}")
                if not force and _holds_anything(connection):
                    raise Conflict(
                        f"The database {database.name} holds a configuration already. Restore into an empty one, or "
                        "force it, which deletes what is there."
                    )
                schema.move_to(connection, schema.NOTHING)
                schema.move_to(connection, header.version)
                rows = _fill(connection, reader)
                schema.move_to(connection, schema.newest())
        return rows
    except OSError as error:
        raise ConfigurationError(f"The backup {file} cannot be read: {error.strerror or error}.") from error


@contextmanager
def _opened(url: str) -> Generator[Database]:
    """Where that fails, an SQLite file that was not there before is not there either, unless another has filled it."""
    file = sqlite_file(url)
    new = file is not None and not file.exists()
    made = [parent for parent in file.absolute().parents if not parent.exists()] if file is not None else []
    database = Database(url, FOR_OPERATORS)
    try:
        yield database
    except BaseException:
        empty = new and _has_no_tables(database)
        database.close()
        if file is not None and empty:
            _remove(file, made)
        raise
    finally:
        database.close()


def _has_no_tables(database: Database) -> bool:
    """False where that cannot be seen."""
    try:
        with database.reading() as connection:
            return not inspect(connection).get_table_names()
    except StoreUnavailable:
        return False


def _remove(file: Path, made: Sequence[Path]) -> None:
    """An SQLite database, and the directories `made` for it, the innermost first, where nothing else is in them."""
    for each in (file, *(file.with_name(file.name + end) for end in ("-wal", "-shm"))):
        each.unlink(missing_ok=True)
    with suppress(OSError):
        for directory in made:
            directory.rmdir()


class _Reader:
    """The lines of a backup, in order."""

    def __init__(self, file: Path, lines: BinaryIO) -> None:
        self._file = file
        self._lines = lines

    def header(self) -> Header:
        header = self._decoded(self._line(), Header)
        if header.format != FORMAT or header.format_version != FORMAT_VERSION:
            raise self._wrong(f"its format is {header.format} {header.format_version}")
        schema.require_known(header.version, f"The backup {self._file}")
        return header

    def rows(self) -> Iterator[Row]:
        """To the last line. Raises ConfigurationError where that is missing or tells another number of rows."""
        number = 0
        while True:
            line = self._line()
            if line.startswith(b'{"rows":'):
                if self._decoded(line, End).rows != number or self._line():
                    raise self._wrong("rows are missing or too many")
                return
            yield self._decoded(line, Row)
            number += 1

    def _line(self) -> bytes:
        try:
            return self._lines.readline()
        except (EOFError, zlib.error, gzip.BadGzipFile):
            raise self._wrong("it is not whole") from None

    def _decoded(self, line: bytes, type_: type[Any]) -> Any:
        if not line:
            raise self._wrong("it is not whole")
        try:
            return msgspec.json.decode(line, type=type_)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise self._wrong(str(error)) from None

    def _wrong(self, why: str) -> ConfigurationError:
        return ConfigurationError(
            f"The file {self._file} is not a backup that can be restored: {why}. Nothing was changed."
        )


def _write(connection: Connection, version: str, out: BinaryIO) -> int:
    rows = 0
    encoder = msgspec.json.Encoder()
    with gzip.GzipFile(fileobj=out, mode="wb", filename="", mtime=0) as lines:
        lines.write(encoder.encode(Header(format=FORMAT, format_version=FORMAT_VERSION, version=version)) + b"\n")
        for kept in _tables_there(connection):
            for found in connection.execute(select(kept)).mappings():
                row = Row(table=str(kept.name), row={str(name): held for name, held in found.items()})
                lines.write(encoder.encode(row) + b"\n")
                rows += 1
        lines.write(encoder.encode(End(rows=rows)) + b"\n")
    return rows


def _fill(connection: Connection, reader: _Reader) -> int:
    """The tables are new; the count of changes has its row already."""
    tables = {kept.name: kept for kept in _tables_there(connection)}
    connection.execute(delete(CHANGE_COUNT))
    rows, waiting = 0, list[Row]()
    for row in reader.rows():
        if row.table not in tables or row.row.keys() != set(tables[row.table].c.keys()):
            raise ConfigurationError(
                f"The backup's row {rows + 1} does not fit its table {row.table!r}. Nothing was changed."
            )
        if waiting and (waiting[0].table != row.table or len(waiting) >= ROWS_AT_ONCE):
            _insert(connection, tables, waiting)
            waiting.clear()
        waiting.append(row)
        rows += 1
    if waiting:
        _insert(connection, tables, waiting)
    return rows


def _insert(connection: Connection, tables: Mapping[str, TableClause], rows: Sequence[Row]) -> None:
    connection.execute(insert(tables[rows[0].table]), [row.row for row in rows])


def _holds_anything(connection: Connection) -> bool:
    return any(
        connection.execute(select(func.count()).select_from(kept)).scalar_one()
        for kept in _tables_there(connection)
        if kept.name != CHANGE_COUNT.name
    )


def _tables_there(connection: Connection) -> list[TableClause]:
    """Our tables with the columns that they have in this version, each after those that it refers to."""
    inspector = inspect(connection)
    names = set(inspector.get_table_names())
    return [
        table(kept.name, *(column(found["name"], _type(found["type"])) for found in inspector.get_columns(kept.name)))
        for kept in METADATA.sorted_tables
        if kept.name in names
    ]


def _type(found: Any) -> Any:
    """Without this, a null would be kept as JSON's own."""
    return JSON(none_as_null=True) if isinstance(found, JSON) else found
