"""Measure the cost of a constraint in generation: the same model with and without one.

    python -m bench.generation [--runs N] [--tokens N] [--threads N]

Two generations from one prompt advance in turn, one under the constraint of a type and one free, so that each pair of
tokens meets the same load of the machine. The report shows the median wall time of a token (forward pass, mask, draw),
the ratio of both, and structgen's share. The bar is a ratio of at most 1.05.

Results: docs/performance.md, "Generation, with and without a constraint".
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence

from pydantic import BaseModel

import structgen as sg
from bench.command import argument_parser
from structgen.generation import SamplingOptions, Timing, generate_steps
from structgen.types import output_type

__all__ = ["main"]

PROMPTS = (
    "List three people with their names, ages and addresses.",
    "Describe the staff of a small bakery.",
    "Who works in the lighthouse? Name all of them.",
    "Invent the crew of a ship.",
)


class Address(BaseModel):
    street: str
    city: str


class Person(BaseModel):
    name: str
    age: int
    address: Address
    hobbies: list[str]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argument_parser("bench.generation", __doc__)
    parser.add_argument("--runs", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=80)
    parser.add_argument("--threads", type=int, default=2)
    chosen = parser.parse_args(arguments)
    model = sg.load(threads=chosen.threads)
    matcher = sg.Matcher(output_type(list[Person]).constraint, model.vocabulary)
    seconds: dict[str, list[float]] = {"constrained": [], "free": []}
    spent = Timing()
    tokens = 0
    for run in range(chosen.runs):
        prompt = model.encode(PROMPTS[run % len(PROMPTS)])
        options = SamplingOptions(seed=run, top_p=0.95, max_tokens=chosen.tokens, exact_weight=False)
        sides = {
            "constrained": generate_steps(model, [prompt], [matcher.fork()], options),
            "free": generate_steps(model, [prompt], [None], options),
        }
        for steps in sides.values():
            next(steps)  # the prompt
        alive = True
        while alive:
            # The order alternates, so that neither side always starts with the processor caches of the other.
            for side in reversed(sides) if len(seconds["free"]) % 2 else list(sides):
                before = time.perf_counter()
                progress = next(sides[side])
                seconds[side].append(time.perf_counter() - before)
                if progress.generation is not None:
                    alive = False
                    if side == "constrained":
                        spent.constraint += progress.generation.timing.constraint
                        spent.drawing += progress.generation.timing.drawing
                        tokens += len(progress.generation.tokens)
    both = min(map(len, seconds.values()))
    ours, free = (1e3 * statistics.median(seconds[side][:both]) for side in ("constrained", "free"))
    pairs = statistics.median(a / b for a, b in zip(seconds["constrained"], seconds["free"], strict=False))
    print(
        f"{both} pairs of tokens: constrained {ours:.2f} ms, free {free:.2f} ms in the median;"
        f" ratio of medians {ours / free:.3f}, median of ratios {pairs:.3f}"
    )
    if tokens:
        print(
            f"of a constrained token: masks and matcher {1e3 * spent.constraint / tokens:.3f} ms,"
            f" softmax and draw {1e3 * spent.drawing / tokens:.3f} ms"
        )


if __name__ == "__main__":
    main()
