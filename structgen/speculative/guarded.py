"""Drafters that are not to be trusted: what fails is left out, with a warning; what is no token is not proposed; and
who costs more time than it brings is not asked for a while."""

from __future__ import annotations

import itertools
import math
import operator
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from structgen.errors import StructgenError, a_kind

from .drafters import Context, Drafter, Guessed, RowDrafter, Start
from .sampled import Sampled

__all__ = ["DECLINED", "Account", "Guarded", "Learner", "SpeculationWarning", "started"]

_LONGEST, _MOST = 256, 64
"""Tokens of a guess, and guesses at a node, that are looked at."""
_DRAWN = ("one", "distinct", "independent", "greedy")
_TRIAL = 12
"""Passes before a drafter is judged."""
_REST, _LONGEST_REST = 24, 768
_TRUSTED = ("structgen.speculative.drafters", "structgen.speculative.recycling")


DECLINED = (
    "nothing is read ahead: this model's memory cannot take tokens back (it has recurrent layers, is a table, or has a "
    "session of another kind), or a pass over more tokens would turn those before it otherwise"
)


class SpeculationWarning(UserWarning):
    """Something is not read ahead that was meant to be; what is drawn is right all the same."""


@dataclass
class Account:
    """What a drafter that may be slow costs and brings, over all requests."""

    name: str
    failed: int = 0
    """So many times it raised something, or proposed what is no token."""
    why: str = ""
    """The last time."""
    seconds: float = 0.0
    taken: int = 0
    """Tokens that it alone proposed and that were drawn."""
    rests: int = 0
    """How many times it was left alone for a while."""
    resting: int = 0
    """For so many passes it is not asked."""
    _pause: int = _REST
    _trial: int = 0
    _spent: float = 0.0
    _gained: float = 0.0

    def passed(self, seconds: float, taken: int, worth: float, *, weighed: bool) -> None:
        """It was asked before a pass, for so long; so many of its tokens were drawn, each `worth` so many seconds.
        `weighed`: if that does not pay it may be left alone."""
        self.seconds += seconds
        self.taken += taken
        self._trial += 1
        self._spent = 0.95 * self._spent + seconds
        self._gained = 0.95 * self._gained + taken * worth
        if not weighed or self._trial < _TRIAL:
            return
        if self._spent <= self._gained:
            self._pause = _REST
        elif self._spent > 0.01 * _TRIAL * worth:  # not only a trifle
            self.rests += 1
            self.resting, self._pause = self._pause, min(2 * self._pause, _LONGEST_REST)
            self._trial, self._spent, self._gained = 0, 0.0, 0.0

    def rested(self) -> None:
        """There was a pass."""
        self.resting = max(0, self.resting - 1)

    def fails(self, why: str) -> None:
        """It failed, and is left out from here on."""
        self.failed, self.why = self.failed + 1, why
        warnings.warn(
            f"the drafter {self.name} failed and is left out: {why}", SpeculationWarning, stacklevel=3
        )

    def __str__(self) -> str:
        parts = [f"{self.seconds:.2f} s, {self.taken} tokens taken that nobody else proposed"]
        if self.rests:
            parts.append(f"left alone {self.rests} times, because it did not pay")
        if self.failed:
            parts.append(f"left out of {self.failed} texts: {self.why}")
        return f"{self.name}: {'; '.join(parts)}"


def started(drafter: Drafter, start: Start, account: Account) -> RowDrafter:
    """A reader of `drafter` that raises nothing. Errors of our own drafters while they start are the caller's."""
    if type(drafter).__module__ in _TRUSTED:
        return drafter.start(start)
    row, size = None, start.vocabulary.size
    is_users = not type(drafter).__module__.startswith("structgen.speculative.")
    try:
        row = drafter.start(start)
        if not hasattr(row, "propose"):
            raise TypeError(f"`start` gave {a_kind(row)}, which has no `propose`")
    except Exception as error:
        if isinstance(error, StructgenError) and not is_users:
            raise
        account.fails(_told(error))
        row = None
    if is_users and row is not None and getattr(drafter, "tells_laws", False) and not hasattr(row, "law"):
        account.fails(f"`tells_laws` is set, and {a_kind(row)} has no `law`")
        row = None
    return Guarded(account, row, size)


class Guarded:
    """A reader that is not trusted."""

    def __init__(self, account: Account, row: Any, size: int) -> None:
        self.account = account
        self.taken = 0
        """Its tokens that were drawn since the last pass."""
        self._row = row
        self._size = size
        self._seconds = 0.0

    def passed(self, worth: float, *, weighed: bool) -> None:
        """There was a pass. `worth`: the seconds that a token saves; `weighed`: who does not pay may be left alone."""
        if not self.account.resting and self._row is not None:
            self.account.passed(self._seconds, self.taken, worth, weighed=weighed)
        self._seconds, self.taken = 0.0, 0

    def propose(self, context: Context) -> Iterable[Guessed]:
        found = self._asked(
            "propose",
            lambda row: [
                self._checked(guess) for guess in itertools.islice(row.propose(_apart(context)), _MOST)
            ],
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
        if self.account.resting and method not in ("observe", "finish"):
            return None
        before = time.perf_counter()
        try:
            return ask(self._row)
        except Exception as error:
            self._row = None
            self.account.fails(_told(error))
            return None
        finally:
            self._seconds += time.perf_counter() - before

    def _checked(self, guess: Any) -> Guessed:
        tokens = tuple(operator.index(token) for token in itertools.islice(guess.tokens, _LONGEST))
        if not all(0 <= token < self._size for token in tokens):
            raise ValueError(f"it proposed {guess!r:.60}, and there are {self._size} tokens")
        chance = float(guess.chance)
        if not math.isfinite(chance):
            raise ValueError(f"the chance of {guess!r:.60} is no number")
        return Guessed(tokens, str(guess.kind)[:80], min(1.0, max(0.0, chance)))

    def _checked_law(self, law: Any) -> Any:
        if law is None:
            return None
        found = np.asarray(law, dtype=np.float64)
        if found.shape != (self._size,) or not (np.isfinite(found).all() and (found >= 0).all()):
            raise ValueError(
                f"a law has {self._size} finite numbers of 0 or more, not this array of shape {found.shape}"
            )
        largest = float(found.max())
        if largest <= 0:
            return None
        found = found / largest
        return found / found.sum()

    def _checked_draws(self, drawn: Any) -> Any:
        if drawn is None:
            return None
        law = self._checked_law(drawn.law)
        tokens = tuple(operator.index(token) for token in itertools.islice(drawn.tokens, _MOST))
        if (
            law is None
            or not tokens
            or not all(0 <= token < self._size and law[token] > 0 for token in tokens)
        ):
            raise ValueError("tokens were drawn that their law has no mass for")
        if drawn.drafted not in _DRAWN:
            raise ValueError(f"tokens are drawn as {', '.join(_DRAWN)}, not {drawn.drafted!r:.40}")
        if drawn.drafted == "one" and len(tokens) > 1:
            raise ValueError(f"one token is drawn as 'one', not {len(tokens)}")
        if drawn.drafted in ("distinct", "greedy") and len(set(tokens)) < len(tokens):
            raise ValueError(f"a token was drawn twice, and they are {drawn.drafted}")
        return Sampled(law, tokens, drawn.drafted)


class Learner:
    """A drafter that is told laws, and left alone once it has failed."""

    def __init__(self, drafter: Any, account: Account) -> None:
        self._drafter = drafter
        self._account = account

    def learn(self, contexts: Sequence[Sequence[int]], logits: Any) -> None:
        """See `Drafter`."""
        if self._drafter is None:
            return
        try:
            self._drafter.learn(contexts, logits)
        except Exception as error:
            self._drafter = None
            self._account.fails(_told(error))


def _apart(context: Context) -> Context:
    """The same, of which nothing is shared with the row."""
    fork = getattr(context.matcher, "fork", None)
    hidden = None if context.hidden is None else context.hidden.copy()
    matcher = context.matcher if fork is None else fork()
    return replace(context, tokens=list(context.tokens), matcher=matcher, hidden=hidden)


def _told(error: Exception) -> str:
    """The error and where it was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    last = next((frame for frame in reversed(frames) if frame.filename != __file__), None)
    where = f" ({last.filename}:{last.lineno})" if last is not None else ""
    return f"{type(error).__name__}: {error}{where}"
