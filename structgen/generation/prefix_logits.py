"""A cache of logits after prefixes, filled by draft tokens that are read in forward passes that are needed anyway.

Why: a sampler requests one next-token distribution after another. A forward pass over a few tokens takes little more
time than one over a single token. Where the text is forced or easily predicted, most passes can be saved.
What: logits are a function of the prefix alone. When a row has to read, it also reads some draft tokens that may
follow. The logits after them are cached, and returned when their prefix is requested.
Invariant: the draws, and the sequence of requests, are the same as without drafts. Only the number of passes differs.
Cost: rows advance together, so a pass is saved only if the logits of all rows are in the cache.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from structgen.protocols import Session, capabilities_of

from .drafting import PrefixDrafting, PrefixQuery

if TYPE_CHECKING:
    from structgen.protocols import TokenMatcher

__all__ = ["MAX_LOGIT_BYTES", "PrefixLogits", "can_draft", "common_length", "query_of_row", "rewind_row"]

Array = NDArray[Any]
Prefix = tuple[int, ...]

MAX_LOGIT_BYTES = 64 << 20
"""The size of the cache, in bytes of logits. The least recently used prefixes are evicted first."""


def can_draft(session: Session, *, anywhere: bool = False) -> bool:
    """Return whether draft tokens pay in a session: it scores runs, and cropping is cheap.

    Args:
        session: The session.
        anywhere: Require that drafts are possible at every position, not only before `draft_limit`.
    """
    can = capabilities_of(session)
    return can.crops_cheaply and can.scores_runs and not (anywhere and can.draft_limit is not None)


def common_length(first: Sequence[int], second: Sequence[int]) -> int:
    """Return the length of the longest common prefix."""
    length = 0
    for a, b in zip(first, second, strict=False):
        if a != b:
            break
        length += 1
    return length


def rewind_row(
    session: Any, row: int, held: list[int], target: Sequence[int], most: int, before: int
) -> list[int]:
    """Crop a row that holds `held` so that it can be extended to `target`; return the tokens that it has to read.

    Args:
        session: The session.
        row: The row.
        held: The tokens that the row holds after the prompt; becomes `target`.
        target: The tokens that it shall hold.
        most: The largest number of tokens to keep. To get the logits after tokens that are held, the last one of them
            is read again.
        before: The last token of the prompt, which is read again to get the logits after no token.
    """
    kept = min(common_length(held, target), most)
    if kept == len(target):
        return []
    if kept < len(held):
        session.rollback(row, len(held) - kept)
    pending = list(target[max(0, kept) :])
    held[:] = target
    return [before, *pending] if kept < 0 else pending


class PrefixLogits:
    """The cached logits of one session."""

    def __init__(self, drafting: PrefixDrafting, prompt: Sequence[int]) -> None:
        self._drafting = drafting
        self._before = prompt[-1]
        self._known: OrderedDict[Prefix, Array] = OrderedDict()
        self._unused: set[Prefix] = set()

    def keep(self, prefix: Prefix, logits: Array) -> None:
        """Add logits that may be requested later."""
        self._known[prefix] = logits.copy()
        self._known.move_to_end(prefix)
        while len(self._known) * logits.nbytes > MAX_LOGIT_BYTES and len(self._known) > 1:
            self._unused.discard(self._known.popitem(last=False)[0])

    def answer(self, prefixes: Iterable[Prefix]) -> dict[Prefix, Array]:
        """Return the cached logits among those that are requested, and report the request to the drafter."""
        requested = set(prefixes)
        cached = {prefix: self._known[prefix] for prefix in requested if prefix in self._known}
        for prefix in cached:
            self._known.move_to_end(prefix)
        used = len(self._unused & requested)
        self._unused -= requested
        self._drafting.on_request(requested, used)
        return cached

    def read(self, session: Any, held: list[list[int]], queries: Sequence[PrefixQuery]) -> dict[int, Array]:
        """Make one forward pass and return the logits of each query that is not known, by row.

        Args:
            session: The session.
            held: The tokens of each row of the session after the prompt; updated.
            queries: One for each row that takes part.
        """
        pads = capabilities_of(session).takes_padding
        drafts = self._drafting.propose(queries, len(held), pads=pads)
        started = time.perf_counter()
        pending: list[list[int]] = [[] for _ in held]
        for query, draft in zip(queries, drafts, strict=True):
            if draft or not query.is_known:
                target = [*query.prefix, *draft]
                most = len(target) if query.is_known else len(query.prefix) - 1
                pending[query.row] = rewind_row(
                    session, query.row, held[query.row], target, most, self._before
                )
        if any(drafts):
            scored = session.append_scored(pending)
        else:
            session.append(pending)
            scored = [logits[None] for logits in session.logits()]
        seconds = time.perf_counter() - started
        self._drafting.on_pass(len(held), max(map(len, pending)), seconds)
        by_row = {}
        for query, draft in zip(queries, drafts, strict=True):
            logits = scored[query.row]
            if draft:
                self._keep_run(query.prefix, draft, logits)
            if not query.is_known:
                by_row[query.row] = logits[-1 - len(draft)]
        return by_row

    def _keep_run(self, prefix: Prefix, draft: Sequence[int], scored: Sequence[Array]) -> None:
        """Cache the logits after those draft tokens that this pass has read."""
        for length in range(max(1, len(draft) - len(scored) + 1), len(draft) + 1):
            extended = (*prefix, *draft[:length])
            if extended not in self._known:
                self._unused.add(extended)
            self.keep(extended, scored[len(scored) - 1 - (len(draft) - length)])


def query_of_row(
    row: int, prefix: Prefix, held: Sequence[int], matcher: TokenMatcher, *, is_known: bool
) -> PrefixQuery:
    """Return the query of a row that holds the tokens `held` after the prompt."""
    kept = common_length(held, prefix)
    if not is_known:
        kept = min(kept, len(prefix) - 1)
    ahead = tuple(held[kept:]) if kept == len(prefix) else ()
    return PrefixQuery(row, prefix, matcher, len(prefix) - kept, ahead, is_known)
