"""Measure how time and memory grow with the schema and the output, for structgen and other engines.

    python -m bench.growth --tokenizer DIRECTORY [--families SUBSTRING] [--engines NAME ...] [--limit SECONDS]

The command compiles each family of `bench.families` at growing sizes, and reads one valid instance of each token by
token. Every case runs in its own process, which is forked when tokenizer and engine are ready. So memory is counted
from there, and ``--limit`` ends an engine that hangs, in CPU seconds and in wall seconds.

The report shows the CPU time of compiling with the first mask, and that of all masks of the instance. Memory is the
peak above the value before the schema was compiled. The exponents are slopes on logarithmic axes, through the larger
sizes, against the bytes of schema and output together. Linear growth is 1, which is the bar for all three.

Results: docs/performance.md, "Growth".
"""

from __future__ import annotations

import json
import math
import multiprocessing
import os
import resource
import statistics
import sys
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from bench.command import argument_parser
from bench.families import FAMILIES, Family
from bench.memory import status_kib
from bench.tokenizers import tokenizer_of
from structgen.evaluation.engines import BENCHMARK_ENGINES, has_token

__all__ = ["main"]

_CLOCK = time.thread_time_ns
_FITTED = 3
"""Number of the largest sizes that the slope is fitted to: constants matter least there."""

Case = dict[str, Any]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argument_parser("bench.growth", __doc__)
    parser.add_argument("--tokenizer", required=True, help="directory of a Hugging Face tokenizer")
    parser.add_argument("--families", default="", help="only families whose names contain this")
    parser.add_argument(
        "--engines", nargs="+", default=list(BENCHMARK_ENGINES), choices=list(BENCHMARK_ENGINES)
    )
    parser.add_argument("--limit", type=int, default=20, help="seconds a case may take (default: 20)")
    chosen = parser.parse_args(arguments)
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    tokenizer = tokenizer_of(chosen.tokenizer)
    engines = {name: BENCHMARK_ENGINES[name](tokenizer) for name in chosen.engines}
    print(
        "| family | engine | n | schema + output, bytes | tokens | compile + first mask, ms | mask, mean µs | p99 µs"
        " | max µs | walk, ms | memory, MB | exponents: compile, walk, memory |\n|---|---|" + "--:|" * 10
    )
    for label, family in FAMILIES.items():
        if chosen.families in label:
            for name, engine in engines.items():
                _print_family(label, name, _measure_family(engine, tokenizer, family, chosen.limit))


def _measure_family(engine: Any, tokenizer: Any, family: Family, limit: int) -> list[Case]:
    cases: list[Case] = []
    for n in family.sizes:
        schema, instance = family.make(n)
        text = json.dumps(schema, ensure_ascii=False)
        output = json.dumps(instance, ensure_ascii=False)
        tokens = tokenizer.encode(output, add_special_tokens=False)
        result = _in_a_process(engine, text, tokens, limit)
        cases.append({"n": n, "bytes": len(text) + len(output), "tokens": len(tokens), **result})
        if "error" in result:
            break  # larger cases would fail too
    return cases


def _in_a_process(engine: Any, schema: str, tokens: list[int], limit: int) -> Case:
    """Return the result of `_measure`, or an ``error``."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_child, args=(theirs, engine, schema, tokens, limit))
    process.start()
    theirs.close()
    result: Case = {"error": f"over {limit} s"}
    try:
        if ours.poll(limit):
            result = ours.recv()
    except EOFError:
        result = {"error": "process ended"}
    process.kill()
    process.join()
    return result


def _child(connection: Connection, engine: Any, schema: str, tokens: list[int], limit: int) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5))
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())  # the peers' warnings
    try:
        connection.send(_measure(engine, schema, tokens))
    except Exception as error:
        connection.send({"error": f"{type(error).__name__}: {error}".splitlines()[0][:60]})


def _measure(engine: Any, schema: str, tokens: list[int]) -> Case:
    before = status_kib("self", "VmRSS")
    start = _CLOCK()
    session = engine.open(schema)
    session.mask()
    first = _CLOCK() - start
    masks: list[int] = []
    begin = _CLOCK()
    for token in tokens:
        start = _CLOCK()
        words = session.mask()
        masks.append(_CLOCK() - start)
        if not has_token(words, token) or not session.accept(token):
            raise ValueError("rejects the instance")
    walk = _CLOCK() - begin
    return {
        "first": first / 1e6,
        "mean": statistics.fmean(masks) / 1e3,
        "p99": float(np.percentile(masks, 99)) / 1e3,
        "most": max(masks) / 1e3,
        "walk": walk / 1e6,
        "memory": (status_kib("self", "VmHWM") - before) / 1024,
    }


def _print_family(label: str, engine: str, cases: list[Case]) -> None:
    measured = [case for case in cases if "error" not in case]
    for case in cases:
        begin = f"| {label} | {engine} | {case['n']:,} | {case['bytes']:,} | {case['tokens']:,} |"
        if "error" in case:
            print(f"{begin} {case['error']} | | | | | | |", flush=True)
            continue
        last = case is measured[-1] and len(measured) >= _FITTED
        slopes = (
            ", ".join(_slope(measured[-_FITTED:], key) for key in ("first", "walk", "memory")) if last else ""
        )
        print(
            f"{begin} {case['first']:,.1f} | {case['mean']:,.1f} | {case['p99']:,.0f} | {case['most']:,.0f}"
            f" | {case['walk']:,.1f} | {case['memory']:,.1f} | {slopes} |",
            flush=True,
        )


def _slope(cases: list[Case], key: str) -> str:
    """Return the growth exponent, or a dash if there is no growth to measure."""
    across = [math.log(case["bytes"]) for case in cases]
    if min(case[key] for case in cases) <= 0 or across[0] == across[-1]:
        return "–"
    return f"{statistics.linear_regression(across, [math.log(case[key]) for case in cases]).slope:.2f}"


if __name__ == "__main__":
    main()
