"""Measure the CPU time of one unit of the core's work, over random inputs of the fuzzer.

    python -m bench.work --minutes 3 --seed 1
    python -m bench.work --minutes 3 --seed 1 --interrupt 0.002

Each call of the core counts units of work (`_core/util/work.h`). Its limit, `call_steps`, is a number of units, so it
bounds time only if a unit always takes about the same time. For each method the table shows nanoseconds of CPU time per
unit over the calls of at least a millisecond: the median, the 99th percentile, and the largest with its input. A call
that reaches its limit takes `call_steps` times the largest.

``--interrupt SECONDS`` stops every call after that CPU time. The table then shows how many microseconds later the call
ended: so long do Ctrl-C, a stop flag or a deadline wait for the core.

Results: docs/reliability.md, "How late a stopped call ends".
"""

from __future__ import annotations

import random
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from bench.command import argument_parser
from fuzz.checking import TARGETS
from fuzz.mutation import mutated
from fuzz.seeds import seeds
from structgen import _core
from structgen.errors import StructgenError

__all__ = ["main"]

_LEAST_SECONDS = 0.001
_MATCHER_CALLS = (
    "mask",
    "advance",
    "accepts",
    "forced",
    "forced_bytes",
    "witness",
    "next_bytes",
    "is_complete",
    "describe",
)

Measured = dict[str, list[tuple[float, float, str]]]
"""By method: nanoseconds per unit, seconds, and the input of each call."""


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argument_parser("bench.work", __doc__)
    parser.add_argument("--minutes", type=float, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--targets", nargs="+", default=["schema", "regex", "lark", "gbnf", "ebnf"])
    parser.add_argument("--interrupt", type=float, help="end each call after so many seconds of CPU time")
    chosen = parser.parse_args(arguments)
    rng = random.Random(chosen.seed)
    known = {target: seeds(target) for target in chosen.targets}
    measured: Measured = defaultdict(list)
    current = [""]
    for name in _MATCHER_CALLS:
        _watch(_core.Matcher, name, measured, current, chosen.interrupt)
    _watch(_core.Engine, "compile", measured, current, chosen.interrupt)
    end, inputs = time.monotonic() + 60 * chosen.minutes, 0
    while time.monotonic() < end:
        target = rng.choice(chosen.targets)
        current[0] = mutated(target, known[target], rng)
        with suppress(StructgenError, ValueError, RecursionError):
            TARGETS[target](current[0], lambda stage: None)
        inputs += 1
    _print(measured, inputs, "ns/unit" if chosen.interrupt is None else "µs late")


def _watch(owner: type, name: str, measured: Measured, current: list[str], interrupt: float | None) -> None:
    """Replace a method by one that measures it, or that stops it after `interrupt` seconds and measures the delay."""
    method: Callable[..., Any] = getattr(owner, name)

    def interrupted(*args: Any, **kwargs: Any) -> Any:
        assert interrupt is not None
        started = time.thread_time()
        try:
            with _core.CallLimits(cpu_seconds=interrupt):
                return method(*args, **kwargs)
        finally:
            seconds = time.thread_time() - started
            if seconds >= interrupt:
                measured[name].append((1e6 * (seconds - interrupt), seconds, current[0]))

    def watched(*args: Any, **kwargs: Any) -> Any:
        units, started = _core.work_done(), time.thread_time()
        try:
            return method(*args, **kwargs)
        finally:
            seconds = time.thread_time() - started
            if seconds >= _LEAST_SECONDS:
                nanoseconds = 1e9 * seconds / max(_core.work_done() - units, 1)
                measured[name].append((nanoseconds, seconds, current[0]))

    setattr(owner, name, watched if interrupt is None else interrupted)


def _print(measured: Measured, inputs: int, unit: str) -> None:
    print(
        f"{inputs} inputs\n\n| call | calls counted | {unit}, median | p99 | largest | its ms | its input |"
    )
    print("|---|--:|--:|--:|--:|--:|---|")
    for name, rows in sorted(measured.items()):
        rows.sort()
        worst = rows[-1]
        p99 = rows[min(len(rows) - 1, int(0.99 * len(rows)))][0]
        print(
            f"| {name} | {len(rows)} | {statistics.median(row[0] for row in rows):.1f} | {p99:.1f} | {worst[0]:.1f} "
            f"| {1e3 * worst[1]:.1f} | `{worst[2][:300]!r}` |"
        )


if __name__ == "__main__":
    main()
