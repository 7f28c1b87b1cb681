"""What may be chosen about how text is drawn: one frozen record.

Why: every surface (prompt functions, `run`, the command line, servers) takes the same names with the same
meaning and the same checks.
Invariant: options that exist are valid; a bad value is an `OptionError` that names the option.

The law of one step, in order: the constraint's mask, then temperature, then top-k, top-p and min-p, each on
the renormalised law that the one before left. (Top-p before the mask could remove every legal token.)
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from structgen.errors import OptionError

__all__ = ["OPTION_NAMES", "SamplingOptions", "make_options", "row_seed", "uniform_stream"]

Seed = int | Sequence[int]


@dataclass(frozen=True)
class SamplingOptions:
    """How tokens are drawn, and when drawing stops."""

    temperature: float | None = None
    """0 is greedy. None means 1 if any of `seed`, `top_k`, `top_p`, `min_p` is given, otherwise 0: a call
    that asks for nothing random is repeatable."""

    top_k: int | None = None
    """Keep the k most probable allowed tokens (ties: the smaller ids)."""

    top_p: float | None = None
    """Keep the smallest set of most probable allowed tokens whose mass is at least p (ties: smaller ids)."""

    min_p: float | None = None
    """Keep the tokens at least this many times as probable as the most probable allowed one."""

    seed: Seed | None = None
    """Row i of a batch draws from the stream (seed, i); a call of its own is row 0, and ``seed=(7, i)``
    draws what row i of a batch with ``seed=7`` draws. None takes a fresh seed, which the result tells."""

    max_tokens: int = 512
    """At most this many tokens of text; the end-of-text token is not counted."""

    close_within_budget: bool = False
    """Steer to a complete text near the budget: a token is allowed only if a completion after it fits."""

    exact_weight: bool = True
    """Spend the forward pass that scores a forced ending, so that `logprob` and `log_weight` are known.
    Without it both are None where a token was committed that the model never scored."""

    forced: bool = True
    """Commit tokens that are the only choice without drawing them. Never changes the text."""

    max_retries: int = 64
    """How many times a row may go back from a dead end before it is given up."""

    def __post_init__(self) -> None:
        _check(
            self.temperature is None or self.temperature >= 0, "temperature", self.temperature, "0 or more"
        )
        _check(self.top_k is None or self.top_k >= 1, "top_k", self.top_k, "1 or more")
        _check(self.top_p is None or 0 < self.top_p <= 1, "top_p", self.top_p, "above 0 and at most 1")
        _check(self.min_p is None or 0 <= self.min_p <= 1, "min_p", self.min_p, "between 0 and 1")
        _check(self.max_tokens >= 0, "max_tokens", self.max_tokens, "0 or more")
        _check(self.max_retries >= 0, "max_retries", self.max_retries, "0 or more")
        _check(self.seed is None or _is_seed(self.seed), "seed", self.seed, "an int of 0 or more, or several")

    @property
    def effective_temperature(self) -> float:
        """The temperature that is used (see `temperature`)."""
        if self.temperature is not None:
            return float(self.temperature)
        random = (self.seed, self.top_k, self.top_p, self.min_p)
        return 0.0 if all(option is None for option in random) else 1.0

    @property
    def truncates(self) -> bool:
        """Whether top-k, top-p or min-p may remove tokens."""
        return self.top_k is not None or self.top_p is not None or self.min_p is not None

    def replace(self, **changes: Any) -> SamplingOptions:
        """A copy with some options changed."""
        _known(changes)
        return replace(self, **changes)


OPTION_NAMES = tuple(field.name for field in fields(SamplingOptions))


def make_options(given: dict[str, Any], base: SamplingOptions | None = None) -> SamplingOptions:
    """Options from keyword arguments over a base; an unknown name is an error that lists the known ones."""
    return (base or SamplingOptions()).replace(**given)


def row_seed(seed: Seed | None, row: int) -> tuple[int, ...]:
    """The seed of one row: (seed, row) for an int; several ints are taken as they are for row 0."""
    if seed is None:
        return (secrets.randbits(63), row)
    if isinstance(seed, int):
        return (seed, row)
    return tuple(seed) if row == 0 else (*seed, row)


def uniform_stream(seed: Sequence[int], *branch: int) -> np.random.Generator:
    """The generator of one row; `branch` names a side stream (a redraw) that leaves the main one alone."""
    key = (*seed[1:], len(branch), *branch)  # the count keeps a branch apart from a longer seed
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed[0], spawn_key=key)))


def _known(given: dict[str, Any]) -> None:
    for name in given:
        if name not in OPTION_NAMES:
            raise OptionError(f"unknown sampling option {name!r}; the options are {', '.join(OPTION_NAMES)}")


def _check(holds: bool, name: str, value: object, wanted: str) -> None:
    if not holds:
        raise OptionError(f"sampling option {name!r} is {value!r}; it must be {wanted}")


def _is_seed(seed: Seed) -> bool:
    parts = (seed,) if isinstance(seed, int) else tuple(seed)
    return bool(parts) and all(isinstance(part, int) and part >= 0 for part in parts)
