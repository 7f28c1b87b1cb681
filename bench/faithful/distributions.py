"""The exact conditional distribution of a small language under a model, and a model that replays recorded outputs.

Every prefix of the language is read once, level by level. The probability of a text is the sum over all its
tokenisations. The model's outputs are recorded, so samplers run over the model's own distributions at no cost. They
need no other prefixes, because a walk ends with its first refused token.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from structgen.constraints.base import Constraint
from structgen.generation.distributions import next_ids
from structgen.inference.prefixes import Prefix, PrefixBatch
from structgen.matcher import Matcher
from structgen.models.memory import DistributionModel

__all__ = ["Exact", "enumerated"]

_MOST = 4_000
"""Prefixes; each is a distribution over the whole vocabulary."""
_BATCH = 64


@dataclass
class Exact:
    """A language under a model, enumerated."""

    texts: dict[str, float]
    """The conditional distribution."""
    mass: float
    """The distribution of the whole language under the model."""
    model: DistributionModel
    """Replays the recorded outputs of the model, at temperature 1."""


def enumerated(model: Any, prompt: Any, constraint: Constraint, max_tokens: int) -> Exact:
    """Reads every prefix of the language's texts of at most so many tokens."""
    ids = model.encode(prompt)
    start = Matcher(constraint, model.vocabulary)
    distributions: dict[Prefix, np.ndarray[Any, Any]] = {}
    masses: dict[str, float] = {}
    level: list[tuple[Prefix, Matcher, float]] = [((), start, 0.0)]
    while level:
        following: list[tuple[Prefix, Matcher, float]] = []
        for at in range(0, len(level), _BATCH):
            some = level[at : at + _BATCH]
            read = _read(model, ids, [prefix for prefix, _, _ in some])
            for prefix, matcher, log_prob in some:
                log_p = read[prefix]
                distributions[prefix] = log_p
                if len(distributions) > _MOST:
                    raise ValueError(f"the language has more than {_MOST} prefixes")
                for token in next_ids(matcher, at_cap=len(prefix) >= max_tokens).tolist():
                    extended = log_prob + float(log_p[token])
                    if token in model.vocabulary.eos_ids:
                        text = matcher.text.decode()
                        masses[text] = masses.get(text, 0.0) + math.exp(extended)
                        continue
                    fork = matcher.fork()
                    fork.advance(token)
                    following.append(((*prefix, token), fork, extended))
        level = following
    whole = sum(masses.values())
    return Exact(
        {text: mass / whole for text, mass in sorted(masses.items())},
        whole,
        DistributionModel(model.vocabulary, lambda tokens: np.exp(distributions[tokens], dtype=np.float64)),
    )


def _read(model: Any, prompt: list[int], prefixes: list[Prefix]) -> dict[Prefix, np.ndarray[Any, Any]]:
    batch = PrefixBatch(model, prompt)
    return {prefix: distribution.log_p for prefix, distribution in batch.read(prefixes).items()}
