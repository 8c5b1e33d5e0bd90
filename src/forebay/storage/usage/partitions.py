"""The warehouse: immutable Parquet files in object storage, by the day (UTC) that requests ended on."""

import os
import tempfile
import threading
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Protocol

import duckdb

from forebay.core.errors import StoreUnavailable
from forebay.storage.objects.store import StoredObject
from forebay.storage.usage.duck import ONCE, Duck, json_lines, quoted

ROOT = "usage"
_MOST_LISTINGS = 40
"""Days that are listed one by one; of more than so many, all are listed at once."""


class PartitionStore(Protocol):
    """The object storage, as `storage.objects` has it."""

    def put(self, path: str, data: bytes | Path) -> None: ...
    def download(self, path: str, target: Path) -> bool: ...
    def below(self, prefix: str) -> list[StoredObject]: ...
    def delete(self, paths: Sequence[str]) -> None: ...
    def local_path(self, path: str) -> Path | None: ...


class Partitions:
    """Blocking; used by several threads. All raise StoreUnavailable.

    Files of remote storage are fetched once into `scratch`, which keeps `cache_bytes` of them beyond those in use.
    """

    def __init__(self, objects: PartitionStore, scratch: Path, cache_bytes: int) -> None:
        self._objects = objects
        self._scratch = scratch
        self._cache = scratch / "cache"
        self._cache_bytes = cache_bytes
        self._fetching = threading.Lock()
        self._cache.mkdir(parents=True, exist_ok=True, mode=0o700)

    def put_records(self, duck: Duck, records: bytes, name: str) -> None:
        """JSON lines of records, as a file for each day that some of them ended on. Putting the same records by the
        same name again changes nothing.
        """
        if not records:
            return
        try:
            with tempfile.TemporaryDirectory(dir=self._scratch) as folder:
                source = Path(folder) / "records.json"
                source.write_bytes(records)
                table = json_lines(source)
                cursor = duck.cursor()
                seconds = cursor.execute(f"SELECT DISTINCT floor(ended_at / 86400)::BIGINT FROM {table}").fetchall()
                for (number,) in sorted(seconds):
                    day = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(days=number)).date()
                    chosen = f"SELECT * FROM {table} WHERE floor(ended_at / 86400) = {number}"
                    self.put_query(duck, chosen, day, name)
        except (duckdb.Error, OSError) as error:
            raise unreadable(error) from error

    def put_query(self, duck: Duck, query: str, day: date, name: str) -> None:
        """What `query` answers, each id once, as a file of `day`. Raises duckdb.Error and OSError too."""
        with tempfile.TemporaryDirectory(dir=self._scratch) as folder:
            target = Path(folder) / "part.parquet"
            duck.cursor().execute(
                f"COPY (SELECT * FROM ({query}) {ONCE} ORDER BY ended_at) TO {quoted(target)} "
                "(FORMAT parquet, COMPRESSION zstd)"
            )
            self._objects.put(f"{ROOT}/date={day}/{name}.parquet", target)

    def of_days(self, first: date, last: date) -> list[StoredObject]:
        """The files of these days, both included."""
        days = (last - first).days + 1
        if days > _MOST_LISTINGS:
            return [one for one in self.all() if first <= day_in(one.path) <= last]
        found: list[StoredObject] = []
        for offset in range(days):
            found += self._objects.below(f"{ROOT}/date={first + timedelta(days=offset)}")
        return [one for one in found if _is_partition(one.path)]

    def all(self) -> list[StoredObject]:
        return [one for one in self._objects.below(ROOT) if _is_partition(one.path)]

    def delete(self, parts: list[StoredObject]) -> None:
        self._objects.delete([part.path for part in parts])

    def files(self, parts: list[StoredObject]) -> list[Path]:
        """Local files of the same content; those that have been deleted since they were listed are left out."""
        try:
            with self._fetching:
                files = [file for part in parts if (file := self._file(part)) is not None]
                self._evict(keep=set(files))
        except OSError as error:
            raise unreadable(error) from error
        return files

    def _file(self, part: StoredObject) -> Path | None:
        if (local := self._objects.local_path(part.path)) is not None:
            return local
        target = self._cache / part.path.replace("/", ",")
        with suppress(FileNotFoundError):
            if target.stat().st_size == part.size:
                os.utime(target)
                return target
        descriptor, temporary = tempfile.mkstemp(dir=self._cache, suffix=".part")
        os.close(descriptor)
        try:
            if not self._objects.download(part.path, Path(temporary)):
                return None
            Path(temporary).replace(target)
        finally:
            Path(temporary).unlink(missing_ok=True)
        return target

    def _evict(self, keep: set[Path]) -> None:
        cached = sorted(
            ((found.st_mtime, found.st_size, path) for path in self._cache.iterdir() if (found := _stat(path))),
            key=lambda one: one[0],
        )
        beyond = sum(size for _, size, _ in cached) - self._cache_bytes
        for _, size, path in cached:
            if beyond <= 0:
                return
            if path not in keep:
                path.unlink(missing_ok=True)
                beyond -= size


def day_in(path: str) -> date:
    """The day that a partition's path names."""
    return date.fromisoformat(path.split("/")[-2].removeprefix("date="))


def unreadable(error: Exception) -> StoreUnavailable:
    reason = str(error).split("\n", 1)[0]
    return StoreUnavailable(
        f"The usage warehouse cannot be read or written ({reason}). Try again; else ask the operator."
    )


def _is_partition(path: str) -> bool:
    if not path.endswith(".parquet"):
        return False
    try:
        day_in(path)
    except (ValueError, IndexError):
        return False
    return True


def _stat(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except FileNotFoundError:
        return None
