"""Measure the time to build and to fill the first mask for 10 to 1,000 tools, with structgen and other engines.

    python -m bench.tool_growth [--tools 10 50 100 400 1000] [--repeats 5] [--engines structgen llguidance xgrammar]
                                [--tokenizer DIRECTORY] [--format qwen3_coder hermes]

The tools are generated, like those of MCP servers, and differ in each repeat, so that no engine has seen them. The
constraint is one call: a name, and the arguments under the schema of this name, as one `anyOf`, which all engines take.
`plugins` is structgen through the compiler of the vLLM and SGLang plugins, with its default limits. `probed` says how
many constraints it compiled in a worker process first; their times are wall times, and the worker's work is in them.

Times are medians in milliseconds of CPU time of one thread, so other work on the machine lengthens them less. Ten times
as many repeats are made of up to 100 tools, since caches of patterns and formats fill in the first ones. Objects that
exist at the start are frozen (`gc.freeze`), as servers do. XGrammar compiles one constraint of each size, since it
takes minutes for the largest.

With `--format` the constraint is a turn with calls in the formats of model families instead: `structgen` builds
`structgen.tools`, and `plugins` compiles the structural tag that XGrammar writes for the model, as vLLM sends it. Of
the engines only XGrammar takes part. It compiles the same tag, for the first repeat.

Results: docs/performance.md, "Tools".
"""

from __future__ import annotations

import gc
import json
import random
import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from bench.command import argument_parser
from bench.schemas.generated import tools
from bench.schemas.mcp_tools import all_tools
from bench.tokenizers import tokenizer_of, vocabulary_of
from bench.tool_formats import FORMATS, compile_turn, definitions, structural_tag
from structgen.errors import StructgenError
from structgen.evaluation.engines import BENCHMARK_ENGINES
from structgen.serving.compiler import ConstraintCompiler
from structgen.serving.requests import Kind

__all__ = ["main"]

_FEW = 100
_SLOW_ENGINE = "xgrammar"
"""Takes minutes for a thousand tools, so it compiles one constraint of each size."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    parser = argument_parser("bench.tool_growth", __doc__)
    parser.add_argument("--tools", type=int, nargs="+", default=[10, 50, 100, 400, 1000])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument(
        "--engines", nargs="+", choices=list(BENCHMARK_ENGINES), default=list(BENCHMARK_ENGINES)
    )
    parser.add_argument(
        "--tokenizer", metavar="DIRECTORY", help="a Hugging Face tokenizer; by default the embedded one"
    )
    parser.add_argument(
        "--format",
        nargs="+",
        choices=list(FORMATS),
        default=[],
        help="measure turns in these formats instead",
    )
    options = parser.parse_args(arguments)
    tokenizer = tokenizer_of(options.tokenizer)
    engines = {name: BENCHMARK_ENGINES[name](tokenizer) for name in options.engines}
    compiler = ConstraintCompiler(vocabulary_of(options.tokenizer), workers=1)
    try:
        compiler.compile("regex", "a")  # the worker starts
        for engine in engines.values():
            engine.open("{}").mask()
        gc.collect()
        gc.freeze()
        if options.format:
            print("format", "tools", "bytes", "structgen", "plugins", "probed", _SLOW_ENGINE, sep=" | ")
        else:
            print("tools", *engines, "plugins", "probed", sep=" | ")
        for count in options.tools:
            for format in options.format:  # one after another, so that the machine is as busy for each
                row = _format_row(format, engines.get(_SLOW_ENGINE), compiler, count, options.repeats)
                print(format, count, *row, sep=" | ", flush=True)
            if not options.format:
                print(count, *_row(engines, compiler, count, options.repeats), sep=" | ", flush=True)
    finally:
        gc.unfreeze()
        compiler.close()
    return 0


def _row(engines: dict[str, Any], compiler: ConstraintCompiler, count: int, least: int) -> list[str]:
    """Return the median of each column, in milliseconds, or the error that replaces it."""
    seconds: dict[str, list[float]] = {}
    refused: dict[str, str] = {}
    unprobed = compiler.stats.unprobed
    repeats = 10 * least if count <= _FEW else least
    for repeat in range(repeats):
        schema = json.dumps(all_tools(tools(random.Random(1000 * count + repeat), count)))
        for name, engine in engines.items():
            if name == _SLOW_ENGINE and repeat:
                continue
            try:
                took = _seconds(time.thread_time, partial(_first_mask, engine, schema))
            except Exception as error:
                refused[name] = type(error).__name__
                continue
            seconds.setdefault(name, []).append(took)
        seconds.setdefault("plugins", []).append(_plugin_seconds(compiler, "json", schema))
    probed = repeats - (compiler.stats.unprobed - unprobed)
    times = [
        refused.get(name) or f"{statistics.median(seconds[name]) * 1e3:.1f}" for name in (*engines, "plugins")
    ]
    return [*times, f"{probed} of {repeats}"]


def _format_row(
    format: str, peer: Any, compiler: ConstraintCompiler, count: int, least: int
) -> list[str | int]:
    """Return the median of each column, in milliseconds, or the error that replaces it."""
    own: list[float] = []
    plugins: list[float] = []
    sizes: list[int] = []
    refused, peers = "", "-"
    unprobed = compiler.stats.unprobed
    repeats = 10 * least if count <= _FEW else least
    for repeat in range(repeats):
        offered = definitions(random.Random(1000 * count + repeat), count)
        tag = structural_tag(format, offered)
        sizes.append(len(tag.encode()))
        own.append(_seconds(time.thread_time, partial(compile_turn, format, offered, compiler.vocabulary)))
        try:
            plugins.append(_plugin_seconds(compiler, "structural_tag", tag))
        except StructgenError as error:
            refused = str(getattr(error, "limit", type(error).__name__))
        if peer is not None and not repeat:
            peers = _peer_time(peer, tag)
    probed = repeats - (compiler.stats.unprobed - unprobed)
    times = [f"{statistics.median(each) * 1e3:.1f}" if each else "-" for each in (own, plugins)]
    return [
        round(statistics.median(sizes)),
        times[0],
        times[1] + (f", {repeats - len(plugins)} refused ({refused})" if refused else ""),
        f"{probed} of {repeats}",
        peers,
    ]


def _peer_time(peer: Any, tag: str) -> str:
    try:
        took = _seconds(time.thread_time, lambda: peer.open_structural_tag(tag).mask())
    except Exception as error:
        return type(error).__name__
    return f"{took * 1e3:.1f}"


def _plugin_seconds(compiler: ConstraintCompiler, kind: Kind, spec: str) -> float:
    """Return the CPU time of this thread; the wall time if another process probed the constraint."""
    unprobed, started = compiler.stats.unprobed, time.perf_counter()
    took = _seconds(time.thread_time, lambda: compiler.compile(kind, spec).open().mask())
    return took if compiler.stats.unprobed > unprobed else time.perf_counter() - started


def _first_mask(engine: Any, schema: str) -> None:
    engine.open(schema).mask()


def _seconds(clock: Callable[[], float], work: Callable[[], object]) -> float:
    started = clock()
    work()
    return clock() - started


if __name__ == "__main__":
    raise SystemExit(main())
