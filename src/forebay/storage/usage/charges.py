"""A chargeback as Parquet."""

import tempfile
from pathlib import Path

import duckdb
import msgspec

from forebay.metering.chargeback import Chargeback
from forebay.storage.usage.duck import OFFLINE, quoted
from forebay.storage.usage.partitions import unreadable

_COLUMNS = {
    **{"tenant": "VARCHAR", "model_version": "VARCHAR", "priority": "VARCHAR", "requests": "BIGINT"},
    **{"prompt_tokens": "BIGINT", "cached_tokens": "BIGINT", "output_tokens": "BIGINT", "cost_nanos": "BIGINT"},
    **{"prompt_nanos": "BIGINT", "output_nanos": "BIGINT"},
    **{"nanos_per_million_prompt": "BIGINT", "nanos_per_million_output": "BIGINT"},
}


def write_parquet(report: Chargeback, target: Path) -> None:
    """A row for each charge, in the report's order, and one for the total; in the place of a file that is there.

    Blocking. Raises StoreUnavailable.
    """
    columns = ", ".join(f"{name}: '{kind}'" for name, kind in _COLUMNS.items())
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "charges.json"
        source.write_bytes(msgspec.json.Encoder().encode_lines([*report.charges, report.total]))
        table = f"read_json({quoted(source)}, format = 'newline_delimited', columns = {{{columns}}})"
        try:
            with duckdb.connect(":memory:", config={**OFFLINE}) as connection:
                charges = f"SELECT {quoted(report.month)} AS month, * FROM {table}"
                connection.execute(f"COPY ({charges}) TO {quoted(target)} (FORMAT parquet)")
        except duckdb.Error as error:
            raise unreadable(error) from error
