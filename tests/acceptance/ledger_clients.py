"""Clients that ask at random, and leave at random."""

import asyncio
import json
import random
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import httpx

from tests.acceptance.ledger_books import Tokens

PATIENCE_S = 60.0
"""For one answer; whatever takes longer hangs."""
REST_S = 0.05

Outcome = Literal["completed", "left", "refused", "broken"]
"""`refused` with a status, `broken` by a lost connection or an error in mid-stream."""


@dataclass(kw_only=True)
class Asked:
    """One request: what was asked, and what came of it."""

    request_id: str
    tenant: str
    gateway: str
    body: dict[str, Any]
    leave_after_events: int | None = None
    leave_after_s: float | None = None
    outcome: Outcome = "broken"
    status: int | None = None
    usage: Tokens | None = None
    detail: str = ""
    events: int = 0
    began: float = 0.0
    ended: float = 0.0
    """By the monotonic clock, like `began`."""


@dataclass
class Clients:
    """Ask gateways (`roots`, which may change) with the tenants' `keys` until `stop` is set."""

    name: str
    seed: int
    roots: Mapping[str, Callable[[], str]]
    keys: Mapping[str, str]
    models: tuple[str, ...]
    asked: list[Asked] = field(default_factory=list)
    stop: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self, clients: int) -> None:
        async with asyncio.TaskGroup() as tasks:
            for number in range(clients):
                tasks.create_task(self._client(random.Random(f"{self.name}-{self.seed}-{number}"), number))

    def outcomes(self) -> Counter[str]:
        return Counter(f"{each.outcome} {each.status or ''}".strip() for each in self.asked)

    async def _client(self, chance: random.Random, number: int) -> None:
        async with httpx.AsyncClient(timeout=PATIENCE_S) as http:
            sent = 0
            while not self.stop.is_set():
                sent += 1
                one = self._choose(chance, f"{self.name}-{number}-{sent}")
                self.asked.append(one)
                await ask(http, self.roots[one.gateway](), self.keys[one.tenant], one)
                # Where there is nobody, it takes a while until there is.
                await asyncio.sleep(REST_S if one.status is not None else REST_S * 10)

    def _choose(self, chance: random.Random, request_id: str) -> Asked:
        words = " ".join(f"word{chance.randrange(4)}" for _ in range(chance.choice((1, 3, 10, 40))))
        body: dict[str, Any] = {
            "model": chance.choice(self.models),
            "messages": [{"role": "user", "content": words}],
            "temperature": 0,
            "stream": chance.random() < 0.7,
        }
        if body["stream"] and chance.random() < 0.8:
            body["stream_options"] = {"include_usage": True}
        if chance.random() < 0.7:
            body |= {"max_tokens": chance.choice((1, 5, 30, 100, 400, 900)), "ignore_eos": chance.random() < 0.7}
        elif chance.random() < 0.3:
            body |= {"ignore_eos": True}
        if chance.random() < 0.3:
            body |= {"n": 2}
        leaves = chance.random()
        return Asked(
            request_id=request_id,
            tenant=chance.choice(sorted(self.keys)),
            gateway=chance.choice(sorted(self.roots)),
            body=body,
            leave_after_events=chance.choice((0, 1, 2, 10, 50)) if body["stream"] and leaves < 0.3 else None,
            leave_after_s=chance.choice((0.001, 0.01, 0.05, 0.3)) * chance.random() if leaves > 0.75 else None,
        )


async def ask(http: httpx.AsyncClient, root: str, key: str, one: Asked) -> None:
    """Ask the gateway at `root`, and note what comes of it."""
    one.began = time.monotonic()
    try:
        async with asyncio.timeout(one.leave_after_s):
            await _read(http, root, key, one)
    except TimeoutError:
        one.outcome = "left"
    except httpx.TimeoutException as error:
        raise AssertionError(f"{one} hangs") from error
    except httpx.HTTPError as error:
        one.detail = repr(error)
    finally:
        one.ended = time.monotonic()


async def _read(http: httpx.AsyncClient, root: str, key: str, one: Asked) -> None:
    headers = {"Authorization": f"Bearer {key}", "X-Request-Id": one.request_id}
    async with http.stream("POST", f"{root}/v1/chat/completions", json=one.body, headers=headers) as answer:
        one.status = answer.status_code
        if answer.status_code != 200:
            one.outcome, one.detail = "refused", (await answer.aread()).decode()
        elif one.body["stream"]:
            await _read_events(answer, one)
        else:
            one.usage = _tokens(json.loads(await answer.aread())["usage"])
            one.outcome = "completed"


async def _read_events(answer: httpx.Response, one: Asked) -> None:
    if one.leave_after_events == 0:
        one.outcome = "left"
        return
    async for line in answer.aiter_lines():
        if not line.startswith("data: "):
            continue
        data = line.removeprefix("data: ")
        if data == "[DONE]":
            one.outcome = "completed"
            continue
        chunk = json.loads(data)
        if "error" in chunk:
            one.detail = data
            return
        if chunk.get("usage"):
            one.usage = _tokens(chunk["usage"])
        one.events += 1
        if one.events == one.leave_after_events:
            one.outcome = "left"
            return


def stream_of(model: str, max_tokens: int) -> dict[str, Any]:
    """The body of a stream that is so long, and tells its usage with every event."""
    return {
        "model": model,
        "messages": [{"role": "user", "content": "Go on."}],
        "temperature": 0,
        "ignore_eos": True,
        "max_tokens": max_tokens,
        "stream": True,
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
    }


def _tokens(usage: dict[str, Any]) -> Tokens:
    cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
    return Tokens(usage["prompt_tokens"], cached, usage["completion_tokens"])
