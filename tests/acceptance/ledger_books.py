"""The two independent books of what requests have used: the engines' own, and the gateways' usage records."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import duckdb
import msgspec

from forebay.metering.usage import UsageRecord
from forebay.storage.counters.valkey import ValkeyReservations
from forebay.storage.usage.tail import closed_records
from tests.acceptance.ledger_cluster import LEASE_TTL_S, Cluster, json_lines

READINGS = 20
ACCOUNT = "{forebay}:leases:account:"


class Tokens(NamedTuple):
    prompt: int
    cached: int
    output: int


def engines_books(cluster: Cluster) -> dict[str, Tokens]:
    """What the engines say of each request that ended there, by id. Fails where one was run twice."""
    told: dict[str, Tokens] = {}
    for engine in cluster.engines.values():
        for output in engine.outputs():
            for line in json_lines(output):
                if line.get("event") == "generated":
                    id_: str = line["request_id"]
                    assert id_ not in told, f"{id_} ran twice"
                    told[id_] = Tokens(line["prompt_tokens"], line["cached_tokens"], line["completion_tokens"])
    return told


def ledger(cluster: Cluster) -> dict[str, UsageRecord]:
    """All usage records, by id: those in the local logs and those in the warehouse. Fails where two differ that have
    one id.
    """
    for _ in range(READINGS):
        try:
            found = [*_in_logs(cluster), *_in_warehouse(cluster)]
            break
        except (FileNotFoundError, duckdb.IOException):
            # It has moved to the warehouse, or been merged there, since it was listed.
            time.sleep(0.1)
    else:
        raise AssertionError("usage files move faster than they can be read")
    records: dict[str, UsageRecord] = {}
    for record in found:
        assert records.setdefault(record.id, record) == record, f"two records of {record.id} differ"
    return records


def _in_logs(cluster: Cluster) -> list[UsageRecord]:
    content = b"".join(
        closed_records(segment.read_bytes())
        for root in cluster.usage_roots()
        if root.exists()
        for segment in root.rglob("*.log")
    )
    return [_record.decode(line) for line in content.splitlines()]


def _in_warehouse(cluster: Cluster) -> list[UsageRecord]:
    files = [str(path) for path in cluster.objects.rglob("*.parquet")]
    if not files:
        return []
    with duckdb.connect(":memory:") as database:
        rows = database.execute("SELECT * FROM read_parquet(?, union_by_name = true)", [files])
        names = [column[0] for column in rows.description]
        return [msgspec.convert(dict(zip(names, row, strict=True)), UsageRecord) for row in rows.fetchall()]


_record = msgspec.json.Decoder(UsageRecord)


def tokens_of(record: UsageRecord) -> Tokens:
    return Tokens(record.prompt_tokens, record.cached_tokens, record.output_tokens)


def differences(engines: Mapping[str, Tokens], records: Mapping[str, UsageRecord]) -> list[str]:
    """Where the two books differ."""
    found = [f"{id_}: the engine has {told}, the ledger nothing" for id_, told in engines.items() if id_ not in records]
    for id_, record in records.items():
        told = engines.get(id_, Tokens(0, 0, 0))
        if tokens_of(record) != told:
            found.append(f"{id_}: the engine has {told} ({id_ in engines}), the ledger {record}")
    return found


def outstanding(cluster: Cluster, quotas: Sequence[str]) -> dict[str, int]:
    """Leases of each quota."""

    async def ask() -> dict[str, int]:
        async with ValkeyReservations(cluster.valkey.url, LEASE_TTL_S) as store:
            return dict(await store.outstanding(quotas))

    return asyncio.run(ask())


def account(cluster: Cluster, quota: str) -> dict[str, Any]:
    """What Valkey keeps of a quota."""
    with cluster.valkey.client() as client:
        packed = client.get(ACCOUNT + quota)
    assert isinstance(packed, bytes), f"nothing is kept of {quota}"
    return msgspec.msgpack.decode(packed)


def spent_nanos(cluster: Cluster, quota: str) -> int:
    """Of its budget, this month."""
    months = account(cluster, quota)["months"]
    return int(months.get(f"{datetime.now(UTC):%Y-%m}", {"spent": 0})["spent"]) if months else 0


def drawn_tokens(cluster: Cluster, quota: str) -> float:
    """Of its token bucket, when it was last written."""
    return account(cluster, quota)["tokens"]["drawn"] / 60_000_000
