"""What `forebay serve` says while it starts and when it is ready."""

import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

from forebay.core.errors import ForebayError, ModelFileError
from forebay.fleet.driver import ReplicaStartError
from forebay.fleet.fleet import Fleet

SLOW_STEP_S = 1.0


@dataclass(frozen=True, slots=True)
class Entry:
    """How callers get in. `url` is the gateway's, without `/v1`."""

    url: str
    api_key: str


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
        self.say(f"  starting {', '.join(fleet.pools())}; each model takes some seconds to load …", style="dim")
        errors: dict[str, ReplicaStartError] = {}
        async for replica, error in fleet.first_starts():
            if error is not None:
                errors[replica.name] = error
                self.say(f"  {error}", style="red")
            elif replica.detail:
                self.say(f"  {replica.name}: {replica.detail}; it is tried again and again", style="yellow")
            else:
                self.say(f"  {replica.name} is ready after {time.monotonic() - began:.1f} s", style="green")
        ready = [name for name, pool in fleet.pools().items() if pool.ready]
        if not ready and errors and all(error.permanent for error in errors.values()):
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

    def _tell_how(self, entry: Entry, ready: list[str]) -> None:
        model = ready[0] if ready else "MODEL"
        key = "$API_KEY" if self._key_is_configured else entry.api_key
        python_key = 'os.environ["API_KEY"]' if self._key_is_configured else f'"{entry.api_key}"'
        whose = "the one that is configured" if self._key_is_configured else entry.api_key
        self.say(f"\nForebay listens; ready: {', '.join(ready) or 'nothing yet'}.", style="bold")
        self.say(f"  base URL  {entry.url}/v1\n  API key   {whose}\n")
        messages = '[{"role": "user", "content": "What is a forebay?"}]'
        body = f'{{"model": "{model}", "messages": {messages}}}'
        self.say(
            f'curl {entry.url}/v1/chat/completions -H "Authorization: Bearer {key}" '
            f"""-H "Content-Type: application/json" -d '{body}'\n"""
        )
        self.say(
            f"from openai import OpenAI\n"
            f'client = OpenAI(base_url="{entry.url}/v1", api_key={python_key})\n'
            f'answer = client.chat.completions.create(model="{model}", messages={messages})\n'
            f"print(answer.choices[0].message.content)\n"
        )
        self.say("Ctrl-C stops it.", style="dim")
