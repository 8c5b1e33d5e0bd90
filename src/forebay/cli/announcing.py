"""What `forebay serve` says while it starts and when it is ready."""

import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

from forebay.cli.examples import CallExample
from forebay.core.errors import ForebayError, ModelFileError
from forebay.fleet.driver import ReplicaStartError
from forebay.fleet.fleet import Fleet

SLOW_STEP_S = 1.0
KEY_VARIABLE = "API_KEY"


@dataclass(frozen=True, slots=True)
class Entry:
    """How callers get in. `url` is the gateway's, without `/v1`; `aliases` are the names they may use, each with its
    pool.
    """

    url: str
    api_key: str
    aliases: Mapping[str, str]


class Announcer:
    """Speaks to whoever ran the command, on standard output. A key that was configured is not said aloud."""

    def __init__(self, *, key_is_configured: bool) -> None:
        self._console = Console(soft_wrap=True, highlight=False)
        self._key_is_configured = key_is_configured
        self._given_up: list[str] = []

    def say(self, text: str, style: str = "") -> None:
        self._console.print(Text(text, style=style))

    @contextmanager
    def step(self, what: str) -> Generator[None]:
        """Say that something begins, how long it took if it was long, and how it failed if it did; it is not vital."""
        began = time.monotonic()
        self.say(f"  {what} …", style="dim")
        try:
            yield
        except ForebayError as error:
            self.say(f"  … failed: {error.detail}", style="red")
        else:
            if (took := time.monotonic() - began) >= SLOW_STEP_S:
                self.say(f"  … took {took:.1f} s", style="dim")

    async def follow_start(self, fleet: Fleet, entry: Entry) -> bool:
        """Tell of each replica's start, then how to call what is ready. False where nothing can ever be."""
        began = time.monotonic()
        self.say(f"  starting {', '.join(fleet.pools())} …", style="dim")
        errors: dict[str, ReplicaStartError] = {}
        async for replica, error in fleet.first_starts():
            if error is not None:
                errors[replica.name] = error
                self._tell_failure(error)
            elif replica.detail:
                self.say(f"  {replica.name}: {replica.detail}; it is tried again and again", style="yellow")
            else:
                self.say(f"  {replica.name} is ready after {time.monotonic() - began:.1f} s", style="green")
        ready = [alias for alias, pool in entry.aliases.items() if fleet.pool(pool).ready]
        nothing_ready = not any(pool.ready for pool in fleet.pools().values())
        if nothing_ready and errors and all(error.permanent for error in errors.values()):
            self._given_up = list(errors)
            return False
        self._tell_how(entry, ready)
        return True

    def raise_start_failure(self) -> None:
        """Raises ModelFileError where the start was given up."""
        if self._given_up:
            raise ModelFileError(
                f"No pool could start ({', '.join(self._given_up)}); the reasons are above. `forebay doctor` checks "
                "the machine and the configuration."
            )

    def _tell_failure(self, error: ReplicaStartError) -> None:
        self.say(f"  {error}", style="red")
        if error.log is not None:
            self.say(f"  The end of its log ({error.log.file}):", style="red")
            for line in error.log.lines or ("(nothing was written)",):
                self.say(f"    {line}")

    def _tell_how(self, entry: Entry, ready: list[str]) -> None:
        model = next(iter([*ready, *entry.aliases]), "MODEL")
        configured = self._key_is_configured
        example = CallExample(
            entry.url,
            model,
            key=None if configured else entry.api_key,
            key_variable=KEY_VARIABLE if configured else None,
        )
        whose = f"the one that is configured; below it is read from ${KEY_VARIABLE}" if configured else entry.api_key
        self.say(f"\nForebay listens; ready: {', '.join(ready) or 'nothing yet'}.", style="bold")
        self.say(f"  base URL  {entry.url}/v1\n  API key   {whose}\n")
        self.say(f"{example.curl()}\n")
        self.say(f"{example.python()}\n")
        self.say("Ctrl-C stops it.", style="dim")
