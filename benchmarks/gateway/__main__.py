"""`python -m benchmarks.gateway`: what a gateway costs, from outside, beside LiteLLM's proxy."""

import argparse
import asyncio
import os
import shlex
import sys
import time
from collections.abc import Sequence

from benchmarks.engine.machine import machine_facts
from benchmarks.engine.model import MODEL, load_model
from benchmarks.engine.results import now_text
from benchmarks.engine.work import PeerUnavailableError
from benchmarks.gateway.gateways.base import Cores, Gateway
from benchmarks.gateway.gateways.forebay import Features, Forebay
from benchmarks.gateway.gateways.litellm import LiteLlm
from benchmarks.gateway.measure import Run, Sizes
from benchmarks.gateway.pinned_server import FOLDER
from benchmarks.gateway.prompts import BODIES, WHOLE_TOKENS, chat_bodies
from benchmarks.gateway.report import Report
from benchmarks.gateway.upstream import PROMPT_TOKENS
from benchmarks.report_file import RESULTS_FILE, write_part

PART = "gateway"
_NAMES = ("forebay", "forebay-valkey", "litellm")


def main() -> None:
    options = _options()
    if options.write and f"<!-- {PART} -->" not in RESULTS_FILE.read_text():
        raise SystemExit(f"{RESULTS_FILE} has no part {PART!r}: write its two comments where it belongs")
    cores = _cores()
    machine = machine_facts()
    features = Features(None if options.without_tokenizer else MODEL, quotas=not options.without_quotas)
    every: list[Gateway] = [Forebay(features, valkey=False), Forebay(features, valkey=True), LiteLlm()]
    facts, left_out = {}, {}
    able: list[Gateway] = []
    for gateway in every:
        if gateway.name in options.only:
            try:
                facts[gateway.name] = gateway.prepare()
                able.append(gateway)
            except PeerUnavailableError as error:
                left_out[gateway.name] = str(error)
    sizes = _sizes(options)
    run = Run(sizes, cores, _bodies(options, stream=False), _bodies(options, stream=True))
    # This process too stays off the gateway's core, and with it all that it starts and does not put elsewhere.
    os.sched_setaffinity(0, {cores.rest})
    began = time.monotonic()
    asyncio.run(run.run(able))
    command = shlex.join(["python", "-m", "benchmarks.gateway", *sys.argv[1:]])
    head = f"Measured {now_text()} in {(time.monotonic() - began) / 60:.1f} minutes by `{command}`."
    report = Report(sizes, cores, options.prompt_tokens, facts, run.measured)
    text = report.text(head, machine, {**left_out, **run.failed})
    (FOLDER / "report.md").write_text(text)
    print(f"\n{text}")
    if options.write:
        write_part(PART, text)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gateway", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one short round: says only that everything works")
    parser.add_argument("--only", nargs="+", choices=_NAMES, default=_NAMES, metavar="NAME", help=", ".join(_NAMES))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--connections", type=int, default=16, help="callers of the closed load")
    parser.add_argument("--streams", type=int, nargs="+", default=[4, 16], help="streams at a time")
    parser.add_argument("--chunks", type=int, default=64, help="pieces of a stream")
    parser.add_argument("--prompt-tokens", type=int, default=PROMPT_TOKENS)
    parser.add_argument("--arrivals", choices=("poisson", "even"), default="poisson", help="of the open load")
    parser.add_argument("--without-tokenizer", action="store_true", help="Forebay does not count prompts")
    parser.add_argument("--without-quotas", action="store_true", help="Forebay with its operator's key alone")
    parser.add_argument("--write", action="store_true", help="write the report into benchmarks/RESULTS.md")
    return parser.parse_args()


def _sizes(options: argparse.Namespace) -> Sizes:
    quick = options.quick
    return Sizes(
        rounds=1 if quick else options.rounds,
        closed_s=1.5 if quick else 4.0,
        open_s=1.5 if quick else 4.0,
        streams_s=1.0 if quick else 3.0,
        warm_up_s=0.5 if quick else 3.0,
        connections=options.connections,
        streams=tuple(options.streams),
        chunks=options.chunks,
        arrivals=options.arrivals,
    )


def _cores() -> Cores:
    usable = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    if len(usable) < 2:
        raise SystemExit("The gateway needs a core of its own: run this on Linux, with two cores or more.")
    return Cores(gateway=usable[-1], rest=usable[0])


def _bodies(options: argparse.Namespace, *, stream: bool) -> Sequence[str]:
    tokenizer = load_model().tokenizer
    return chat_bodies(
        lambda text: tokenizer.encode(text, add_special_tokens=False),
        count=BODIES,
        prompt_tokens=options.prompt_tokens,
        output_tokens=options.chunks if stream else WHOLE_TOKENS,
        stream=stream,
        seed=1 + stream,
    )


if __name__ == "__main__":
    main()
