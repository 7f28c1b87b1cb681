"""Laws that a model tells before they are asked for: drafted tokens are read in the pass that is made anyway.

Why: a sampler that draws from left to right asks for one law after another, and a pass over a few tokens takes little
more time than one over a single token. Where text is forced, or easily guessed, most of these passes can be spared.
What: a law is a function of its prefix alone. When a row has to read, it is given some tokens more that may follow; the
laws behind them are kept, as many as memory allows, and answer when their prefixes are asked for.
Invariant: what is drawn, and the laws that are asked for, are what they are without; only passes are fewer.
Cost: rows go on side by side, so a pass is spared only when all that are asked for together are known.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Any

from numpy.typing import NDArray

from structgen.protocols import Session

from .drafting import Place, ReadingAhead

__all__ = ["AHEAD_KEPT", "LawsAhead", "can_read_ahead", "common", "place_of_row", "turn"]

Array = NDArray[Any]
Prefix = tuple[int, ...]

AHEAD_KEPT = 64 << 20
"""Bytes of logits that are kept for prefixes that nobody has asked for yet, or lately."""


def can_read_ahead(session: Session, *, anywhere: bool = False) -> bool:
    """Whether a session tells laws inside a run of tokens, and steps back at no cost. `anywhere`: in long texts too."""
    can = session.capabilities
    return can.crops_cheaply and can.scores_runs and not (anywhere and can.draft_limit is not None)


def common(one: Sequence[int], other: Sequence[int]) -> int:
    """How many tokens both begin with."""
    place = 0
    for mine, theirs in zip(one, other, strict=False):
        if mine != theirs:
            break
        place += 1
    return place


def turn(session: Any, row: int, held: list[int], target: Sequence[int], most: int, before: int) -> list[int]:
    """Takes a row that holds `held` back so far that it can go on to `target`; the tokens that it has to read then.

    It keeps at most `most` tokens: the law after what is held already is told by reading its last token again. That of
    no token is `before`, the prompt's last one. `held` becomes the target.
    """
    kept = min(common(held, target), most)
    if kept == len(target):
        return []
    if kept < len(held):
        session.rollback(row, len(held) - kept)
    pending = list(target[max(0, kept) :])
    held[:] = target
    return [before, *pending] if kept < 0 else pending


class LawsAhead:
    """What the rows of one session were told ahead, as logits."""

    def __init__(self, drafting: ReadingAhead, prompt: Sequence[int]) -> None:
        self._drafting = drafting
        self._before = prompt[-1]
        self._known: OrderedDict[Prefix, Array] = OrderedDict()
        self._unused: set[Prefix] = set()

    def keep(self, prefix: Prefix, logits: Array) -> None:
        """Logits that may be asked for later."""
        self._known[prefix] = logits.copy()
        self._known.move_to_end(prefix)
        while len(self._known) * logits.nbytes > AHEAD_KEPT and len(self._known) > 1:
            self._unused.discard(self._known.popitem(last=False)[0])

    def answer(self, prefixes: Iterable[Prefix]) -> dict[Prefix, Array]:
        """What is known already of the laws that are asked for; drafts are judged by what is asked for."""
        asked = set(prefixes)
        found = {prefix: self._known[prefix] for prefix in asked if prefix in self._known}
        for prefix in found:
            self._known.move_to_end(prefix)
        used = len(self._unused & asked)
        self._unused -= asked
        self._drafting.asked(asked, used)
        return found

    def read(self, session: Any, held: list[list[int]], places: Sequence[Place]) -> dict[int, Array]:
        """One pass: the logits behind each place that is not known, by its row.

        `held` is what each of the session's rows has behind the prompt, and is brought up to date.
        """
        pads = session.capabilities.takes_padding
        drafts = self._drafting.propose(places, len(held), pads=pads)
        started = time.perf_counter()
        pending: list[list[int]] = [[] for _ in held]
        for place, draft in zip(places, drafts, strict=True):
            if draft or not place.is_known:
                target = [*place.prefix, *draft]
                most = len(target) if place.is_known else len(place.prefix) - 1
                pending[place.row] = turn(session, place.row, held[place.row], target, most, self._before)
        if any(drafts):
            scored = session.append_scored(pending)
        else:
            session.append(pending)
            scored = [logits[None] for logits in session.logits()]
        seconds = time.perf_counter() - started
        self._drafting.passed(len(held), max(map(len, pending)), seconds)
        found = {}
        for place, draft in zip(places, drafts, strict=True):
            logits = scored[place.row]
            if draft:
                self._keep_run(place.prefix, draft, logits)
            if not place.is_known:
                found[place.row] = logits[-1 - len(draft)]
        return found

    def _keep_run(self, prefix: Prefix, draft: Sequence[int], scored: Sequence[Array]) -> None:
        """Keeps the laws behind the drafted tokens, as far as they were read now."""
        for length in range(max(1, len(draft) - len(scored) + 1), len(draft) + 1):
            there = (*prefix, *draft[:length])
            if there not in self._known:
                self._unused.add(there)
            self.keep(there, scored[len(scored) - 1 - (len(draft) - length)])


def place_of_row(row: int, prefix: Prefix, held: Sequence[int], matcher: Any, *, is_known: bool) -> Place:
    """Where a row stands that holds `held`."""
    kept = common(held, prefix)
    if not is_known:
        kept = min(kept, len(prefix) - 1)
    ahead = tuple(held[kept:]) if kept == len(prefix) else ()
    return Place(row, prefix, matcher, len(prefix) - kept, ahead, is_known)
