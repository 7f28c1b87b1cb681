"""Measure what a learned drafter gains by learning while it serves: acceptance, over a stream of requests.

    python -m bench.speculation.online [--streams NAME ...] [--requests N] [--block N] [--tokens N] [--length N]
        [--every N] [--steps N] [--learning-rate F] [--drafter FILE] [--dtype float32|bfloat16]

Each stream has requests of a kind that the drafter was not trained on. An `OnlineDrafter` answers them greedily and
alone. The first and the last block of them are also answered by the drafter as it was. Each step drafts a sequence of
``--length`` tokens. Acceptance is the share of draft tokens that are right, of those that follow right ones. The
drafter learns from a text after its acceptance is counted. The interval of the gain is a 95 % bootstrap over the
requests of a block. Times are not measured.

sql          queries under the grammar of the shelf, on tables that change
spanish      short free texts in Spanish

Results: docs/learned-drafts.md, "Measured".
Source: Liu et al. 2024 (Online Speculative Decoding).
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import structgen as sg
from bench.command import argument_parser
from structgen.draft_training.online import OnlineDrafter
from structgen.generation import SamplingOptions, generate_tokens
from structgen.speculative import Drafter, Fixed, Speculation
from structgen.speculative.learned import load_drafter

from ..records import progress

__all__ = ["STREAMS", "main"]

Asked = tuple[str, sg.Constraint | None]

_SHIPPED = (
    Path(sg.__file__).parent / "speculative" / "learned" / "shipped" / "smollm2-135m-instruct.safetensors"
)

_TABLES = {
    "customers": ("id", "name", "email", "city", "country", "joined"),
    "products": ("id", "title", "price", "stock", "category", "rating"),
    "employees": ("id", "name", "salary", "department", "hired", "manager_id"),
    "flights": ("id", "origin", "destination", "departure", "price", "seats"),
    "books": ("id", "title", "author", "year", "pages", "publisher"),
    "patients": ("id", "name", "age", "diagnosis", "doctor", "admitted"),
}
_QUESTIONS = (
    "Show the {0} and {1} of all {table}.",
    "Which {table} have the highest {0}?",
    "Count the {table} for each {0}.",
    "Show the five {table} with the lowest {0}, with their {1}.",
    "What is the average {0} for each {1} of the {table}?",
    "List the {0} of the {table} whose {1} is known, in order of {2}.",
    "Which {table} have no {0}?",
    "Show the {0}, {1} and {2} of the {table}, the newest first.",
)
_ASKS = (
    "Escribe un párrafo corto sobre {}.",
    "¿Qué es {}? Responde en español.",
    "Explica en español por qué es importante {}.",
    "Describe {} para un niño, en español.",
    "Escribe tres frases en español sobre {}.",
    "¿Qué opinas de {}? Responde en español.",
    "Cuéntame una historia breve sobre {}, en español.",
    "Da tres consejos en español sobre {}.",
)
_THINGS = (
    "el mar", "la montaña", "la música", "el fútbol", "la cocina", "el invierno", "la escuela", "el trabajo",
    "la familia", "el tren", "la ciudad", "el campo", "la lluvia", "el café", "la biblioteca", "el teatro",
    "la historia", "el arte", "la ciencia", "el agua", "la luna", "el sol", "la salud", "el viaje",
    "la amistad", "el mercado", "la playa", "el bosque", "la lengua", "el dinero", "la casa", "el jardín",
    "la medicina", "el tiempo", "la paz", "el pan", "la fotografía", "el cine", "la pintura", "el río",
    "la universidad", "el perro", "la bicicleta", "el desierto", "la noche",
)  # fmt: skip


def _sql(count: int, seed: int) -> list[Asked]:
    rng = random.Random(seed)
    found: dict[str, Asked] = {}
    while len(found) < count:
        table, columns = rng.choice(sorted(_TABLES.items()))
        question = rng.choice(_QUESTIONS).format(*rng.sample(columns, 3), table=table)
        query = sg.grammar(
            "sql",
            start="select",
            tables=[table],
            columns=list(columns),
            functions=["count", "max", "min", "sum", "avg"],
        )
        prompt = f"Tables: {table}({', '.join(columns)})\nWrite one SQL query: {question}"
        found[prompt] = prompt, query  # a repeated request would be answered from memory
    return list(found.values())


def _spanish(count: int, seed: int) -> list[Asked]:
    asked = [ask.format(thing) for ask in _ASKS for thing in _THINGS]
    random.Random(seed).shuffle(asked)
    return [(text, None) for text in asked[:count]]


STREAMS: dict[str, Callable[[int, int], list[Asked]]] = {"sql": _sql, "spanish": _spanish}
"""From a number of requests and a seed to the requests of a stream: prompts, and their constraints."""


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argument_parser("bench.speculation.online", __doc__)
    parser.add_argument("--streams", nargs="+", default=list(STREAMS), choices=list(STREAMS))
    parser.add_argument("--requests", type=int, default=360, help="at most 360 (360)")
    parser.add_argument("--block", type=int, default=60, help="requests of a line of the report (60)")
    parser.add_argument("--tokens", type=int, default=48, help="the most tokens of an answer (48)")
    parser.add_argument("--length", type=int, default=3, help="draft tokens at each step (3)")
    parser.add_argument("--every", type=int, default=16, help="of OnlineDrafter")
    parser.add_argument("--steps", type=int, default=8, help="of OnlineDrafter")
    parser.add_argument("--learning-rate", type=float, default=3e-4, help="of OnlineDrafter")
    parser.add_argument(
        "--drafter", type=Path, default=_SHIPPED, help="weights (those of the embedded model)"
    )
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16"])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args(arguments)
    if not 2 <= 2 * chosen.block <= chosen.requests <= 360:
        parser.error("--requests is at most 360, and --block at most half of them")
    model = sg.load(threads=chosen.threads, dtype=chosen.dtype)
    for stream in chosen.streams:
        asked = STREAMS[stream](chosen.requests, chosen.seed)
        fixed = load_drafter(chosen.drafter, model, least=0.0)
        learning = OnlineDrafter(
            load_drafter(chosen.drafter, model, least=0.0),
            every=chosen.every,
            steps=chosen.steps,
            learning_rate=chosen.learning_rate,
            background=False,  # what a request finds depends on the requests before it only
        )
        sides = [_Side(fixed, chosen), _Side(learning, chosen)]
        print(
            f"\n{stream}\n\n| requests | as it is | learning | gain | 95 % interval |\n|---|--:|--:|--:|--:|"
        )
        counts: list[NDArray[np.int64]] = []
        for number, request in enumerate(progress(asked, stream), 1):
            if chosen.block < number <= chosen.requests - chosen.block:
                sides[1].answer(model, request)
                continue
            counts.append(np.array([side.answer(model, request) for side in sides]))
            if len(counts) == chosen.block:
                print(_line(f"{number - len(counts) + 1} to {number}", np.array(counts)), flush=True)
                counts = []
        print(f"\n{learning.updates} updates of {chosen.steps} steps")


class _Side:
    """One of the drafters, which answers the requests."""

    def __init__(self, drafter: Drafter, chosen: argparse.Namespace) -> None:
        self._speculation = Speculation(
            [drafter], controller=Fixed(chosen.length), branching=False, depth=chosen.length
        )
        self._options = SamplingOptions(temperature=0, max_tokens=chosen.tokens, exact_weight=False)

    def answer(self, model: Any, request: Asked) -> tuple[int, int]:
        """Answer a request; return how many draft tokens were right, and how many followed right ones."""
        prompt, constraint = request
        speculation = self._speculation
        speculation.reached.clear()
        speculation.right.clear()
        matcher = None if constraint is None else sg.Matcher(constraint, model.vocabulary)
        generate_tokens(
            model, [model.encode(prompt)], [matcher], self._options, drafting=speculation.start(model)
        )
        return speculation.right.total(), speculation.reached.total()


def _line(requests: str, counts: NDArray[np.int64], draws: int = 2000) -> str:
    """Return a line of the report, from the counts ``[requests, sides, (right, reached)]``."""
    drawn = np.random.default_rng(0).integers(0, len(counts), (draws, len(counts)))
    sums = np.concatenate([counts.sum(0, keepdims=True), counts[drawn].sum(1)])
    shares = sums[..., 0] / np.maximum(1, sums[..., 1])
    gains = shares[:, 1] - shares[:, 0]
    low, high = np.quantile(gains[1:], [0.025, 0.975])
    fixed, learning = shares[0]
    return f"| {requests} | {fixed:.3f} | {learning:.3f} | {gains[0]:+.3f} | {low:+.3f} to {high:+.3f} |"


if __name__ == "__main__":
    main()
