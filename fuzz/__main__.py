"""The command line of the fuzzer; see the package.

    python -m fuzz --target schema --minutes 60 --seed 1
    python -m fuzz --target regex --try '(a|b' --try '[z-a]'       (what becomes of these inputs)
    python -m fuzz --target schema --again                        (the findings of the corpus, once more)
    python -m fuzz --target rollback --steps 1000000              (see `rollback`; it keeps no corpus)

exit status: 0 nothing found; 1 there are findings
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from dataclasses import asdict
from pathlib import Path

from .campaign import run
from .corpus import Corpus
from .process import Limits, Worker
from .rollback import run_rollback

_TARGETS = ("schema", "regex", "lark", "gbnf", "ebnf", "ltl", "tags", "core", "served", "rollback")


def main() -> int:
    """Reads the arguments and runs."""
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__.partition("\n\n")[0])
    parser.add_argument("--target", choices=_TARGETS, required=True)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--steps", type=int, default=1_000_000, help="answers to compare (target rollback only)"
    )
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    parser.add_argument(
        "--corpus",
        type=Path,
        default=home / "structgen" / "fuzzing",
        help="where inputs and findings are kept",
    )
    parser.add_argument("--seconds", type=float, default=10.0, help="CPU time of one input")
    parser.add_argument("--memory", type=int, default=2048, help="MiB that a worker may hold")
    parser.add_argument("--inputs", type=int, default=1_000, help="inputs before a fresh worker starts")
    parser.add_argument(
        "--try", dest="tried", action="append", metavar="TEXT", help="meet this input, and show how it ends"
    )
    parser.add_argument(
        "--again", action="store_true", help="meet the findings of the corpus again; those that are left fail"
    )
    given = parser.parse_args()
    limits = Limits(given.seconds, given.memory << 20, given.inputs)
    if given.tried is not None or given.again:
        return _tried(given.target, given.tried, Corpus(given.corpus, given.target), limits)
    signal.signal(signal.SIGTERM, _stopped)  # the figures of what was done are written
    if given.target == "rollback":
        return _rolled_back(given.steps, given.seed, 60 * given.minutes)
    figures, findings = run(
        given.target,
        given.corpus,
        seconds=60 * given.minutes,
        seed=given.seed,
        limits=limits,
        say=_say,
    )
    print(json.dumps({"target": given.target, "seed": given.seed, **asdict(figures)}, indent=1))
    for finding in findings:
        print(f"{finding.kind}\n    {finding.text!r}")
    return 1 if figures.findings else 0


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _rolled_back(steps: int, seed: int, seconds: float) -> int:
    figures = run_rollback(steps, seed, _say, seconds)
    print(json.dumps({"target": "rollback", "seed": seed, **asdict(figures)}, indent=1))
    return 1 if figures.findings else 0


def _stopped(number: int, frame: object) -> None:
    raise KeyboardInterrupt


def _tried(target: str, texts: list[str] | None, corpus: Corpus, limits: Limits) -> int:
    inputs = texts if texts is not None else [finding.text for finding in corpus.findings()]
    worker = Worker(target, limits)
    left = 0
    for text in inputs:
        outcome = worker.meet(text)
        left += outcome.done == "finding"
        print(f"{outcome.done} in {outcome.seconds:.2f} s  {outcome.kind}  {text!r:.300}")
        if outcome.detail:
            print(outcome.detail)
    worker.close()
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
