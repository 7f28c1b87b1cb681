"""Draws from the conditional distribution of a model given a constraint: exact samplers, particles, chains and beams.

`sample` draws a `Posterior` with one of the `samplers`: exact walks down a trie of bounds (`walks`, `bound_trie`),
sequential Monte Carlo (`particles`), Metropolis-Hastings (`metropolis_hastings`) or adaptive weighted rejection
(`token_estimators`). `beam` finds the most probable texts. `KnownDistributions` keeps what exact samplers have learned.
This package names no kind of constraint.
"""

from structgen.generation.potentials import Potential, potential

from .bound_trie import BoundTrie
from .known_distributions import KnownDistributions
from .most_probable import beam
from .posterior import Posterior
from .samplers import AWRS, MH, SMC, AdaptiveRejection, ASAp, Exact, LocalMasking, Rejection
from .sampling import sample, sample_async

__all__ = [
    "AWRS",
    "MH",
    "SMC",
    "ASAp",
    "AdaptiveRejection",
    "BoundTrie",
    "Exact",
    "KnownDistributions",
    "LocalMasking",
    "Posterior",
    "Potential",
    "Rejection",
    "beam",
    "potential",
    "sample",
    "sample_async",
]
