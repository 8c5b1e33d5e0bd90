"""`python -m benchmarks.requests`: what features of a request cost, on one replica, as ratios inside each round."""

import argparse
import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any

import aiohttp

from benchmarks.engine.http_client import HttpEndpoint
from benchmarks.engine.machine import LOAD, machine_facts
from benchmarks.engine.model import MODEL, load_model
from benchmarks.engine.peers.ours import Forebay
from benchmarks.engine.prompts import PromptMaker
from benchmarks.engine.results import now_text
from benchmarks.engine.stats import median
from benchmarks.report_file import write_part
from benchmarks.requests.bodies import BODIES, CHATS, PLAIN

PROMPT_TOKENS, OUTPUT_TOKENS, REQUESTS = 200, 64, 2
CHAT_TOKENS = 160


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.requests", description=__doc__)
    parser.add_argument("--streams", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=("features", "speculation"))
    parser.add_argument("--write", action="store_true", help="write the tables into benchmarks/RESULTS.md")
    options = parser.parse_args()
    print(f"load average at start: {machine_facts()[LOAD]}", flush=True)
    for name, measure in (("features", features), ("speculation", speculation)):
        if options.only in {None, name}:
            lines = asyncio.run(measure(options.streams, options.rounds))
            text = "\n".join([f"Measured {now_text()} by `python -m benchmarks.requests --only {name}`.", "", *lines])
            print(text, flush=True)
            if options.write:
                write_part(name, text)


async def features(streams: int, rounds: int) -> list[str]:
    """A table of output tokens/s of each kind of request and its ratio to a plain one."""
    tokenizer = load_model().tokenizer
    rates: dict[str, list[float]] = {name: [] for name in BODIES}
    async with Forebay(MODEL, slots=streams, kv_cache_gb=2).running() as endpoint, aiohttp.ClientSession() as session:
        for number in range(rounds + 1):
            for name, extra in BODIES.items():
                # Each kind gets the same prompts in a round, but does not find them in the cache.
                prompts = PromptMaker(lambda text: tokenizer.encode(text, add_special_tokens=False), number)
                bodies = [
                    {**extra, "prompt": prompt, "max_tokens": OUTPUT_TOKENS, "ignore_eos": True, "cache_salt": name}
                    for prompt in prompts.prompts(streams * REQUESTS, PROMPT_TOKENS)
                ]
                rate = await _rate(session, endpoint, "completions", bodies, streams)
                if number:
                    rates[name].append(rate)
    lines = [
        f"{streams} streams of {PROMPT_TOKENS} + {OUTPUT_TOKENS} tokens, greedy where nothing else is said; medians of "
        f"{rounds} rounds, in which the kinds take turns.",
        "",
        "| request | output tokens/s | of plain (lowest to highest round) |",
        "|---|---|---|",
    ]
    return [*lines, *(_row(name, found, rates[PLAIN]) for name, found in rates.items())]


async def speculation(_streams: int, rounds: int) -> list[str]:
    """A table of output tokens/s with n-gram guesses and without."""
    rates: dict[tuple[str, int, float], tuple[list[float], list[float]]] = {}
    async with AsyncExitStack() as held:
        session = await held.enter_async_context(aiohttp.ClientSession())
        plain, guessing = [
            await held.enter_async_context(
                Forebay(MODEL, slots=4, kv_cache_gb=1, options=("--speculation", kind)).running()
            )
            for kind in ("off", "ngram")
        ]
        for number in range(rounds + 1):
            for chat, text in CHATS.items():
                for streams in (1, 4):
                    for temperature in (0.0, 0.7):
                        bodies = [_chat_body(text, temperature, 100 * number + i) for i in range(streams)]
                        found = [
                            await _rate(session, endpoint, "chat/completions", bodies, streams)
                            for endpoint in (plain, guessing)
                        ]
                        if number:
                            pair = rates.setdefault((chat, streams, temperature), ([], []))
                            for rates_of, rate in zip(pair, found, strict=True):
                                rates_of.append(rate)
    lines = [
        f"Chats of up to {CHAT_TOKENS} tokens; medians of {rounds} rounds, in which both take turns.",
        "",
        "| chat, streams, temperature | plain, output tokens/s | with guesses | ratio (lowest to highest round) |",
        "|---|---|---|---|",
    ]
    for (chat, streams, temperature), (without, with_guesses) in rates.items():
        name = f"{chat}, {streams}, {temperature:g}"
        lines.append(_row(f"{name} | {median(without):.1f}", with_guesses, without))
    return lines


def _chat_body(text: str, temperature: float, seed: int) -> dict[str, Any]:
    messages = [{"role": "user", "content": text}]
    return {"messages": messages, "max_tokens": CHAT_TOKENS, "temperature": temperature, "seed": seed}


def _row(name: str, rates: Sequence[float], of: Sequence[float]) -> str:
    ratios = [rate / other for rate, other in zip(rates, of, strict=True)]
    return f"| {name} | {median(rates):.1f} | **{median(ratios):.2f}** ({min(ratios):.2f} to {max(ratios):.2f}) |"


async def _rate(
    session: aiohttp.ClientSession,
    endpoint: HttpEndpoint,
    path: str,
    bodies: Sequence[Mapping[str, Any]],
    streams: int,
) -> float:
    """Output tokens a second from the first request to the last answer; `streams` requests at a time."""
    waiting = list(bodies)
    tokens = 0

    async def client() -> None:
        nonlocal tokens
        while waiting:
            body = {"model": endpoint.model, **waiting.pop()}
            async with session.post(f"{endpoint.root}/v1/{path}", json=body) as response:
                answer = await response.json()
                if response.status != 200:
                    raise SystemExit(f"{path} answered {response.status}: {answer}")
                tokens += answer["usage"]["completion_tokens"]

    start = time.monotonic()
    async with asyncio.TaskGroup() as group:
        for _ in range(streams):
            group.create_task(client())
    return tokens / (time.monotonic() - start)


main()
