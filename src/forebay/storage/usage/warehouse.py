"""The books of usage: what is in the warehouse, and what is still in the local logs."""

import asyncio
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import duckdb
import msgspec

from forebay.core.calendar import LAST_DAY, day_of
from forebay.core.errors import InvalidRequest
from forebay.metering.report import FIELDS, TAG, UsageRow, require_groups
from forebay.metering.usage import UsageRecord
from forebay.storage.usage.duck import ONCE, Duck, json_lines, parquet
from forebay.storage.usage.partitions import Partitions, unreadable
from forebay.storage.usage.tail import write_tail

T = TypeVar("T")

MOST_ROWS = 200_000
ATTEMPTS = 5
"""At reading files that may have been merged into others since they were listed."""
_TIMES = {"day": "%Y-%m-%d", "hour": "%Y-%m-%dT%H:00Z", "month": "%Y-%m"}
_SUMS = (
    "count(*), coalesce(sum(prompt_tokens), 0), coalesce(sum(cached_tokens), 0), coalesce(sum(output_tokens), 0), "
    "coalesce(sum(cost_nanos), 0), coalesce(sum(prompt_nanos), 0), "
    "avg(ttft_s), quantile_cont(ttft_s, 0.5), quantile_cont(ttft_s, 0.95), "
    "avg(tpot_s), quantile_cont(tpot_s, 0.5), quantile_cont(tpot_s, 0.95)"
)
_RECORD = UsageRecord.__struct_fields__


class Warehouse:
    """Answers one question at a time, in a thread of its own. Fits `UsageBooks`.

    `log_root` is where the gateways of this machine have their logs: what ended under one of them counts at once, what
    ended elsewhere when it has come to the object storage.
    """

    def __init__(self, partitions: Partitions, duck: Duck, log_root: Path, scratch: Path) -> None:
        self._partitions = partitions
        self._duck = duck
        self._log_root = log_root
        self._scratch = scratch
        self._thread = ThreadPoolExecutor(1, "usage-report")

    def close(self) -> None:
        """After the last question."""
        self._thread.shutdown()

    async def query(
        self, start: float, end: float, group_by: Sequence[str], where: Mapping[str, str]
    ) -> list[UsageRow]:
        require_groups(group_by, param="group_by")
        require_groups(tuple(where), param="where")
        _require_period(start, end)
        return await self._in_thread(lambda: self._sums(start, end, group_by, where))

    async def records(
        self, start: float, end: float, where: Mapping[str, str], *, after: str | None, limit: int
    ) -> list[UsageRecord]:
        require_groups(tuple(where), param="where")
        _require_period(start, end)
        return await self._in_thread(lambda: self._page(start, end, where, after, limit))

    async def repeatable(self, since: float) -> list[UsageRecord]:
        return await self._in_thread(lambda: self._repeatable(since))

    def _sums(self, start: float, end: float, group_by: Sequence[str], where: Mapping[str, str]) -> list[UsageRow]:
        values: list[Any] = []
        groups = [_expression(name, values) for name in group_by]
        chosen = _chosen(where, values)
        columns = ", ".join([*groups, _SUMS])
        grouping = f" GROUP BY {_ordinals(groups)} ORDER BY {_ordinals(groups)}" if groups else ""

        def statement(usage: str) -> str:
            return f"SELECT {columns} FROM {usage} WHERE true{chosen}{grouping} LIMIT {MOST_ROWS + 1}"

        rows = self._rows(start, end, statement, values)
        if len(rows) > MOST_ROWS:
            raise InvalidRequest(f"That gives more than {MOST_ROWS} rows. Ask for less time or fewer groups.")
        return [_usage_row(group_by, row) for row in rows]

    def _page(
        self, start: float, end: float, where: Mapping[str, str], after: str | None, limit: int
    ) -> list[UsageRecord]:
        values: list[Any] = []
        chosen = _chosen(where, values)
        # The one that it shall begin after is asked for too: it is known that there is one.
        begin = ""
        if after is not None:
            begin = (
                f", (SELECT ended_at AS last_at, id AS last_id FROM chosen WHERE id = {_value(after, values)}) "
                "WHERE ended_at > last_at OR (ended_at = last_at AND id >= last_id)"
            )
        most = limit if after is None else limit + 1

        def statement(usage: str) -> str:
            return (
                f"WITH chosen AS MATERIALIZED (SELECT * FROM {usage} WHERE true{chosen}) "
                f"SELECT {', '.join(_RECORD)} FROM chosen{begin} ORDER BY ended_at, id LIMIT {most}"
            )

        rows = self._rows(start, end, statement, values)
        if after is None:
            return [_record(row) for row in rows]
        if not rows:
            raise InvalidRequest("after: no request of these has that id; begin again without it.", param="after")
        return [_record(row) for row in rows[1:]]

    def _repeatable(self, since: float) -> list[UsageRecord]:
        def statement(usage: str) -> str:
            return f"SELECT {', '.join(_RECORD)} FROM {usage} WHERE idempotency_hash IS NOT NULL ORDER BY ended_at"

        rows = self._rows(since, LAST_DAY, statement, [])
        return [_record(row) for row in rows]

    def _rows(
        self, start: float, end: float, statement: Callable[[str], str], values: Sequence[Any]
    ) -> list[tuple[Any, ...]]:
        """What a statement answers of the table that it is given: each record that ended in [start, end), once."""
        for attempt in range(ATTEMPTS):
            try:
                with tempfile.TemporaryDirectory(dir=self._scratch) as folder:
                    tail = Path(folder) / "tail.json"
                    # The logs first: what leaves them meanwhile is in the warehouse then, and seen twice at worst.
                    write_tail(self._log_root, tail)
                    table = f"({self._table(start, end, tail)})"
                    return self._duck.cursor().execute(statement(table), values).fetchall()
            except (duckdb.Error, OSError) as error:
                if attempt == ATTEMPTS - 1 or not isinstance(error, duckdb.IOException | FileNotFoundError):
                    raise unreadable(error) from error
        raise AssertionError("the last attempt returns or raises")

    def _table(self, start: float, end: float, tail: Path) -> str:
        files = self._partitions.files(self._partitions.of_days(day_of(start), day_of(end)))
        stored = f" UNION ALL BY NAME SELECT * FROM {parquet(files)}" if files else ""
        within = f"ended_at >= {start!r}::DOUBLE AND ended_at < {end!r}::DOUBLE"
        return f"SELECT * FROM (SELECT * FROM {json_lines(tail)}{stored}) WHERE {within} {ONCE}"

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)


def _require_period(start: float, end: float) -> None:
    if not 0 <= start <= end <= LAST_DAY:
        raise InvalidRequest(
            "`from` and `to` must be times since 1970 with `to` not before `from`.",
            param="to" if start > end else "from",
        )


def _expression(name: str, values: list[Any]) -> str:
    """A group's column; what it takes from a caller goes into `values`."""
    if name.startswith(TAG):
        return f"tags[{_value(name.removeprefix(TAG), values)}]"
    if name in _TIMES:
        return f"strftime(make_timestamp(floor(ended_at)::BIGINT * 1000000), '{_TIMES[name]}')"
    assert name in FIELDS, "groups are checked before"
    return name


def _chosen(where: Mapping[str, str], values: list[Any]) -> str:
    """The further conditions of a statement; what they take from a caller goes into `values`."""
    return "".join(f" AND {_expression(name, values)} = {_value(text, values)}" for name, text in where.items())


def _value(text: str, values: list[Any]) -> str:
    values.append(text)
    return f"${len(values)}"


def _ordinals(groups: Sequence[str]) -> str:
    return ", ".join(str(number) for number in range(1, len(groups) + 1))


def _record(row: tuple[Any, ...]) -> UsageRecord:
    return msgspec.convert(dict(zip(_RECORD, row, strict=True)), UsageRecord)


def _usage_row(group_by: Sequence[str], row: tuple[Any, ...]) -> UsageRow:
    group = dict(zip(group_by, row, strict=False))
    requests, prompt, cached, output, cost, prompt_nanos, *times = row[len(group_by) :]
    return UsageRow(
        group=group,
        requests=requests,
        prompt_tokens=prompt,
        cached_tokens=cached,
        output_tokens=output,
        cost_nanos=cost,
        prompt_nanos=prompt_nanos,
        ttft_mean_s=times[0],
        ttft_p50_s=times[1],
        ttft_p95_s=times[2],
        tpot_mean_s=times[3],
        tpot_p50_s=times[4],
        tpot_p95_s=times[5],
    )
