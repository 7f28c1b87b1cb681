"""Drafters that are not to be trusted: what fails is left out, with a warning, and what is no token is not proposed."""

from __future__ import annotations

import itertools
import math
import operator
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from structgen.errors import StructgenError

from .drafters import Context, Drafter, Guessed, RowDrafter, Start
from .sampled import Sampled

__all__ = ["Learner", "SpeculationWarning", "started"]

_LONGEST = 256
_TRUSTED = ("structgen.speculative.drafters", "structgen.speculative.recycling")


class SpeculationWarning(UserWarning):
    """Something is not read ahead that was meant to be; what is drawn is right all the same."""


def started(drafter: Drafter, start: Start) -> RowDrafter:
    """A reader of `drafter` that raises nothing. Errors of structgen while it starts are the caller's own."""
    if type(drafter).__module__ in _TRUSTED:
        return drafter.start(start)
    name = type(drafter).__name__
    try:
        row = drafter.start(start)
    except StructgenError:
        raise
    except Exception as error:
        _warn(name, error)
        return _Guarded(name, None, start.vocabulary.size)
    return _Guarded(name, row, start.vocabulary.size)


class _Guarded:
    def __init__(self, name: str, row: Any, size: int) -> None:
        self._name = name
        self._row = row
        self._size = size

    def propose(self, context: Context) -> Iterable[Guessed]:
        found = self._asked(
            "propose", lambda row: [self._checked(guess) for guess in row.propose(_apart(context))]
        )
        return [guess for guess in found or () if guess.tokens]

    def law(self, context: Context) -> Any:
        """See `Drafter`."""
        return self._asked("law", lambda row: self._checked_law(row.law(_apart(context))))

    def sampled(self, context: Context) -> Any:
        """See `Drafter`."""
        return self._asked("sampled", lambda row: self._checked_draws(row.sampled(_apart(context))))

    def observe(self, tokens: Sequence[int], start: int) -> None:
        self._asked("observe", lambda row: row.observe(list(tokens), start))

    def finish(self, tokens: Sequence[int]) -> None:
        """See `Drafter`."""
        self._asked("finish", lambda row: row.finish(tokens))

    def _asked(self, method: str, ask: Callable[[Any], Any]) -> Any:
        if getattr(self._row, method, None) is None:
            return None
        try:
            return ask(self._row)
        except Exception as error:
            self._row = None
            _warn(self._name, f"{type(error).__name__}: {error}")
            return None

    def _checked(self, guess: Any) -> Guessed:
        tokens = tuple(operator.index(token) for token in itertools.islice(guess.tokens, _LONGEST))
        if not all(0 <= token < self._size for token in tokens):
            raise ValueError(f"it proposed {guess!r:.60}, and there are {self._size} tokens")
        chance = float(guess.chance)
        if not math.isfinite(chance):
            raise ValueError(f"the chance of {guess!r:.60} is no number")
        return Guessed(tokens, str(guess.kind), min(1.0, max(0.0, chance)))

    def _checked_law(self, law: Any) -> Any:
        if law is None:
            return None
        found = np.asarray(law, dtype=np.float64)
        if found.shape != (self._size,) or not (np.isfinite(found).all() and (found >= 0).all()):
            raise ValueError(
                f"a law has {self._size} finite numbers of 0 or more, not this array of shape {found.shape}"
            )
        return found

    def _checked_draws(self, drawn: Any) -> Any:
        if drawn is None:
            return None
        law = self._checked_law(drawn.law)
        if law is None or not drawn.tokens or any(law[token] <= 0 for token in drawn.tokens):
            raise ValueError("tokens were drawn that their law has no mass for")
        return Sampled(law / law.sum(), tuple(map(operator.index, drawn.tokens)), drawn.drafted)


class Learner:
    """A drafter that is told laws, and left alone once it has failed."""

    def __init__(self, drafter: Any) -> None:
        self._drafter = drafter

    def learn(self, contexts: Sequence[Sequence[int]], logits: Any) -> None:
        """See `Drafter`."""
        if self._drafter is None:
            return
        try:
            self._drafter.learn(contexts, logits)
        except Exception as error:
            name, self._drafter = type(self._drafter).__name__, None
            _warn(name, f"{type(error).__name__}: {error}")


def _apart(context: Context) -> Context:
    """The same, of which nothing is shared with the row."""
    fork = getattr(context.matcher, "fork", None)
    return replace(context, tokens=list(context.tokens), matcher=context.matcher if fork is None else fork())


def _warn(name: str, why: object) -> None:
    warnings.warn(f"the drafter {name} failed and is left out: {why}", SpeculationWarning, stacklevel=2)
