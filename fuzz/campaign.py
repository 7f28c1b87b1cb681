"""A run on one target: draw an input, give it to a worker, keep it if it led to something new, reduce findings.

Invariant: the seed and the corpus determine the inputs (except for time limits). Every type of finding is reported
once, with the smallest input. The files are complete whenever the run is stopped.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path

from .corpus import Corpus, Figures, Finding
from .minimizing import smallest
from .mutation import mutated
from .process import Limits, Outcome, Worker
from .seeds import seeds
from .writing import written

__all__ = ["run"]

_SAY_EVERY = 60.0
_FRESH = 0.2
"""How often an input is written from nothing."""


def run(
    target: str, folder: Path, *, seconds: float, seed: int, limits: Limits, say: Callable[[str], None]
) -> tuple[Figures, list[Finding]]:
    """Fuzz a target for that long. Gives the figures of this run and the findings of all runs on the folder."""
    corpus = Corpus(folder, target)
    rng = random.Random(f"{target} {seed}")
    worker = Worker(target, limits)
    figures = Figures()
    # One finding of a kind is enough, but a fixed one must not hide others of its kind.
    reported = {old.kind for old in corpus.findings() if worker.meet(old.text).kind == old.kind}
    seen: set[str] = set()
    known: dict[bool, list[str]] = {True: [], False: []}  # by whether they were fine
    first = [*seeds(target), *corpus.inputs()]
    began = time.monotonic()
    said = began
    try:
        while (now := time.monotonic()) - began < seconds:
            starting = bool(first)
            text = first.pop() if starting else _next(target, known, rng)
            outcome = worker.meet(text)
            _count(figures, outcome)
            if outcome.done == "finding":
                if outcome.kind not in reported:
                    reported.add(outcome.kind)
                    say(f"finding: {outcome.kind}")
                    corpus.report(Finding(outcome.kind, text, text, outcome.detail, seed))
                    small = smallest(text, _shows(worker, outcome.kind))
                    again = worker.meet(small)
                    corpus.report(Finding(outcome.kind, small, text, again.detail or outcome.detail, seed))
                    say(f"  {small!r:.200}")
            elif starting or not seen.issuperset(outcome.features):
                known[outcome.done == "fine"].append(text)
                if not starting:
                    corpus.keep(text)
            seen.update(outcome.features)
            if now - said > _SAY_EVERY:
                said = now
                kept = sum(map(len, known.values()))
                say(f"{now - began:6.0f} s  {figures.inputs} inputs, {kept} kept, {len(seen)} features")
    finally:
        figures.seconds = time.monotonic() - began
        figures.features, figures.peak_mib = len(seen), worker.peak >> 20
        worker.close()
        corpus.write(_sum(corpus.figures(), figures))
    return figures, corpus.findings()


def _next(target: str, known: dict[bool, list[str]], rng: random.Random) -> str:
    """Mostly near an input that was fine: what is near a refused one is refused, too, as a rule."""
    parents = known[rng.random() < 0.8] or known[True] or known[False]
    if target not in ("core", "served") and (not parents or rng.random() < _FRESH):
        return written(target, rng)
    return mutated(target, parents[-200:] if rng.random() < 0.3 else parents, rng)


def _shows(worker: Worker, kind: str) -> Callable[[str], bool]:
    return lambda text: worker.meet(text).kind == kind


def _count(figures: Figures, outcome: Outcome) -> None:
    figures.inputs += 1
    figures.slowest = max(figures.slowest, outcome.seconds)
    match outcome.done:
        case "fine":
            figures.fine += 1
        case "refused":
            figures.refused += 1
            name = outcome.features[0].partition(":")[0] if outcome.features else ""
            figures.kinds[name] = figures.kinds.get(name, 0) + 1
        case "slow judge":
            figures.slow_judge += 1
        case _:
            figures.findings += 1


def _sum(earlier: Figures, latest: Figures) -> Figures:
    kinds = {
        name: earlier.kinds.get(name, 0) + latest.kinds.get(name, 0)
        for name in {**earlier.kinds, **latest.kinds}
    }
    return Figures(
        inputs=earlier.inputs + latest.inputs,
        seconds=earlier.seconds + latest.seconds,
        fine=earlier.fine + latest.fine,
        refused=earlier.refused + latest.refused,
        slow_judge=earlier.slow_judge + latest.slow_judge,
        findings=earlier.findings + latest.findings,
        features=max(earlier.features, latest.features),
        slowest=max(earlier.slowest, latest.slowest),
        peak_mib=max(earlier.peak_mib, latest.peak_mib),
        kinds=kinds,
    )
