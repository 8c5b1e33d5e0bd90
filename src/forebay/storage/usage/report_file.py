"""A report of usage as a Parquet file."""

import secrets
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import msgspec

from forebay.core.errors import ConfigurationError
from forebay.storage.usage.duck import OFFLINE, quoted


def write_report(file: Path, columns: Mapping[str, str], rows: Sequence[Mapping[str, Any]]) -> None:
    """`columns` is name → DuckDB's type; rows have them all. The file appears whole or not at all.

    Raises ConfigurationError where it cannot be written.
    """
    beside = file.with_name(f"{file.name}.{secrets.token_hex(8)}")
    try:
        with tempfile.TemporaryDirectory() as folder, duckdb.connect(":memory:", config={**OFFLINE}) as connection:
            source = Path(folder) / "rows.json"
            source.write_bytes(b"\n".join(map(msgspec.json.encode, rows)) + b"\n")
            types = ", ".join(f"{quoted(name)}: {quoted(type_)}" for name, type_ in columns.items())
            table = f"read_json({quoted(source)}, format = 'newline_delimited', columns = {{{types}}})"
            connection.execute(f"COPY (SELECT * FROM {table}) TO {quoted(beside)} (FORMAT parquet, COMPRESSION zstd)")
        beside.replace(file)
    except (OSError, duckdb.Error) as error:
        raise ConfigurationError(f"The report {file} cannot be written: {error}.") from error
    finally:
        beside.unlink(missing_ok=True)
