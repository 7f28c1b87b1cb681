"""Measure what samplers cost in addition to the model: steps of SMC and a free batch, checks of AWRS, walks of CARS.

    python -m bench.faithful.speed [--particles 16] [--tokens 48] [--runs 3]

The free batch and the particles read the same number of rows in each pass. Runs alternate, so that both meet the same
load of the machine. AWRS checks random tokens, of which a given share is refused. CARS draws one record many times; its
steps include those without a call of the model, and its time excludes the model's own.

Results: docs/performance.md, "Exact sampling, without the model".
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

import structgen as sg
from bench.command import argument_parser
from structgen.errors import LimitExceeded
from structgen.generation import SamplingOptions
from structgen.generation.loop import generate_tokens
from structgen.generation.random_streams import UniformRows, uniform_stream
from structgen.inference.bound_trie import BoundTrie
from structgen.inference.prefixes import PrefixReader
from structgen.inference.token_estimators import draw_checked
from structgen.inference.walks import Walks

__all__ = ["main"]

PROMPT = "Describe the crew of a ship as JSON."
RECORD = sg.json_schema(
    {
        "type": "array",
        "items": {
            "type": "object",
            "properties": {"name": {"type": "string", "maxLength": 20}, "age": {"type": "integer"}},
            "required": ["name", "age"],
        },
        "minItems": 8,
    }
)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argument_parser("bench.faithful.speed", __doc__)
    parser.add_argument("--particles", type=int, default=16)
    parser.add_argument("--tokens", type=int, default=48)
    parser.add_argument("--runs", type=int, default=3)
    chosen = parser.parse_args(arguments)
    model = sg.load()
    _smc(model, chosen.particles, chosen.tokens, chosen.runs)
    _awrs(model)
    _cars(model)


def _smc(model: Any, particles: int, tokens: int, runs: int) -> None:
    free, steered = [], []
    for run in range(runs + 1):
        started = time.perf_counter()
        options = SamplingOptions(max_tokens=tokens, seed=run)
        made = generate_tokens(model, [model.encode(PROMPT)] * particles, [None] * particles, options)
        steps = max(len(generation.tokens) for generation in made)
        first = (time.perf_counter() - started) / steps
        before = time.perf_counter()
        try:
            posterior = sg.sample(
                model, PROMPT, RECORD, n=particles, sampler=sg.inference.SMC(particles), max_tokens=400, seed=run,
                max_calls=particles * tokens,
            )  # fmt: skip
            passes = posterior.account.passes
        except LimitExceeded:
            passes = tokens  # ended by the calls, which is what is timed
        second = (time.perf_counter() - before) / passes
        if run:
            free.append(first * 1e3)
            steered.append(second * 1e3)
    ratio = statistics.median(b / a for a, b in zip(free, steered, strict=True))
    print(
        f"SMC with {particles} particles: {statistics.median(steered):.0f} ms a step, a free batch of as many "
        f"{statistics.median(free):.0f} ms; ratio {ratio:.2f}",
        flush=True,
    )


def _awrs(model: Any) -> None:
    """Checks of single tokens, where about half of them or nearly all are refused."""
    for name, refused in (("about half", 2), ("nine of ten", 10), ("all but one of a hundred", 100)):
        reader = PrefixReader(model, model.encode(PROMPT))
        rng = np.random.default_rng(3)
        counts = []
        prefix: tuple[int, ...] = ()
        for step in range(40):
            log_p = reader.read({0: prefix})[0].log_p
            allowed = rng.random(len(log_p)) < 1 / refused
            drawn = draw_checked(log_p, partial(_is_allowed, allowed), uniform_stream((7,), step))
            counts.append(drawn.checks)
            if drawn.token is not None:
                prefix = (*prefix, drawn.token)
        print(
            f"AWRS, {name} refused: {statistics.median(counts):.0f} checks a token in the median", flush=True
        )


def _is_allowed(allowed: Any, token: int) -> bool:
    return bool(allowed[token])


def _cars(model: Any) -> None:
    """Walks under a language of 84 texts: those that come to a new prefix, and those that do not."""
    reader = PrefixReader(model, model.encode("In which month did the project start? Answer as YYYY-MM."))
    asked = _timed(reader, "read")
    walks = Walks(
        reader,
        sg.Matcher(sg.regex("20(1[89]|2[0-4])-(0[1-9]|1[0-2])"), model.vocabulary),
        BoundTrie(),
        "cars",
        max_tokens=8,
        uniforms=UniformRows((1,)),
    )
    masked = _timed(walks, "_allowed")
    steps = {True: 0, False: 0}  # by whether the walk called the model
    spent = {True: 0.0, False: 0.0}
    calls, before, model_before = 0, time.perf_counter(), 0.0
    end = before + 40
    for walk in walks.run(lambda: time.perf_counter() < end):
        now = time.perf_counter()
        is_new = reader.calls > calls
        spent[is_new] += now - before - (asked[0] - model_before)
        steps[is_new] += len(walk.tokens) + 1
        calls, before, model_before = reader.calls, now, asked[0]
    for is_new, name in (
        (False, "of known prefixes"),
        (True, "with new prefixes, their masks included"),
    ):
        micros = 1e6 * spent[is_new] / max(1, steps[is_new])
        print(f"CARS without the model, walks {name}: {micros:.0f} us a step ({steps[is_new]} steps)")
    print(f"Of the latter, masks: {1e6 * masked[0] / max(1, steps[True]):.0f} us a step")


def _timed(owner: Any, method: str) -> list[float]:
    """The seconds that go by in a method of `owner` from now on, as a list of one."""
    inner, spent = getattr(owner, method), [0.0]

    def timed(*arguments: Any) -> Any:
        before = time.perf_counter()
        try:
            return inner(*arguments)
        finally:
            spent[0] += time.perf_counter() - before

    setattr(owner, method, timed)
    return spent


if __name__ == "__main__":
    main()
