"""Measure how much hostile constraints delay a server's compiler: the masks of others, and new harmless constraints.

    python -m bench.isolation [--seconds 20] [--workers 3]

One thread computes masks for a batch of matchers, like a step of an inference engine, and another compiles new harmless
schemas, both over the embedded model's vocabulary. They run first alone. Then a third thread sends constraints that are
slow to read, to build or to mask. Each is new, and is sent as soon as the one before has a reply.

The report shows the times of a step and of a new schema in both phases: median, 99th percentile and maximum, and how
much longer the slowest took. Run this on an idle machine, because its noise is in both phases. `bench.server_hostile`
measures the same through HTTP.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bench.command import argument_parser
from bench.tokenizers import embedded_vocabulary
from structgen.errors import StructgenError
from structgen.generation.distributions import allowed_ids
from structgen.serving.compiler import ConstraintCompiler
from structgen.serving.requests import Kind
from structgen.serving.sequence import ConstrainedSequence, fill_rows

_MATCHERS = 16
_HARMLESS: dict[str, dict[str, Any]] = json.loads(
    (Path(__file__).resolve().parent / "data" / "isolation" / "harmless.json").read_text("utf-8")
)
_HOSTILE: tuple[Callable[[int], tuple[Kind, Any]], ...] = (
    lambda i: ("grammar", "start: a+\na: " + " | ".join(f'"{i}{k}" a?' for k in range(3_000))),
    lambda i: ("grammar", "start: a+\na: " + " | ".join(f'"{i}{k}" a?' for k in range(20_000))),
    lambda i: ("choice", [f"{i}-{k}" * 3 for k in range(50_000)]),
    lambda i: ("json", {"properties": {f"{i}{k}": {"type": "integer"} for k in range(9_500)}}),
    lambda i: ("json", {"oneOf": [{"properties": {f"{i}{k}": {"type": "integer"}}} for k in range(2_000)]}),
    lambda i: (
        "json",
        {"allOf": [{"not": {"properties": {f"{i}{k}": {"type": "null"}}}} for k in range(300)]},
    ),
    lambda i: ("regex", f"(?=.*a{{100}})(?=.*b{{100}}).{{1000}}{i}"),
    lambda i: ("regex", f"((a|ab|ba|b){{50,90}}|(b|ba|aab){{50,90}}){{3}}{i}"),
    lambda i: ("grammar", f'root ::= e "{i}"\ne ::= e e | "a" e | e "b" | "a" | "ab" | "(" e ")"'),
    lambda i: ("json", {"enum": [[k, str(i), {"a": k}] for k in range(9_000)]}),
)


def main() -> None:
    parser = argument_parser("bench.isolation", __doc__)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--workers", type=int, default=3)
    options = parser.parse_args()
    vocabulary = embedded_vocabulary()
    with ConstraintCompiler(vocabulary, workers=options.workers) as compiler:
        for i in range(20):
            compiler.compile("json", harmless(i))
        time.sleep(2.0)  # until all processes have started
        alone = _measured(compiler, options.seconds, hostile=False, salt=1)
        beside = _measured(compiler, options.seconds, hostile=True, salt=2)
        print(f"{'':45}{'median':>10}{'99 %':>10}{'slowest':>10}  ms")
        for index, name in enumerate(("a step of 16 masks", "a new harmless schema")):
            for phase, times in (("alone", alone.times[index]), ("with hostile specs", beside.times[index])):
                print(f"{f'{name}, {phase}':45}" + "".join(f"{1e3 * q:10.2f}" for q in _quantiles(times)))
            longer = max(beside.times[index]) - max(alone.times[index])
            print(f"{'':10}the slowest took {1e3 * longer:.1f} ms longer")
        stats = compiler.stats
        print(
            f"{beside.answered} hostile specs: {stats.refused} refused ({stats.timed_out} for time), {stats.slow} with "
            f"engines of their own, {stats.preempted} set aside; {stats.worker_starts} processes started"
        )


class _Run(NamedTuple):
    times: tuple[list[float], list[float]]
    """Seconds of each step, and of each new schema."""
    answered: int
    """Number of hostile constraints with a reply."""


def _quantiles(times: list[float]) -> tuple[float, float, float]:
    ordered = sorted(times)
    return ordered[len(ordered) // 2], ordered[int(len(ordered) * 0.99)], ordered[-1]


def harmless(salt: int) -> dict[str, Any]:
    """Return a small schema that differs for each `salt`."""
    schema: dict[str, Any] = json.loads(json.dumps(_HARMLESS["short"]).replace("SALT", str(salt)))
    schema["properties"]["age"]["maximum"] += salt
    return schema


def harmless_long(salt: int) -> dict[str, Any]:
    """Return a schema whose texts are long; it differs for each `salt`."""
    schema = _HARMLESS["long"]
    return {**schema, "items": {**schema["items"], "minimum": salt}}


def _measured(compiler: ConstraintCompiler, seconds: float, *, hostile: bool, salt: int) -> _Run:
    steps: list[float] = []
    compiles: list[float] = []
    answered = [0]
    end = time.monotonic() + seconds

    def stepping() -> None:
        draw = random.Random(salt)
        sequences = [
            ConstrainedSequence(compiler.compile("json", harmless(i)).open()) for i in range(_MATCHERS)
        ]
        out = np.zeros((_MATCHERS, compiler.vocabulary.words), np.int32)
        while time.monotonic() < end:
            begin = time.perf_counter()
            fill_rows(sequences, out, 1)
            steps.append(time.perf_counter() - begin)
            for row, sequence in enumerate(sequences):
                allowed = allowed_ids(out[row], compiler.vocabulary.size)
                sequence.advance(int(draw.choice(allowed)))
                if sequence.is_ended or len(sequence.matcher.tokens) > 60:
                    sequence.reset()
            time.sleep(0.005)  # the time of a model's forward pass

    def compiling() -> None:
        i = 1_000_000 * salt
        while time.monotonic() < end:
            i += 1
            begin = time.perf_counter()
            compiler.compile("json", harmless(i))
            compiles.append(time.perf_counter() - begin)
            time.sleep(0.02)

    def attacking() -> None:
        i = 0
        while time.monotonic() < end:
            kind, spec = _HOSTILE[i % len(_HOSTILE)](i)
            i += 1
            try:
                matcher = compiler.compile(kind, spec).open()
                for _ in range(3):
                    matcher.mask()
            except StructgenError:
                pass
            answered[0] = i

    threads = [
        threading.Thread(target=run) for run in (stepping, compiling, *([attacking] if hostile else []))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return _Run((steps, compiles), answered[0])


if __name__ == "__main__":
    main()
