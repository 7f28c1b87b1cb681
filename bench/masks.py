"""Measure token masks of JSON Schemas: structgen and llguidance, in one run.

    python -m bench.masks --data maskbench.jsonl.gz [-n 300] [--tokenizer DIRECTORY]

``--data`` holds MaskBench records, one JSON object per line: ``schema`` and ``tests`` of ``{valid, data}``. Both
engines compile each schema and read each valid instance token by token; they take turns, so that both meet the same
load of the machine. Times are CPU time of this thread. Schemas that only one engine accepts are not compared.

docs/performance.md, "Token masks: 800 MaskBench schemas", has the same comparison by the runner of MaskBench.
"""

from __future__ import annotations

import json
import random
import statistics
import time
from collections.abc import Callable

import numpy as np

from bench.command import argument_parser
from bench.records import records
from bench.tokenizers import tokenizer_of
from structgen.evaluation.engines import BENCHMARK_ENGINES, BenchmarkEngine, has_token

__all__ = ["main"]

_CLOCK = time.thread_time_ns


def main() -> None:
    parser = argument_parser("bench.masks", __doc__)
    parser.add_argument("--data", required=True, help="MaskBench records, .jsonl or .jsonl.gz")
    parser.add_argument(
        "--tokenizer", help="directory of a Hugging Face tokenizer (default: the embedded model's)"
    )
    parser.add_argument("-n", type=int, default=300, help="schemas, drawn with a fixed seed")
    chosen = parser.parse_args()
    tokenizer = tokenizer_of(chosen.tokenizer)
    listed = records(chosen.data)
    listed = random.Random(0).sample(listed, min(chosen.n, len(listed)))
    engines = [BENCHMARK_ENGINES[name](tokenizer) for name in ("structgen", "llguidance")]
    times: dict[str, dict[str, list[float]]] = {
        e.name: {"first": [], "mask": [], "warm": []} for e in engines
    }
    taken = dict.fromkeys((e.name for e in engines), 0)
    for i, record in enumerate(listed):
        texts = [json.dumps(t["data"], ensure_ascii=False) for t in record["tests"] if t["valid"]]
        tokens = [tokenizer.encode(text, add_special_tokens=False) for text in texts]
        schema = json.dumps(record["schema"], ensure_ascii=False)
        runs = {}
        for engine in engines if i % 2 else reversed(engines):
            try:
                runs[engine.name] = _run(engine, schema, tokens)
                taken[engine.name] += 1
            except Exception:
                continue  # counted as not taken
        if len(runs) == len(engines):
            for name, run in runs.items():
                for figure, values in run.items():
                    times[name][figure] += values
    _report(times, taken, len(listed))


def _run(engine: BenchmarkEngine, schema: str, instances: list[list[int]]) -> dict[str, list[float]]:
    start = _CLOCK()
    session = engine.open(schema)
    session.mask()
    times: dict[str, list[float]] = {"first": [(_CLOCK() - start) / 1e3], "mask": [], "warm": []}
    for tokens in instances:
        for figure in ("mask", "warm"):
            session.reset()
            for token in tokens:
                start = _CLOCK()
                words = session.mask()
                times[figure].append((_CLOCK() - start) / 1e3)
                if not has_token(words, token) or not session.accept(token):
                    raise ValueError("a valid instance is not accepted")
    return times


def _report(times: dict[str, dict[str, list[float]]], taken: dict[str, int], total: int) -> None:
    names = list(times)
    print(f"{total} schemas; taken with all valid instances: " + ", ".join(f"{n} {taken[n]}" for n in names))
    print("| figure (µs) | " + " | ".join(names) + " | ratio |")
    print("|---|" + "--:|" * (len(names) + 1))
    figures = {
        "first": "compile and first mask",
        "mask": "mask, first reading",
        "warm": "mask, second reading",
    }
    for key, label in figures.items():
        for statistic, measure in _STATISTICS.items():
            values = [measure(times[name][key]) for name in names]
            print(
                f"| {label}, {statistic} | "
                + " | ".join(f"{v:,.1f}" for v in values)
                + f" | {values[0] / values[1]:.2f} |"
            )


_STATISTICS: dict[str, Callable[[list[float]], float]] = {
    "median": statistics.median,
    "mean": statistics.fmean,
    "p99": lambda values: float(np.percentile(values, 99)),
}


if __name__ == "__main__":
    main()
