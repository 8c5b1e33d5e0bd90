"""Answers that are kept for repeats."""

import asyncio
from pathlib import Path

import pytest

from forebay.core.errors import StoreUnavailable
from forebay.storage.content.answer_shelf import ObjectAnswerShelf
from forebay.storage.objects.opening import open_objects
from forebay.storage.objects.store import ObjectStore
from tests.contract.storage.content.contents import paths

TTL_S = 100.0
DIGEST = "ab" * 32
ANSWER = b"\x00\xff answer"


class Time:
    """Unix time that a test sets."""

    def __init__(self) -> None:
        self.now = 1_790_000_000.0

    def __call__(self) -> float:
        return self.now


def test_an_answer_is_kept_for_its_tenant_until_its_time_is_over(objects: ObjectStore) -> None:
    time = Time()
    shelf = ObjectAnswerShelf(objects, TTL_S, time)

    async def work() -> None:
        assert await shelf.get("alpha", DIGEST) is None
        await shelf.put("alpha", DIGEST, b"older")
        await shelf.put("alpha", DIGEST, ANSWER)
        assert await shelf.get("alpha", DIGEST) == ANSWER
        assert await shelf.get("beta", DIGEST) is None
        assert await shelf.get("alph", DIGEST) is None
        time.now += TTL_S - 0.5
        assert await shelf.get("alpha", DIGEST) == ANSWER
        time.now += 0.5
        assert await shelf.get("alpha", DIGEST) is None

    asyncio.run(work())
    assert paths(objects) == [f"replays/alpha/{DIGEST}"]


def test_one_that_is_damaged_is_none(folder: ObjectStore) -> None:
    folder.put(f"replays/alpha/{DIGEST}", b"\xc1")
    shelf = ObjectAnswerShelf(folder, TTL_S, Time())
    assert asyncio.run(shelf.get("alpha", DIGEST)) is None


def test_nobody_else_may_read_it(tmp_path: Path) -> None:
    asyncio.run(ObjectAnswerShelf(open_objects(tmp_path / "o", {}), TTL_S, Time()).put("alpha", DIGEST, ANSWER))
    assert (tmp_path / "o/replays").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "o/replays/alpha" / DIGEST).stat().st_mode & 0o777 == 0o600


def test_a_store_that_fails_is_told(tmp_path: Path) -> None:
    objects = open_objects(tmp_path / "o", {})
    (tmp_path / "o/replays").write_text("in the way")
    with pytest.raises(StoreUnavailable, match=r"replays/alpha"):
        asyncio.run(ObjectAnswerShelf(objects, TTL_S, Time()).put("alpha", DIGEST, ANSWER))
