"""Measure the time to build and to fill the first mask for 10 to 1,000 tools, with structgen and other engines.

    python -m bench.tool_growth [--tools 10 50 100 400 1000] [--repeats 5] [--tokenizer DIRECTORY]

The tools are generated, like those of MCP servers, and differ in each repeat, so that no engine has seen them. The
constraint is one call: a name, and the arguments under the schema of this name, as one `anyOf`, which all engines take.
The last column is structgen through the compiler of the vLLM and SGLang plugins: a worker process probes the
constraint, and this process builds it again. Times are medians in milliseconds, on one thread.

Results: docs/performance.md, "Tools".
"""

from __future__ import annotations

import json
import random
import statistics
import time
from collections.abc import Sequence
from typing import Any

from bench.command import argument_parser
from bench.schemas.generated import tools
from bench.schemas.mcp_tools import all_tools
from bench.tokenizers import tokenizer_of, vocabulary_of
from structgen.evaluation.engines import BENCHMARK_ENGINES
from structgen.serving.compiler import ConstraintCompiler
from structgen.serving.limits import RequestLimits

__all__ = ["main"]

_CHARACTERS = 64 << 20


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    parser = argument_parser("bench.tool_growth", __doc__)
    parser.add_argument("--tools", type=int, nargs="+", default=[10, 50, 100, 400, 1000])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument(
        "--tokenizer", metavar="DIRECTORY", help="a Hugging Face tokenizer; by default the embedded one"
    )
    options = parser.parse_args(arguments)
    tokenizer = tokenizer_of(options.tokenizer)
    engines = {name: kind(tokenizer) for name, kind in BENCHMARK_ENGINES.items()}
    compiler = ConstraintCompiler(vocabulary_of(options.tokenizer), RequestLimits(max_bytes=_CHARACTERS), 1)
    try:
        compiler.compile("json", "{}")  # the worker starts
        for engine in engines.values():
            engine.open("{}").mask()
        print("tools", *engines, "structgen by the plugins' compiler", sep=" | ")
        for count in options.tools:
            print(count, *_row(engines, compiler, count, options.repeats), sep=" | ", flush=True)
    finally:
        compiler.close()
    return 0


def _row(engines: dict[str, Any], compiler: ConstraintCompiler, count: int, repeats: int) -> list[str]:
    """Return the median of each column, in milliseconds, or the error that replaces it."""
    seconds: dict[str, list[float]] = {}
    refused: dict[str, str] = {}
    for repeat in range(repeats):
        schema = json.dumps(all_tools(tools(random.Random(1000 * count + repeat), count)))
        for name, engine in engines.items():
            started = time.perf_counter()
            try:
                engine.open(schema).mask()
            except Exception as error:
                refused[name] = type(error).__name__
                continue
            seconds.setdefault(name, []).append(time.perf_counter() - started)
        started = time.perf_counter()
        compiler.compile("json", schema).open().mask()
        seconds.setdefault("plugins", []).append(time.perf_counter() - started)
    return [
        refused.get(name) or f"{statistics.median(seconds[name]) * 1e3:.1f}" for name in (*engines, "plugins")
    ]


if __name__ == "__main__":
    raise SystemExit(main())
