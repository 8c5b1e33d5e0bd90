"""Loops that are to run for as long as the platform does."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
from structlog.testing import capture_logs

from forebay.core.errors import ConfigurationError
from forebay.wiring.loops import running

SECRET = "what the caller said"


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 20))


def test_a_loop_that_fails_is_begun_again_and_the_others_go_on():
    async def work() -> None:
        begun, went_on = 0, asyncio.Event()
        steady_begun = 0

        async def failing() -> None:
            nonlocal begun
            begun += 1
            if begun == 1:
                raise OSError(SECRET)
            if begun == 2:
                raise ExceptionGroup(SECRET, [ValueError(SECRET)])
            went_on.set()
            await asyncio.Event().wait()

        async def steady() -> None:
            nonlocal steady_begun
            steady_begun += 1
            await asyncio.Event().wait()

        with capture_logs() as logged:
            async with running(failing, steady, again_s=0.0):
                await went_on.wait()
        assert (begun, steady_begun) == (3, 1)
        assert [line["kind"] for line in logged] == ["builtins.OSError", "builtins.ValueError"]
        assert logged[0]["place"].startswith("forebay.wiring.loops:")
        assert SECRET not in repr(logged)

    run(work())


def test_a_loop_that_fails_as_it_is_cancelled_ends_with_the_others():
    async def work() -> None:
        begun = 0

        async def failing() -> None:
            nonlocal begun
            begun += 1
            try:
                await asyncio.Event().wait()
            finally:
                raise OSError(SECRET)

        async with running(failing, again_s=0.0):
            await asyncio.sleep(0)
        assert begun == 1

    run(work())


def test_a_wrong_setting_is_raised_as_it_does_not_pass_by_itself():
    async def work() -> None:
        async def wrong() -> None:
            raise ConfigurationError("Set it right.")

        with pytest.raises(ExceptionGroup) as raised:
            async with running(wrong, again_s=0.0):
                await asyncio.Event().wait()
        assert raised.group_contains(ConfigurationError, match="Set it right")

    run(work())
