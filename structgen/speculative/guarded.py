"""Drafters that are not to be trusted: what fails is left out, with a warning, and what is no token is not proposed."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from structgen.errors import StructgenError

from .drafters import Context, Drafter, Guessed, RowDrafter, Start

__all__ = ["SpeculationWarning", "started"]

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
        found: list[Guessed] = []
        for guess in self._asked("propose", lambda row: list(row.propose(context))) or ():
            tokens = getattr(guess, "tokens", None)
            if tokens is None or not all(isinstance(one, int) and 0 <= one < self._size for one in tokens):
                self._fail(f"it proposed {guess!r:.60}, which are no tokens")
                return ()
            if tokens:
                found.append(guess)
        return found

    def law(self, context: Context) -> Any:
        """See `Drafter`."""
        return self._asked("law", lambda row: row.law(context))

    def sampled(self, context: Context) -> Any:
        """See `Drafter`."""
        return self._asked("sampled", lambda row: row.sampled(context))

    def observe(self, tokens: Sequence[int], start: int) -> None:
        self._asked("observe", lambda row: row.observe(tokens, start))

    def finish(self, tokens: Sequence[int]) -> None:
        """See `Drafter`."""
        self._asked("finish", lambda row: row.finish(tokens))

    def _asked(self, method: str, ask: Callable[[Any], Any]) -> Any:
        if getattr(self._row, method, None) is None:
            return None
        try:
            return ask(self._row)
        except Exception as error:
            self._fail(f"{type(error).__name__}: {error}")
            return None

    def _fail(self, why: object) -> None:
        self._row = None
        _warn(self._name, why)


def _warn(name: str, why: object) -> None:
    warnings.warn(f"the drafter {name} failed and is left out: {why}", SpeculationWarning, stacklevel=2)
