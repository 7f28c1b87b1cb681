"""Protection against drafters that fail, propose what is not a token, or cost more time than they save.

A drafter that raises is left out, with a warning. Its proposals are checked. A drafter that does not pay pauses.
"""

from __future__ import annotations

import itertools
import math
import operator
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structgen.errors import StructgenError, a_kind
from structgen.protocols import LanguageModel, layer_count_of

from .drafters import Context, Drafter, Proposal, RowDrafter, Start
from .sampled import Sampled

__all__ = [
    "UNSUPPORTED",
    "DrafterRecord",
    "Guarded",
    "GuardedLearner",
    "SpeculationWarning",
    "grows_without_lock",
    "hidden_layers_of",
    "reads_hidden_states",
    "reads_masks",
    "start_guarded",
]

_LONGEST, _MOST = 256, 64
"""The largest number of tokens of a proposal, and of proposals at a node."""
_DRAWN = ("one", "distinct", "independent", "greedy")
_MIN_PASSES = 24
"""Forward passes before a drafter is judged."""
_REST, _LONGEST_REST = 24, 768
_BUILT_IN = ("structgen.speculative.drafters", "structgen.speculative.recycling")
"""Modules of drafters that need no guard."""
_failing = threading.Lock()
"""Guards the failures of a record: rows fail on threads of their own, while some of them hold `Speculation.lock`."""


UNSUPPORTED = (
    "no drafts are used: this model's session cannot be cropped cheaply (it has recurrent layers, is a table, or is a "
    "session of another kind), or a pass over more tokens would change the logits before them"
)


class SpeculationWarning(UserWarning):
    """Drafts that were requested are not used. The output is correct all the same."""


@dataclass
class DrafterRecord:
    """What a drafter declares, costs and brings, over all requests."""

    name: str
    gives_distributions: bool = False
    learns: bool = False
    failed: int = 0
    """How many times it raised, or proposed what is not a token."""
    why: str = ""
    """The last failure."""
    seconds: float = 0.0
    accepted: int = 0
    """Drawn tokens that no other drafter proposed."""
    rests: int = 0
    """How many times it was paused."""
    resting: int = 0
    """Forward passes until its pause ends."""
    _pause: int = _REST
    _trial: int = 0
    _spent: float = 0.0
    _taken: float = 0.0

    @classmethod
    def of(cls, drafter: Drafter) -> DrafterRecord:
        """Return a new record of a drafter, whose class may be a user's and declare only what it has."""
        return cls(
            type(drafter).__name__,
            gives_distributions=bool(getattr(drafter, "gives_distributions", False)),
            learns=hasattr(drafter, "learn"),
        )

    def passed(self, seconds: float, accepted: int, worth: float, *, weighed: bool) -> None:
        """Record one forward pass for which the drafter was called.

        Args:
            seconds: The time that it took.
            accepted: The number of its tokens that were drawn.
            worth: The seconds that each of them saved.
            weighed: Whether to pause the drafter if it does not pay.
        """
        self.seconds += seconds
        self.accepted += accepted
        self._trial += 1
        self._spent = 0.95 * self._spent + seconds
        self._taken = 0.95 * self._taken + accepted
        if not weighed or self._trial < _MIN_PASSES:
            return
        # A count has about its root as standard deviation: a drafter that pays must not pause by chance.
        if self._spent <= (self._taken + math.sqrt(self._taken)) * worth:
            self._pause = _REST
        elif self._spent > 0.01 * _MIN_PASSES * worth:  # a cost that matters
            self.rests += 1
            self.resting, self._pause = self._pause, min(2 * self._pause, _LONGEST_REST)
            self._trial, self._spent, self._taken = 0, 0.0, 0.0

    def rested(self) -> None:
        """Count a forward pass of its pause."""
        self.resting = max(0, self.resting - 1)

    def fails(self, why: str) -> None:
        """Record a failure, and warn that the drafter is left out from here on."""
        with _failing:
            self.failed, self.why = self.failed + 1, why
        warnings.warn(
            f"the drafter {self.name} failed and is left out: {why}", SpeculationWarning, stacklevel=3
        )

    def __str__(self) -> str:
        parts = [f"{self.seconds:.2f} s, {self.accepted} accepted tokens that no other drafter proposed"]
        if self.rests:
            parts.append(f"paused {self.rests} times, because it did not pay")
        if self.failed:
            parts.append(f"left out of {self.failed} texts: {self.why}")
        return f"{self.name}: {'; '.join(parts)}"


def reads_hidden_states(reader: object) -> bool:
    """Return whether a drafter reads hidden states. Some learned ones declare that they read those of no layer."""
    return bool(getattr(reader, "hidden_layers", ()))


def reads_masks(drafter: object) -> bool:
    """Return whether the rows of a drafter have `RowDrafter.on_mask`, as it declares."""
    return getattr(drafter, "reads_masks", False) is True


def hidden_layers_of(readers: Sequence[object], model: LanguageModel) -> tuple[int, ...]:
    """Return the layers whose hidden states some drafters or verifiers read. They may declare none."""
    count = layer_count_of(model)
    if count is None:
        return ()
    wanted: set[int] = set()
    for reader in readers:
        layers = getattr(reader, "hidden_layers", ())
        wanted.update(layers(count) if callable(layers) else layers)
    return tuple(sorted(layer for layer in wanted if 0 <= layer <= count))


def grows_without_lock(drafter: object) -> bool:
    """Return whether rows of a drafter may start, observe and propose on several threads at a time.

    Its class itself declares it (`Drafter`). A subclass that does not may share more between rows.
    """
    declared = "grows_without_lock" in vars(type(drafter))
    return declared and getattr(drafter, "grows_without_lock") is True  # noqa: B009 — it is no part of the protocol


def start_guarded(drafter: Drafter, start: Start, record: DrafterRecord) -> RowDrafter:
    """Start a drafter on a row; the result does not raise. Errors of our own drafters at the start are the caller's."""
    if type(drafter).__module__ in _BUILT_IN:
        return drafter.start(start)
    row, size = None, start.vocabulary.size
    is_users = not type(drafter).__module__.startswith("structgen.speculative.")
    try:
        row = drafter.start(start)
        if not hasattr(row, "propose"):
            raise TypeError(f"`start` returned {a_kind(row)}, which has no `propose`")
    except Exception as error:
        if isinstance(error, StructgenError) and not is_users:
            raise
        record.fails(_describe_error(error))
        row = None
    if is_users and row is not None and record.gives_distributions and not hasattr(row, "distribution"):
        record.fails(f"`gives_distributions` is set, and {a_kind(row)} has no `distribution`")
        row = None
    return Guarded(record, row, size)


class Guarded(RowDrafter):
    """A row drafter that may fail."""

    def __init__(self, record: DrafterRecord, row: RowDrafter | None, size: int) -> None:
        self.record = record
        self.accepted = 0
        """Its tokens that were drawn since the last forward pass."""
        self._row = row
        self._size = size
        self._seconds = 0.0

    def passed(self, worth: float, *, weighed: bool) -> None:
        """Record a forward pass; see `DrafterRecord.passed`."""
        if not self.record.resting and self._row is not None:
            self.record.passed(self._seconds, self.accepted, worth, weighed=weighed)
        self._seconds, self.accepted = 0.0, 0

    def charge(self, seconds: float) -> None:
        """Add to the drafter's time what the forward pass took longer because of it."""
        self._seconds += seconds

    @property
    def name(self) -> str:
        """The name of the drafter, for tallies and messages."""
        return self.record.name

    @property
    def computes(self) -> bool:  # type: ignore[override]
        """See `RowDrafter.computes`."""
        return bool(getattr(self._row, "computes", False))

    @property
    def predicts_acceptance(self) -> bool:  # type: ignore[override]
        """See `RowDrafter.predicts_acceptance`."""
        return bool(getattr(self._row, "predicts_acceptance", False))

    def propose(self, context: Context) -> Iterable[Proposal]:
        """Return the drafter's proposals, checked; empty if it failed or rests."""
        proposals = self._call(
            "propose",
            lambda row: [
                self._checked(guess) for guess in itertools.islice(row.propose(_apart(context)), _MOST)
            ],
        )
        return [guess for guess in proposals or () if guess.tokens]

    def distribution(self, context: Context) -> Any:
        """See `RowDrafter.distribution`."""
        return self._call(
            "distribution", lambda row: self._checked_distribution(row.distribution(_apart(context)))
        )

    def sampled(self, context: Context) -> Any:
        """See `RowDrafter.sampled`."""
        return self._call("sampled", lambda row: self._checked_draws(row.sampled(_apart(context))))

    def acceptances(self, context: Context, tokens: Sequence[int]) -> Mapping[int, float]:
        """See `RowDrafter.acceptances`; empty if it failed or rests."""
        found = self._call(
            "acceptances",
            lambda row: _checked_acceptances(row.acceptances(_apart(context), list(tokens)), tokens),
        )
        return found or {}

    def observe(self, tokens: Sequence[int], start: int) -> None:
        """Pass the row's tokens on, also while the drafter rests."""
        self._call("observe", lambda row: row.observe(list(tokens), start))

    def on_mask(self, tokens: Sequence[int], allowed: NDArray[np.int64]) -> None:
        """Pass the mask on, also while the drafter rests."""
        read = allowed.view()
        read.flags.writeable = False  # the token is drawn from the same numbers
        self._call("on_mask", lambda row: row.on_mask(list(tokens), read))

    def finish(self, tokens: Sequence[int]) -> None:
        """See `RowDrafter.finish`."""
        self._call("finish", lambda row: row.finish(tokens))

    def _call(self, method: str, ask: Callable[[Any], Any]) -> Any:
        if getattr(self._row, method, None) is None:
            return None
        if self.record.resting and method not in ("observe", "on_mask", "finish"):
            return None
        before = time.perf_counter()
        try:
            return ask(self._row)
        except Exception as error:  # noqa: BLE001 — a drafter may raise anything
            self._row = None
            self.record.fails(_describe_error(error))
            return None
        finally:
            self._seconds += time.perf_counter() - before

    def _checked(self, guess: Any) -> Proposal:
        tokens = tuple(operator.index(token) for token in itertools.islice(guess.tokens, _LONGEST))
        if not all(0 <= token < self._size for token in tokens):
            raise ValueError(f"it proposed {guess!r:.60}, and there are {self._size} tokens")
        chance = float(guess.chance)
        if not math.isfinite(chance):
            raise ValueError(f"the chance of {guess!r:.60} is not a number")
        is_probability = bool(getattr(guess, "is_probability", False))
        return Proposal(tokens, str(guess.kind)[:80], min(1.0, max(0.0, chance)), is_probability)

    def _checked_distribution(self, distribution: object) -> Any:
        if distribution is None:
            return None
        masses = np.asarray(distribution, dtype=np.float64)
        if masses.shape != (self._size,) or not (np.isfinite(masses).all() and (masses >= 0).all()):
            raise ValueError(
                f"a distribution has {self._size} finite numbers of 0 or more; this array has shape {masses.shape}"
            )
        largest = float(masses.max())
        if largest <= 0:
            return None
        masses = masses / largest
        return masses / masses.sum()

    def _checked_draws(self, drawn: Any) -> Any:
        if drawn is None:
            return None
        distribution = self._checked_distribution(drawn.distribution)
        tokens = tuple(operator.index(token) for token in itertools.islice(drawn.tokens, _MOST))
        if (
            distribution is None
            or not tokens
            or not all(0 <= token < self._size and distribution[token] > 0 for token in tokens)
        ):
            raise ValueError("tokens were drawn that have no probability")
        if drawn.drafted not in _DRAWN:
            raise ValueError(f"tokens are drawn as {', '.join(_DRAWN)}, not {drawn.drafted!r:.40}")
        if drawn.drafted == "one" and len(tokens) > 1:
            raise ValueError(f"one token is drawn as 'one', not {len(tokens)}")
        if drawn.drafted in ("distinct", "greedy") and len(set(tokens)) < len(tokens):
            raise ValueError(f"a token was drawn twice, and draws that are {drawn.drafted} have none twice")
        return Sampled(distribution, tokens, drawn.drafted)


class GuardedLearner:
    """Passes logits to a drafter that learns, until it fails."""

    def __init__(self, drafter: Any, record: DrafterRecord) -> None:
        self._drafter = drafter
        self._account = record

    def learn(self, contexts: Sequence[Sequence[int]], logits: Any) -> None:
        """See `Drafter`."""
        if self._drafter is None:
            return
        try:
            self._drafter.learn(contexts, logits)
        except Exception as error:  # noqa: BLE001 — a drafter may raise anything
            self._drafter = None
            self._account.fails(_describe_error(error))


def _checked_acceptances(given: Any, tokens: Sequence[int]) -> dict[int, float]:
    checked = {operator.index(token): float(chance) for token, chance in given.items()}
    for token, chance in checked.items():
        if token not in tokens or not math.isfinite(chance):
            raise ValueError(f"it predicted {chance} for token {token}; the tokens are {list(tokens)!r:.60}")
    return {token: min(1.0, max(0.0, chance)) for token, chance in checked.items()}


def _apart(context: Context) -> Context:
    """Return a copy of the context that shares nothing with the row."""
    fork = context.matcher.fork()
    matcher = context.matcher if fork is None else fork
    return replace(context, tokens=list(context.tokens), matcher=matcher)


def _describe_error(error: Exception) -> str:
    """Return the error and the line that raised it."""
    frames = traceback.extract_tb(error.__traceback__)
    last = next((frame for frame in reversed(frames) if frame.filename != __file__), None)
    where = f" ({last.filename}:{last.lineno})" if last is not None else ""
    return f"{type(error).__name__}: {error}{where}"
