"""Measure the cost of canvases: all masks of a canvas, commits one after another, and the published check.

    python -m bench.diffusion.masks [--lengths 32 64 128 256] [--runs 5] [--json FOLDER]

SMILES uses the vocabulary of rxnfp, in which each token is one terminal. JSON uses that of the small model in the test
data (``--json``), or bytes. Canvases start fully masked and are filled in a random order with random allowed tokens.
Figures are milliseconds, medians and 99th percentiles. For each length the report also shows the time in which a
reference (`proposals`) finds one allowed token by proposing tokens in a random order.

Results: docs/diffusion.md, "Masks of a canvas".
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
import time
from collections.abc import Sequence
from pathlib import Path

import structgen as sg
from bench.command import argument_parser
from structgen.diffusion import Canvas, Hole, load

from .json_tokens import JsonTokens
from .proposals import Proposals

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argument_parser("bench.diffusion.masks", __doc__)
    parser.add_argument("--lengths", type=int, nargs="+", default=[32, 64, 128, 256])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--json", type=Path, help="a folder with tokens.json; otherwise bytes")
    parser.add_argument(
        "--reference", type=int, default=20, help="tokens that the reference fills (20; 0: none)"
    )
    chosen = parser.parse_args(arguments)
    smiles = load("rxnfp").vocabulary
    if chosen.json is None:
        json = sg.Vocabulary.of_bytes()
    else:
        table = [None if token is None else token.encode() for token in JsonTokens.load(chosen.json).tokens]
        json = sg.Vocabulary.from_tokens(table, [1])
    print(
        "| grammar | cells | all masks | 99 % | commit | 99 % | mask and commit | reference, one token | times |"
    )
    print("|---|--:|--:|--:|--:|--:|--:|--:|--:|")
    for name, vocabulary in (("smiles", smiles), ("json", json)):
        for length in chosen.lengths:
            _row(name, vocabulary, length, chosen)


def _row(name: str, vocabulary: sg.Vocabulary, length: int, chosen: argparse.Namespace) -> None:
    grammar = sg.grammar(name)
    Canvas(grammar, vocabulary, [Hole(length)]).masks()  # what belongs to the vocabulary is made once
    masks, commits, both = [], [], []
    reference: list[float] = []
    ours: list[float] = []
    for run in range(chosen.runs):
        chance = random.Random(run)
        canvas = Canvas(grammar, vocabulary, [Hole(length)])
        before = time.perf_counter()
        canvas.masks()
        masks.append(time.perf_counter() - before)
        order = list(range(length))
        chance.shuffle(order)
        agreed = canvas.fork()
        for index, cell in enumerate(order):
            # All masks before each commit.
            before = time.perf_counter()
            allowed = canvas.allowed(cell)
            token = int(allowed[chance.randrange(len(allowed))])
            canvas.commit(cell, token)
            both.append(time.perf_counter() - before)
            # Commits without masks between them.
            before = time.perf_counter()
            assert agreed.commit(cell, token)
            commits.append(time.perf_counter() - before)
            if name == "smiles" and run == 0 and index < chosen.reference:
                ours.append(both[-1])
                reference.append(_proposed(vocabulary, canvas.tokens, cell, chance))
    beside = (
        f"{1000 * statistics.mean(reference):.0f} | {statistics.mean(reference) / statistics.mean(ours):.0f}"
        if reference
        else " | "
    )
    figures = [_ms(masks), _high(masks), _ms(commits), _high(commits), _ms(both)]
    print(f"| {name} | {length} | {' | '.join(figures)} | {beside} |", flush=True)


def _proposed(
    vocabulary: sg.Vocabulary, tokens: Sequence[int | None], cell: int, chance: random.Random
) -> float:
    """Seconds until a token in random order is found that can stand in the cell."""
    texts = [vocabulary.token_bytes(token) for token in range(vocabulary.size)]
    checker = Proposals([None if text is None else text.decode() for text in texts])
    cells = list(tokens)
    order = list(range(vocabulary.size))
    chance.shuffle(order)
    before = time.perf_counter()
    for token in order:
        cells[cell] = token
        if checker.completable(cells):
            break
    return time.perf_counter() - before


def _ms(values: Sequence[float]) -> str:
    return f"{1000 * statistics.median(values):.2f}"


def _high(values: Sequence[float]) -> str:
    return f"{1000 * sorted(values)[math.ceil(0.99 * len(values)) - 1]:.2f}"


if __name__ == "__main__":
    main()
