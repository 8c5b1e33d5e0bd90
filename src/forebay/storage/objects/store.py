"""Objects: bytes under a path, in a local folder or in object storage. All blocking: call it in threads."""

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import obstore
from obstore.exceptions import BaseError
from obstore.store import ObjectStore as Backend

from forebay.core.errors import StoreUnavailable
from forebay.storage.objects.durable import sync_directory


@dataclass(frozen=True, slots=True)
class StoredObject:
    """`path` below the store's root, with `/`; `size` in bytes; `modified_at` in Unix seconds."""

    path: str
    size: int
    modified_at: float


class ObjectStore:
    """A bucket's prefix. Every put is atomic: readers see all of an object or none of it.

    All raise StoreUnavailable where the storage cannot be reached or refuses.
    """

    def __init__(self, backend: Backend, name: str) -> None:
        self._backend = backend
        self._name = name

    def put(self, path: str, data: bytes | Path) -> None:
        """In the place of what was there. A `Path` is a local file."""
        try:
            obstore.put(self._backend, path, data)
        except (BaseError, OSError) as error:
            raise self._unavailable("write", path, error) from error
        self._settle(path)

    def get(self, path: str) -> bytes | None:
        """None where there is none."""
        try:
            return bytes(obstore.get(self._backend, path).bytes())
        except FileNotFoundError:
            return None
        except (BaseError, OSError) as error:
            raise self._unavailable("read", path, error) from error

    def download(self, path: str, target: Path) -> bool:
        """Into a new local file, as it comes. False where there is none."""
        try:
            with target.open("wb") as file:
                for chunk in obstore.get(self._backend, path).stream():
                    file.write(chunk)
        except FileNotFoundError:
            return False
        except (BaseError, OSError) as error:
            raise self._unavailable("read", path, error) from error
        return True

    def below(self, prefix: str) -> list[StoredObject]:
        """All below `prefix`, a folder; in the order of their paths."""
        try:
            found = obstore.list(self._backend, prefix).collect()
        except FileNotFoundError:
            return []
        except (BaseError, OSError) as error:
            raise self._unavailable("list", prefix, error) from error
        return sorted(
            (StoredObject(one["path"], one["size"], one["last_modified"].timestamp()) for one in found),
            key=lambda one: one.path,
        )

    def folders(self, prefix: str) -> list[str]:
        """The names of the folders right below `prefix`, a folder; in their order. Empty ones may be among them."""
        try:
            found = obstore.list_with_delimiter(self._backend, prefix)["common_prefixes"]
        except FileNotFoundError:
            return []
        except (BaseError, OSError) as error:
            raise self._unavailable("list", prefix, error) from error
        return sorted(path.rstrip("/").rpartition("/")[2] for path in found)

    def delete(self, paths: Sequence[str]) -> None:
        """Those that are there."""
        for path in paths:
            try:
                obstore.delete(self._backend, path)
            except FileNotFoundError:
                pass
            except (BaseError, OSError) as error:
                raise self._unavailable("delete", path, error) from error

    def local_path(self, path: str) -> Path | None:
        """The file that holds an object, where it is a local one."""
        return None

    def _settle(self, path: str) -> None:
        """Object storage keeps what it has acknowledged."""

    def _unavailable(self, action: str, path: str, error: Exception) -> StoreUnavailable:
        reason = str(error).strip().split("\n", 1)[0]
        return StoreUnavailable(
            f"Cannot {action} `{path}` in {self._name}: {reason}. Check that it can be reached and its credentials."
        )


class LocalFolder(ObjectStore):
    """A folder of this machine. What was put survives a loss of power."""

    def __init__(self, backend: Backend, root: Path) -> None:
        super().__init__(backend, f"the folder {root}")
        self._root = root

    def local_path(self, path: str) -> Path | None:
        return self._root / path

    def _settle(self, path: str) -> None:
        target = self._root / path
        # Another process may have deleted or replaced it meanwhile.
        with suppress(FileNotFoundError):
            try:
                descriptor = os.open(target, os.O_RDWR)
                try:
                    os.fsync(descriptor)
                finally:
                    os.close(descriptor)
                for directory in target.parents:
                    sync_directory(directory)
                    if directory == self._root:
                        break
            except FileNotFoundError:
                raise
            except OSError as error:
                raise self._unavailable("write", path, error) from error
