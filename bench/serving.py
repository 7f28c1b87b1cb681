"""Measure batched masks as in serving: matchers of many schemas, and all masks of a step filled in one call.

    python -m bench.serving --data RECORDS.jsonl.gz --tokenizer DIRECTORY [--files LIST] [--matchers 64] [--threads 1 2]

Each matcher has its own schema and reads a valid instance of it. The matchers advance together, and one that has
finished starts again. A step is one batched call for the masks, whose wall time counts, and one token for each matcher,
which does not count. The schemas are those that every engine accepts with the whole instance.

Each engine runs alone, ``--passes`` times. The report shows the first pass (empty caches) and the last. The CPU time is
that of all threads; a busy machine affects it less than the wall time.

Results: docs/performance.md, "Batches of a server".
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.command import argument_parser
from bench.records import records
from bench.tokenizers import tokenizer_of
from structgen.evaluation.engines import BENCHMARK_ENGINES, has_token
from structgen.matcher import fill_masks

__all__ = ["main"]

Batch = Callable[[], None]
_CANDIDATES_PER_MATCHER = 4
_LONGEST = 400
"""Tokens of an instance."""


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argument_parser("bench.serving", __doc__)
    parser.add_argument("--data", required=True, help="MaskBench records, .jsonl or .jsonl.gz")
    parser.add_argument("--files", help="a list of records' names, one a line (default: a sample)")
    parser.add_argument("--tokenizer", required=True, help="directory of a Hugging Face tokenizer")
    parser.add_argument("--matchers", type=int, default=64)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--passes", type=int, default=2)
    parser.add_argument(
        "--engines", nargs="+", default=list(BENCHMARK_ENGINES), choices=list(BENCHMARK_ENGINES)
    )
    chosen = parser.parse_args(arguments)
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    tokenizer = tokenizer_of(chosen.tokenizer)
    engines = {name: BENCHMARK_ENGINES[name](tokenizer) for name in chosen.engines}
    cases = _common_cases(engines, _candidates(chosen, tokenizer), chosen.matchers)
    print(f"{len(cases)} schemas, {chosen.steps} steps; µs of wall time for one batched call")
    print(
        "| engine | threads | first pass: median | mean | p99 | mean CPU"
        " | last pass: median | mean | p99 | mean CPU |"
    )
    print("|---|" + "--:|" * 9)
    for threads in chosen.threads:
        for name in chosen.engines:
            engine = BENCHMARK_ENGINES[name](tokenizer)  # a fresh one, which remembers nothing
            passes = _run(engine, cases, threads, chosen.steps, chosen.passes)
            figures = [f for times in (passes[0], passes[-1]) for f in _figures(times)]
            print(f"| {name} | {threads} | " + " | ".join(f"{f:,.0f}" for f in figures) + " |", flush=True)


Case = tuple[str, list[int]]
Times = tuple[float, float]


def _candidates(chosen: argparse.Namespace, tokenizer: Any) -> list[Case]:
    """Schemas with the tokens of a valid instance, the longest that is not too long."""
    listed = records(chosen.data)
    if chosen.files:
        wanted = set(Path(chosen.files).read_text("utf-8").split())
        listed = [record for record in listed if record["_file"] in wanted]
    random.Random(0).shuffle(listed)
    cases: list[Case] = []
    for record in listed:
        texts = [json.dumps(test["data"], ensure_ascii=False) for test in record["tests"] if test["valid"]]
        walks = [tokenizer.encode(text, add_special_tokens=False) for text in texts]
        walks = [tokens for tokens in walks if len(tokens) <= _LONGEST]
        if walks:
            cases.append((json.dumps(record["schema"], ensure_ascii=False), max(walks, key=len)))
        if len(cases) == _CANDIDATES_PER_MATCHER * chosen.matchers:
            break
    return cases


def _common_cases(engines: dict[str, Any], cases: list[Case], wanted: int) -> list[Case]:
    common: list[Case] = []
    for case in cases:
        if all(_takes(engine, *case) for engine in engines.values()):
            common.append(case)
        if len(common) == wanted:
            break
    return common


def _takes(engine: Any, schema: str, tokens: list[int]) -> bool:
    try:
        session = engine.open(schema)
        for token in tokens:
            if not has_token(session.mask(), token) or not session.accept(token):
                return False
    except Exception:  # a schema that this engine does not take
        return False
    return True


def _run(engine: Any, cases: list[Case], threads: int, steps: int, passes: int) -> list[list[Times]]:
    """Wall and CPU times of the batched calls, in µs, by pass."""
    sessions = [engine.open(schema) for schema, _ in cases]
    rows, fill = _batch(engine, sessions, threads)
    times_by_pass: list[list[Times]] = []
    for _ in range(passes):
        for session in sessions:
            session.reset()
        places = [0] * len(cases)
        times = []
        for _ in range(steps):
            cpu, wall = time.process_time_ns(), time.perf_counter_ns()
            fill()
            wall, cpu = time.perf_counter_ns() - wall, time.process_time_ns() - cpu
            times.append((wall / 1e3, cpu / 1e3))
            for i, (session, (_, tokens)) in enumerate(zip(sessions, cases, strict=True)):
                token = tokens[places[i]]
                if not has_token(rows[i], token) or not session.accept(token):
                    raise AssertionError("a token of the instance is not in the mask of the batch")
                places[i] += 1
                if places[i] == len(tokens):
                    session.reset()
                    places[i] = 0
        times_by_pass.append(times)
    return times_by_pass


def _batch(engine: Any, sessions: list[Any], threads: int) -> tuple[NDArray[np.int32], Batch]:
    """The rows, and what fills them all."""
    if engine.name == "structgen":
        rows = np.zeros((len(sessions), engine.vocabulary.words), dtype=np.int32)
        matchers = [session.matcher for session in sessions]
        return rows, lambda: fill_masks(matchers, rows, threads)
    if engine.name == "llguidance":
        from llguidance.numpy import fill_next_token_bitmask_par

        executor = engine.module.LLExecutor(num_threads=threads)
        rows = np.zeros((len(sessions), (engine.tokenizer.vocab_size + 31) // 32), dtype=np.int32)
        pairs = [(session.matcher, i) for i, session in enumerate(sessions)]
        return rows, lambda: fill_next_token_bitmask_par(executor, pairs, rows)
    batch = engine.module.BatchGrammarMatcher(max_threads=threads)
    bitmask = engine.module.allocate_token_bitmask(len(sessions), engine.tokenizer.vocab_size)
    matchers = [session.matcher for session in sessions]
    return bitmask.numpy(), lambda: batch.batch_fill_next_token_bitmask(matchers, bitmask)


def _figures(times: list[Times]) -> tuple[float, float, float, float]:
    walls, processor = zip(*times, strict=True)
    return (
        statistics.median(walls),
        statistics.fmean(walls),
        float(np.percentile(walls, 99)),
        statistics.fmean(processor),
    )


if __name__ == "__main__":
    main()
