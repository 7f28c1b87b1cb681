"""A matcher that starts in the server's process and migrates to a matcher process when it is slow.

Why: most constraints are quick, and a call in the same process costs microseconds. A slow one must not delay the
others, which share its engine and the engine's lock.
What: each call of the core may take `CALL_SECONDS` of CPU time here. A matcher that exceeds a limit, or whose calls are
slow repeatedly, migrates: a matcher process replays its tokens. A matcher that exceeds a limit of the shared engine
continues in a new engine once, since another constraint may have filled the old one.
Invariant: masks are the same in either place. A call is stopped when the client has disconnected.
Cost: some microseconds per call in addition to the matcher's own.
"""

from __future__ import annotations

from collections.abc import Callable
from time import thread_time
from typing import TYPE_CHECKING, Any, TypeVar

from structgen import _core
from structgen.errors import LimitExceeded
from structgen.matcher import Matcher
from structgen.protocols import TokenMatcher

from .isolated_matcher import IsolatedMatcher
from .matcher_process import disconnected

if TYPE_CHECKING:
    from .isolatable_constraint import IsolatableConstraint

__all__ = ["CALL_SECONDS", "SHARED_LIMITS", "MigratingMatcher"]

T = TypeVar("T")
CALL_SECONDS = 0.03
"""CPU time of one call of the core in the server's process."""
SHARED_LIMITS = ("regex_nodes", "space_bytes")
"""Limits of the engine that all quick constraints share: one that meets them need not have used them up itself."""
_SLOW_CALL_SECONDS = 0.005
"""CPU time above which a call counts as slow."""
_SLOW_SECONDS = 0.1
"""Total CPU time of slow calls, beyond `_SLOW_CALL_SECONDS` each, above which a matcher migrates."""


class MigratingMatcher(TokenMatcher):
    """A matcher in this process until it exceeds a limit there, and then in a matcher process."""

    def __init__(self, matcher: Matcher, origin: IsolatableConstraint) -> None:
        """Wrap a matcher of this process.

        Args:
            matcher: A new matcher.
            origin: The constraint that opened it, and opens its matcher in a matcher process.
        """
        self.has_started = False
        """Whether its text has joined the batch; it then waits for a matcher process that is free."""
        self._draft_key = origin.key
        self._matcher: Any = matcher
        """The current matcher: a `Matcher` or an `IsolatedMatcher`."""
        self._sets_temperature = matcher.sets_temperature
        self._origin: IsolatableConstraint | None = origin
        """None after the migration."""
        self._helper: IsolatedMatcher | None = None
        """Runs a search in a matcher process, while this matcher stays here."""
        self._search_failure: str | None = None
        """Why the last search for a completion found none."""
        self._is_disconnected = False
        self._stop = _core.StopFlag()
        """Ends a running call of the core."""
        self._is_renewed = False
        self._slow_seconds = 0.0
        """CPU time of slow calls so far, beyond `_SLOW_CALL_SECONDS` each."""

    @property
    def tokens(self) -> list[int]:
        """The tokens so far."""
        return list(self._matcher.tokens)

    @property
    def draft_key(self) -> Any:
        """The key of the constraint that opened it."""
        return self._draft_key

    @property
    def can_draft(self) -> bool:
        """Whether it is still in this process."""
        return self._origin is not None

    @property
    def unproven(self) -> int:
        """Count the states that were treated as live because a search reached its limit."""
        return int(self._matcher.unproven)

    @property
    def sets_temperature(self) -> bool:
        """Return whether the constraint sets temperatures."""
        return self._sets_temperature

    @property
    def must_stop(self) -> bool:
        """Return whether nothing but an end token may follow."""
        return bool(self._call(lambda matcher: matcher.must_stop))

    @property
    def temperature(self) -> float | None:
        """Return the temperature that the constraint sets for the next token, or None."""
        found: float | None = self._call(lambda matcher: matcher.temperature)
        return found

    def mask(self) -> Any:
        """Return the mask of the next token, one bit a token."""
        return self._call(lambda matcher: matcher.mask())

    def advance(self, token_id: int) -> bool:
        """Read a token. Return False, and change nothing, if it is not allowed."""
        return bool(self._call(lambda matcher: matcher.advance(token_id)))

    def rollback(self, n: int) -> None:
        """Remove the last `n` tokens."""
        self._matcher.rollback(n)  # takes no search, so it neither counts as slow nor migrates

    def allowed_count(self) -> int:
        """Return the number of tokens that the mask allows."""
        return int(self._call(lambda matcher: matcher.allowed_count()))

    def is_complete(self) -> bool:
        """Return whether the text satisfies the constraint as it is."""
        return bool(self._call(lambda matcher: matcher.is_complete()))

    def forced(self, most: int = 256) -> list[int]:
        """Return the tokens that must come next, at most `most`."""
        found: list[int] = self._call(lambda matcher: matcher.forced(most))
        return found

    def forced_bytes(self, most: int = 4096) -> bytes:
        """Return the bytes that every completion begins with, at most `most`."""
        found: bytes = self._call(lambda matcher: matcher.forced_bytes(most))
        return found

    def witness_text(self, after: bytes = b"") -> bytes | None:
        """Return a short completion as bytes; None if none is known, or in a matcher process."""
        found: bytes | None = self._call(lambda matcher: matcher.witness_text(after))
        return found

    def witness(self, max_tokens: int | None = None) -> list[int] | None:
        """Return tokens that complete the text, or None; a matcher in this process moves out before the search."""
        if self._origin is not None:
            self._migrate(self._origin.open_isolated(self._is_wanted, has_started=self.has_started))
        found: list[int] | None = self._matcher.witness(max_tokens)
        self._search_failure = self._matcher.search_failure if found is None else None
        return found

    @property
    def search_failure(self) -> str | None:
        """Return why the last call of `witness` found nothing, or None."""
        return self._search_failure

    def least_tokens(self, room: int) -> int | None:
        """Return the least number of tokens that complete the text, or None if more than `room` are needed."""
        if self._origin is not None:
            try:
                return self._origin.least_tokens_for(room, self._open_helper)
            finally:
                self._helper = None
        found: int | None = self._matcher.least_tokens(room)
        return found

    def on_disconnect(self) -> None:
        """Called, from any thread, when no one needs the text any more; another thread may wait for an answer."""
        self._is_disconnected = True
        self._stop.set()
        helper = self._helper
        if helper is not None:
            helper.on_disconnect()
        if self._origin is None:
            self._matcher.on_disconnect()

    def _call(self, what: Callable[[Any], T]) -> T:
        """Call the current matcher; migrate before it if this process is too slow for it."""
        origin = self._origin
        if origin is None:
            return what(self._matcher)
        if self._slow_seconds <= _SLOW_SECONDS:
            try:
                return self._call_here(what)
            except LimitExceeded as error:
                if self._is_disconnected:
                    raise
                if error.limit in SHARED_LIMITS and self._renew(origin):
                    return self._call(what)
        self._migrate(origin.isolate(self._is_wanted, has_started=self.has_started))
        return what(self._matcher)

    def _call_here(self, what: Callable[[Any], T]) -> T:
        """Call the matcher of this process, within its limits."""
        started = thread_time()
        try:
            with _core.CallLimits(cpu_seconds=CALL_SECONDS, stop=self._stop):
                return what(self._matcher)
        except _core.Stopped:
            raise disconnected() from None
        finally:
            self._slow_seconds += max(0.0, thread_time() - started - _SLOW_CALL_SECONDS)

    def _renew(self, origin: IsolatableConstraint) -> bool:
        """Continue in a new engine, once. Return whether that worked."""
        if self._is_renewed:
            return False
        self._is_renewed = True
        tokens = list(self._matcher.tokens)
        try:
            with _core.CallLimits(cpu_seconds=CALL_SECONDS, stop=self._stop):
                fresh = origin.in_fresh_engine(self._matcher)
                if fresh is None or not all(map(fresh.advance, tokens)):
                    return False
        except (LimitExceeded, _core.Stopped):
            return False
        self._matcher = fresh
        return True

    def _is_wanted(self) -> bool:
        return not self._is_disconnected

    def _open_helper(self) -> IsolatedMatcher:
        assert self._origin is not None
        self._helper = found = self._origin.open_isolated(self._is_wanted, has_started=self.has_started)
        if self._is_disconnected:
            found.on_disconnect()
        return found

    def _migrate(self, isolated: IsolatedMatcher) -> None:
        isolated.replay(self._matcher.tokens)
        self._matcher, self._origin = isolated, None
        if self._is_disconnected:
            isolated.on_disconnect()
