"""Where content lies in the object store, and that on this machine nobody else may read it.

`content/{tenant}/{YYYY-MM-DD}/{id}.json` for prompts and outputs, by the UTC day; `replays/{tenant}/{digest}` for
answers.
"""

from pathlib import PurePosixPath

from forebay.core.calendar import day_of
from forebay.core.errors import StoreUnavailable
from forebay.serving.content_log import Content
from forebay.storage.objects.store import ObjectStore

CONTENT = "content"
REPLAYS = "replays"
FOLDER_MODE = 0o700
FILE_MODE = 0o600


def content_path(content: Content) -> str:
    return f"{CONTENT}/{content.tenant}/{day_of(content.at).isoformat()}/{content.id}.json"


def replay_path(tenant_id: str, digest: str) -> str:
    return f"{REPLAYS}/{tenant_id}/{digest}"


def put_private(objects: ObjectStore, path: str, data: bytes) -> None:
    """As `ObjectStore.put`; new local folders and the file are for this user alone. Raises StoreUnavailable."""
    try:
        # The folders first: nobody can come to a file before it has its mode.
        for folder in reversed(PurePosixPath(path).parents[:-1]):
            if (local := objects.local_path(str(folder))) is not None:
                local.mkdir(mode=FOLDER_MODE, exist_ok=True)
        objects.put(path, data)
        if (file := objects.local_path(path)) is not None:
            file.chmod(FILE_MODE)
    except OSError as error:
        raise StoreUnavailable(f"Cannot write `{path}` for this user alone: {error}. Check its folder.") from error


def remove_folder(objects: ObjectStore, path: str) -> None:
    """Of a local store, where nothing is in it; object storage has no folders."""
    local = objects.local_path(path)
    if local is not None:
        try:
            local.rmdir()
        except OSError:
            # Something was put there again, or it is gone.
            return
