"""Measure molecules that masked models of reactions (from PyPI) write from noise and around a given part.

    python -m bench.diffusion.molecules [--models rxnfp rxnmapper] [--count 100] [--pairs 10]

Mode "free" follows the model alone; "grammar" uses a canvas of the SMILES grammar; "monitor" also queries RDKit (ring
bonds, valences, aromatic rings). The report counts the molecules that our grammar reads, and the valid ones, which
RDKit reads. The overhead is the time of a filling relative to the free one, at temperature 0, as the median of pairs.

Results: docs/diffusion.md, "Molecules".
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import structgen as sg
from bench.command import argument_parser
from bench.monitors.tables import wilson
from structgen.diffusion import Canvas, Hole, Molecules, fill, load
from structgen.progress import ProgressBar

from .free import Pair, fill_freely, timed_pair

__all__ = ["main"]

_PARTS = ("c1ccccc1", "C(=O)O", "C1CCNCC1", "C(=O)N", "c1ccncc1", "S(=O)(=O)")
Mode = Callable[[Canvas, int], str]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argument_parser("bench.diffusion.molecules", __doc__)
    parser.add_argument("--models", nargs="+", default=["rxnfp", "rxnmapper"])
    parser.add_argument("--count", type=int, default=100, help="molecules of each mode (100)")
    parser.add_argument("--pairs", type=int, default=10, help="pairs of timed fillings (10)")
    parser.add_argument("--lengths", type=int, nargs="+", default=[16, 24, 32])
    parser.add_argument("--decodes", type=int, default=0, help="short decodes; every one must succeed (0)")
    parser.add_argument("--threads", type=int, default=1)
    chosen = parser.parse_args(arguments)
    for name in chosen.models:
        model = load(name, threads=chosen.threads)
        if chosen.count:
            _validity(name, model, chosen)
        if chosen.pairs:
            _overhead(name, model, chosen)
        if chosen.decodes:
            _decodes(name, model, chosen)


def _canvases(model: Any, chosen: argparse.Namespace) -> Iterator[tuple[str, Canvas]]:
    """From noise, and with a part of a molecule somewhere."""
    smiles = sg.grammar("smiles")
    chance = random.Random(0)
    for number in range(chosen.count):
        length = chosen.lengths[number % len(chosen.lengths)]
        yield "noise", Canvas(smiles, model.vocabulary, [Hole(length)])
        before = chance.randrange(2, length - 2)
        part = chance.choice(_PARTS)
        yield "part", Canvas(smiles, model.vocabulary, [Hole(before), part, Hole(length - before)])


def _validity(name: str, model: Any, chosen: argparse.Namespace) -> None:
    monitor = Molecules(model.vocabulary)
    grammar = sg.Matcher(sg.grammar("smiles"), sg.Vocabulary.of_bytes())

    def free(canvas: Canvas, seed: int) -> str:
        tokens, _ = fill_freely(model, canvas.tokens, temperature=1.0, seed=seed)
        return b"".join(model.vocabulary.token_bytes(token) or b"" for token in tokens).decode()

    modes: dict[str, Mode] = {
        "free": free,
        "grammar": lambda canvas, seed: fill(model, canvas, temperature=1.0, seed=seed).text,
        "monitor": lambda canvas, seed: fill(model, canvas, temperature=1.0, seed=seed, monitor=monitor).text,
    }
    counts: dict[tuple[str, str], list[tuple[bool, bool]]] = {}
    canvases = list(_canvases(model, chosen))
    with ProgressBar(len(canvases) * len(modes), name, True) as bar:
        for seed, (kind, canvas) in enumerate(canvases):
            for mode, filled in modes.items():
                text = filled(canvas, seed)
                counts.setdefault((kind, mode), []).append((grammar.explain(text).ok, _is_valid(text)))
                bar.advance()
    print(f"\n{name}, temperature 1\n")
    print("| from | mode | molecules | read by the grammar | valid (RDKit) | 95 % |")
    print("|---|---|--:|--:|--:|---|")
    for (kind, mode), results in counts.items():
        valid = sum(valid for _, valid in results)
        low, high = wilson(valid, len(results))
        print(
            f"| {kind} | {mode} | {len(results)} | {sum(read for read, _ in results) / len(results):.3f} | "
            f"{valid / len(results):.3f} | {low:.3f}–{high:.3f} |"
        )


def _is_valid(text: str) -> bool:
    from rdkit import Chem

    return Chem.MolFromSmiles(text) is not None and bool(text)


def _overhead(name: str, model: Any, chosen: argparse.Namespace) -> None:
    print(f"\n{name}, temperature 0, milliseconds\n")
    print("| cells | tokens a step | free | grammar | times | FreeDave: steps | times | same tokens |")
    print("|--:|--:|--:|--:|--:|--:|--:|---|")
    for length in chosen.lengths:
        for count in (1, 4):
            pairs: list[Pair] = []
            drafted, steps, same = [], [], True
            for number in range(chosen.pairs):
                middle = _PARTS[number % len(_PARTS)]
                pieces: list[Any] = [Hole(length // 2), middle, Hole(length - length // 2)]
                canvas = Canvas(sg.grammar("smiles"), model.vocabulary, pieces)
                pair = timed_pair(model, canvas, count)
                pairs.append(pair)
                if count == 1:
                    started = time.perf_counter()
                    quick = fill(model, canvas, draft=4)
                    drafted.append((time.perf_counter() - started) / pair.constrained)
                    steps.append(quick.steps / pair.filling.steps)
                    same &= quick.tokens == pair.filling.tokens
            row = [length, count]
            row += [
                f"{1e3 * statistics.median(seconds):.1f}"
                for seconds in zip(*((p.free, p.constrained) for p in pairs), strict=True)
            ]
            row.append(f"{statistics.median(p.constrained / p.free for p in pairs):.2f}")
            row += (
                [f"{statistics.mean(steps):.2f}", f"{statistics.median(drafted):.2f}", same]
                if steps
                else ["", "", ""]
            )
            print("| " + " | ".join(map(str, row)) + " |", flush=True)


def _decodes(name: str, model: Any, chosen: argparse.Namespace) -> None:
    """Short molecules at high temperature, four tokens a step, each read again by RDKit's grammar."""
    grammar = sg.Matcher(sg.grammar("smiles"), sg.Vocabulary.of_bytes())
    chance = random.Random(1)
    failed = 0
    with ProgressBar(chosen.decodes, f"{name}: decodes", True) as bar:
        for seed in range(chosen.decodes):
            pieces: list[Any] = [Hole(chance.randrange(3, 9))]
            if chance.random() < 0.5:
                pieces += [chance.choice(_PARTS), Hole(chance.randrange(1, 7))]
            canvas = Canvas(sg.grammar("smiles"), model.vocabulary, pieces)
            schedule = chance.choice(["confidence", "margin", "entropy", "random", "left-to-right"])
            filled = fill(model, canvas, temperature=1.5, seed=seed, tokens_per_step=4, schedule=schedule)
            failed += not (grammar.explain(filled.text).ok and not filled.canvas.open_cells)
            bar.advance()
    print(f"\n{name}: {chosen.decodes} decodes, {failed} that did not come to a text of the grammar")


if __name__ == "__main__":
    main()
