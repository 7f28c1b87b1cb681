"""The distance between a sampler's draws and the exact distribution, as a function of model calls.

The draws so far and their weights form a distribution. Its total variation distance and its Kullback-Leibler divergence
to the exact distribution fall with the number of draws for every faithful sampler, and stop at the bias of a biased
one. Figures are means over several seeds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import structgen as sg
from structgen.generation.potentials import Condition
from structgen.inference.drawing import Limits, Task, draw
from structgen.inference.samplers import Sampler
from structgen.matcher import Matcher

from .distributions import Exact

__all__ = ["SAMPLERS", "Curve", "curve"]

SAMPLERS: dict[str, tuple[Sampler, bool]] = {
    "masking, unweighted": (sg.inference.LocalMasking(parallel=1), False),
    "masking, weighted": (sg.inference.LocalMasking(parallel=1), True),
    "rejection": (sg.inference.Rejection(parallel=1), True),
    "adaptive rejection": (sg.inference.AdaptiveRejection(parallel=1), True),
    "CARS": (sg.inference.Exact(parallel=1), True),
    "ASAp, unweighted": (sg.inference.ASAp(parallel=1), False),
    "ASAp, weighted": (sg.inference.ASAp(parallel=1), True),
    "SMC, 16 particles": (sg.inference.SMC(16), True),
    "SMC, 16 particles of ASAp": (sg.inference.SMC(16, proposal=sg.inference.ASAp()), True),
    "MH, restart, 5 proposals": (sg.inference.MH(5, cut="restart", parallel=1), True),
}
"""Each with whether its weights are used."""


_ATTEMPTS = 5
"""Walks for each call: a sampler that knows all it comes to asks no more."""


@dataclass
class Curve:
    """The figures of one sampler on one language."""

    calls: list[int]
    total_variation: list[float] = field(default_factory=list)
    divergence: list[float] = field(default_factory=list)
    draws: list[float] = field(default_factory=list)
    """Mean number of draws by then."""


def curve(
    exact: Exact, constraint: Any, max_tokens: int, name: str, calls: list[int], seeds: int = 8
) -> Curve:
    """The distances after so many calls each; not a number where nothing had been drawn yet."""
    sampler, weighted = SAMPLERS[name]
    curve = Curve(calls)
    runs = [_drawn(exact, constraint, max_tokens, sampler, calls[-1], seed) for seed in range(seeds)]
    for limit in calls:
        distances = []
        counts = []
        for run in runs:
            some = [draw for spent, draw in run if spent <= limit]
            counts.append(len(some))
            distances.append(_distances(some, exact, weighted))
        curve.draws.append(float(np.mean(counts)))
        curve.total_variation.append(_mean([pair[0] for pair in distances]))
        curve.divergence.append(_mean([pair[1] for pair in distances]))
    return curve


def _mean(values: list[float]) -> float:
    return math.nan if any(map(math.isnan, values)) else float(np.mean(values))


def _drawn(
    exact: Exact, constraint: Any, max_tokens: int, sampler: Sampler, calls: int, seed: int
) -> list[tuple[int, tuple[str, float]]]:
    """Draws with the calls that had been made by then."""
    model = exact.model
    task = Task(
        model,
        model.encode(""),
        Matcher(constraint, model.vocabulary),
        Condition(),
        1.0,
        max_tokens,
        (seed, 0),
        Limits(max_calls=calls, max_attempts=_ATTEMPTS * calls),
    )
    drawn = draw(task, _ATTEMPTS * calls, sampler)
    return [(task.account.calls, (model.decode(text.tokens), text.log_weight)) for text in drawn]


def _distances(draws: list[tuple[str, float]], exact: Exact, weighted: bool) -> tuple[float, float]:
    """Total variation, and the divergence of the draws' distribution from the exact one, in nats."""
    if not draws:
        return math.nan, math.nan
    logs = np.array([weight if weighted else 0.0 for _, weight in draws])
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    distribution: dict[str, float] = {}
    for (text, _), weight in zip(draws, weights, strict=True):
        distribution[text] = distribution.get(text, 0.0) + float(weight)
    variation = 0.5 * sum(abs(distribution.get(text, 0.0) - q) for text, q in exact.texts.items())
    divergence = sum(p * math.log(p / exact.texts[text]) for text, p in distribution.items() if p > 0)
    return variation, max(0.0, divergence)
