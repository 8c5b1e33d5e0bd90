"""The DuckDB that writes and reads usage as Parquet."""

from pathlib import Path

import duckdb

COLUMNS = {
    **{"id": "VARCHAR", "request_id": "VARCHAR", "tenant": "VARCHAR", "key": "VARCHAR"},
    **{"tags": "MAP(VARCHAR, VARCHAR)", "alias": "VARCHAR", "model_version": "VARCHAR", "pool": "VARCHAR"},
    **{"replica": "VARCHAR", "priority": "VARCHAR", "route": "VARCHAR", "stream": "BOOLEAN"},
    **{"opened_at": "DOUBLE", "ended_at": "DOUBLE", "status": "VARCHAR", "http_status": "INTEGER"},
    **{"counted": "VARCHAR", "prompt_tokens": "BIGINT", "cached_tokens": "BIGINT", "output_tokens": "BIGINT"},
    **{"ttft_s": "DOUBLE", "tpot_s": "DOUBLE", "queue_wait_s": "DOUBLE", "fallback": "BOOLEAN"},
    **{"price_version": "VARCHAR", "cost_nanos": "BIGINT", "idempotency_hash": "VARCHAR", "prompt_nanos": "BIGINT"},
}
"""Of a record in the warehouse; times in Unix seconds, money in nano-dollars."""

ONCE = "QUALIFY row_number() OVER (PARTITION BY id ORDER BY status = 'recovered', ended_at) = 1"
"""Of records that came twice one counts: that of the process which saw the end, where there is one."""


OFFLINE = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    # What a report takes of the machine is taken from inference.
    "threads": "1",
}


class Duck:
    """One DuckDB in memory, for several threads, each with a `cursor`. It reaches for nothing beyond this machine."""

    def __init__(self, scratch: Path, memory_mb: int) -> None:
        scratch.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._connection = duckdb.connect(
            ":memory:",
            config={
                **OFFLINE,
                "memory_limit": f"{memory_mb}MiB",
                "temp_directory": str(scratch),
                "preserve_insertion_order": "false",
            },
        )

    def cursor(self) -> duckdb.DuckDBPyConnection:
        return self._connection.cursor()

    def close(self) -> None:
        self._connection.close()


def json_lines(path: Path) -> str:
    """The records of a file of JSON lines, as a table."""
    columns = ", ".join(f"{name}: '{kind}'" for name, kind in COLUMNS.items())
    return f"read_json({quoted(path)}, format = 'newline_delimited', columns = {{{columns}}})"


def parquet(paths: list[Path]) -> str:
    """The records of Parquet files, one at least, as a table."""
    listed = ", ".join(map(quoted, paths))
    return f"read_parquet([{listed}], hive_partitioning = false, union_by_name = true)"


def quoted(text: str | Path) -> str:
    """As SQL's text."""
    return "'" + str(text).replace("'", "''") + "'"
