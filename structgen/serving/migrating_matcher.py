"""A matcher that starts in the server's process and moves to a process of its own when it is slow.

Why: most constraints are quick, and a call in the same process costs microseconds. A slow one must not delay the
others, which share its engine and its lock.
What: each call of the core may take `CALL_SECONDS` of CPU time here. A matcher that exceeds a limit, or whose calls are
slow repeatedly, moves to a matcher process (`lanes`), which reads its tokens again. A matcher that exceeds a limit of
the shared engine goes on in a fresh engine once, since another constraint may have filled the old one.
Invariant: masks are the same in either place. A call is stopped when the client has disconnected.
Cost: some microseconds a call beside the matcher's own.
"""

from __future__ import annotations

from collections.abc import Callable
from time import thread_time
from typing import TYPE_CHECKING, Any, TypeVar

from structgen import _core
from structgen.errors import LimitExceeded
from structgen.matcher import Matcher
from structgen.protocols import TokenMatcher

from .matcher_process import LaneMatcher, left

if TYPE_CHECKING:
    from .isolating_compiler import LanedSpec

__all__ = ["CALL_SECONDS", "SHARED_LIMITS", "MovingMatcher"]

T = TypeVar("T")
CALL_SECONDS = 0.03
"""CPU time of one call of the core in the server's process."""
SHARED_LIMITS = ("regex_nodes", "space_bytes")
"""Of the engine that all quick specs share: a spec that meets one need not be the one that used it up."""
_SLOW_CALL_SECONDS, _SLOW_SECONDS = 0.005, 0.1
"""A matcher whose calls take longer than the first moves once they have taken the second beyond it."""


class MovingMatcher(TokenMatcher):
    """A matcher in this process until it meets a limit there, and then in a matcher process."""

    def __init__(self, matcher: Matcher, spec: LanedSpec) -> None:
        self._now: Any = matcher
        self._sets_temperature = matcher.sets_temperature
        self._spec: LanedSpec | None = spec
        self._beside: LaneMatcher | None = None
        """Asked for something while this one stays where it is."""
        self._search_failure: str | None = None
        """Why the last search for a completion found none."""
        self._has_left = False
        self._stop = _core.StopFlag()
        """Ends a call of the core that runs."""
        self._is_renewed = False
        self._slow_seconds = 0.0
        """CPU time of slow calls, so far."""

    @property
    def tokens(self) -> list[int]:
        return list(self._now.tokens)

    @property
    def unproven(self) -> int:
        return int(self._now.unproven)

    @property
    def sets_temperature(self) -> bool:
        return self._sets_temperature

    @property
    def must_stop(self) -> bool:
        return bool(self._do(lambda now: now.must_stop))

    @property
    def temperature(self) -> float | None:
        found: float | None = self._do(lambda now: now.temperature)
        return found

    def mask(self) -> Any:
        return self._do(lambda now: now.mask())

    def advance(self, token_id: int) -> bool:
        return bool(self._do(lambda now: now.advance(token_id)))

    def rollback(self, n: int) -> None:
        self._do(lambda now: now.rollback(n))

    def allowed_count(self) -> int:
        return int(self._do(lambda now: now.allowed_count()))

    def is_complete(self) -> bool:
        return bool(self._do(lambda now: now.is_complete()))

    def forced(self, most: int = 256) -> list[int]:
        found: list[int] = self._do(lambda now: now.forced(most))
        return found

    def forced_bytes(self, most: int = 4096) -> bytes:
        found: bytes = self._do(lambda now: now.forced_bytes(most))
        return found

    def witness(self, max_tokens: int | None = None) -> list[int] | None:
        if self._spec is not None:
            self._move(self._spec.beside(self._is_wanted))
        found: list[int] | None = self._now.witness(max_tokens)
        self._search_failure = self._now.search_failure if found is None else None
        return found

    @property
    def search_failure(self) -> str | None:
        return self._search_failure

    def least_tokens(self, room: int) -> int | None:
        if self._spec is not None:
            try:
                return self._spec.least_tokens_for(room, self._lane_beside)
            finally:
                self._beside = None
        found: int | None = self._now.least_tokens(room)
        return found

    def on_disconnect(self) -> None:
        """No one needs it any more. May be called from any thread, while another one waits for an answer."""
        self._has_left = True
        self._stop.set()
        beside = self._beside
        if beside is not None:
            beside.on_disconnect()
        if self._spec is None:
            self._now.on_disconnect()

    def _do(self, what: Callable[[Any], T]) -> T:
        spec = self._spec
        if spec is None:
            return what(self._now)
        if self._slow_seconds <= _SLOW_SECONDS:
            try:
                return self._here(what)
            except LimitExceeded as error:
                if self._has_left:
                    raise
                if error.limit in SHARED_LIMITS and self._renew(spec):
                    return self._do(what)
        self._move(spec.in_lane(self._is_wanted))
        return what(self._now)

    def _here(self, what: Callable[[Any], T]) -> T:
        """In this process, within its limits."""
        started = thread_time()
        try:
            with _core.CallLimits(cpu_seconds=CALL_SECONDS, stop=self._stop):
                return what(self._now)
        except _core.Stopped:
            raise left() from None
        finally:
            self._slow_seconds += max(0.0, thread_time() - started - _SLOW_CALL_SECONDS)

    def _renew(self, spec: LanedSpec) -> bool:
        """Go on in a fresh engine, once."""
        if self._is_renewed:
            return False
        self._is_renewed = True
        tokens = list(self._now.tokens)
        try:
            with _core.CallLimits(cpu_seconds=CALL_SECONDS, stop=self._stop):
                fresh = spec.renewed(self._now)
                if fresh is None or not all(map(fresh.advance, tokens)):
                    return False
        except (LimitExceeded, _core.Stopped):
            return False
        self._now = fresh
        return True

    def _is_wanted(self) -> bool:
        return not self._has_left

    def _lane_beside(self) -> LaneMatcher:
        assert self._spec is not None
        self._beside = found = self._spec.beside(self._is_wanted)
        if self._has_left:
            found.on_disconnect()
        return found

    def _move(self, lane: LaneMatcher) -> None:
        lane.replay(self._now.tokens)
        self._now, self._spec = lane, None
        if self._has_left:
            lane.on_disconnect()
