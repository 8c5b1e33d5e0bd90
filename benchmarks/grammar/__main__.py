"""`python -m benchmarks.grammar`: what compiling a schema and each masked step cost, without the model."""

import json
import resource
import sys
import time
from dataclasses import dataclass, field

import numpy as np
from tests.support.grammar_walk import Walker, allowed
from tests.support.json_schemas import ACCEPTED, REFUSED

from benchmarks.engine.machine import machine_facts
from benchmarks.engine.model import load_model
from benchmarks.engine.stats import percentile
from forebay.core.errors import InvalidRequest
from forebay.engine.grammar.compiler import GrammarCompiler
from forebay.engine.grammar.matcher import CompiledGrammar
from forebay.engine.request import Grammar
from forebay.modelfiles.tokenizer import ModelTokenizer

WALKS = 3
MOST_TOKENS = 120


@dataclass
class Times:
    """Seconds of each kind of work."""

    compile: list[float] = field(default_factory=list)
    refuse: list[float] = field(default_factory=list)
    matcher: list[float] = field(default_factory=list)
    begin: list[float] = field(default_factory=list)
    mask: list[float] = field(default_factory=list)
    mask_cpu: list[float] = field(default_factory=list)
    accept: list[float] = field(default_factory=list)
    step: list[float] = field(default_factory=list)
    slow_grammars: int = 0


def main() -> int:
    model = load_model()
    for name, value in machine_facts().items():
        print(f"{name}: {value}")
    build(model.tokenizer, model.eos_token_ids)
    compiler = GrammarCompiler(model.tokenizer, model.tokenizer.vocab_size, model.eos_token_ids)
    compiler.compile(Grammar("json_object"))
    times = Times()
    walker = Walker(model.tokenizer, model.eos_token_ids)
    schemas = [schema for group in ACCEPTED.values() for schema in group]
    for place, schema in enumerate(schemas):
        start = time.perf_counter()
        compiled = compiler.compile(Grammar("json_schema", json.dumps(schema)))
        times.compile.append(time.perf_counter() - start)
        for seed in range(WALKS):
            walk(compiled, walker, np.random.default_rng([place, seed]), times)
        times.slow_grammars += compiled.slow
    for schema, _ in REFUSED:
        start = time.perf_counter()
        try:
            compiler.compile(Grammar("json_schema", json.dumps(schema)))
        except InvalidRequest:
            times.refuse.append(time.perf_counter() - start)
    compiler.close()
    print_report(times, len(schemas))
    return 0


def build(tokenizer: ModelTokenizer, eos_token_ids: frozenset[int]) -> None:
    """How long the first grammar of a process takes, which builds the library's view of the tokenizer."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    GrammarCompiler(tokenizer, tokenizer.vocab_size, eos_token_ids).compile(Grammar("json_object"))
    took = time.perf_counter() - start
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    print(f"the first grammar, with the tokenizer's view: {took * 1e3:.0f} ms, {grown:.0f} MiB more at most")


def walk(compiled: CompiledGrammar, walker: Walker, rng: np.random.Generator, times: Times) -> None:
    start = time.perf_counter()
    matcher = compiled.matcher()
    times.matcher.append(time.perf_counter() - start)
    for length in range(MOST_TOKENS):
        if matcher.stopped:
            return
        start, cpu = time.perf_counter(), time.process_time()
        matcher.begin()
        begun = time.perf_counter() - start
        matcher.mask(10.0)
        masked = time.perf_counter() - start
        times.mask_cpu.append(time.process_time() - cpu)
        times.begin.append(begun)
        token = walker.draw(allowed(matcher), rng, length)
        start = time.perf_counter()
        matcher.accept(token)
        accepted = time.perf_counter() - start
        times.mask.append(masked)
        times.accept.append(accepted)
        times.step.append(masked + accepted)


def print_report(times: Times, schemas: int) -> None:
    print(f"{schemas} schemas, {len(times.step)} steps, {times.slow_grammars} grammars became slow ones")
    print(f"{'':24}{'p50':>10}{'p95':>10}{'p99':>10}{'max':>10}")
    for name, values, unit, factor in (
        ("compile", times.compile, "ms", 1e3),
        ("refuse", times.refuse, "ms", 1e3),
        ("fresh matcher", times.matcher, "µs", 1e6),
        ("begin", times.begin, "µs", 1e6),
        ("begin to mask", times.mask, "µs", 1e6),
        ("the same, CPU", times.mask_cpu, "µs", 1e6),
        ("accept", times.accept, "µs", 1e6),
        ("step (mask + accept)", times.step, "µs", 1e6),
    ):
        cells = "".join(f"{percentile(values, percent) * factor:>10.2f}" for percent in (50, 95, 99, 100))
        print(f"{name:24}{cells} {unit}")


if __name__ == "__main__":
    sys.exit(main())
