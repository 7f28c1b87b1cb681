"""A compiled constraint that runs in the server's process while it is quick, and in a matcher process otherwise.

Invariant: a constraint that was slow once is never unpickled, built or queried in the server's process again. Nor is a
completion searched for there: such a search has no tight limit of work, and masks of other requests would wait for it.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field

from structgen import _core
from structgen.errors import StructgenError
from structgen.matcher import Matcher
from structgen.tools.forms import Forms

from .compiler import CompiledConstraint
from .isolated_matcher import IsolatedMatcher, open_isolated_matcher
from .matcher_process import MatcherProcess, disconnected
from .matcher_processes import MatcherProcesses
from .migrating_matcher import CALL_SECONDS, MigratingMatcher
from .requests import Kind
from .temporary_errors import detached, temporary_status

__all__ = ["IsolatableConstraint"]

_MOST_ROOMS = 64
"""Token budgets for which the least number of tokens is remembered."""
_POLL_SECONDS = 0.05


@dataclass(eq=False)
class IsolatableConstraint:
    """A constraint for any number of requests. Those that use it isolated at the same time share a matcher process."""

    kind: Kind
    key: bytes
    """The hash of its kind and spec."""
    pickled: bytes
    processes: MatcherProcesses
    compiled: CompiledConstraint | None
    """The constraint in this process; None if it is isolated."""
    recompile: Callable[[CompiledConstraint], CompiledConstraint | None] = lambda compiled: None
    """Compiles it in a new engine after the limits of the shared engine were met."""
    least_tokens: int | None = None
    """Tokens of a short text, if its probe found one."""
    forms: Forms = field(default_factory=dict)
    """See `ProbeResult.forms`."""
    _least_by_room: dict[int, int | None] = field(default_factory=dict)
    """Results of searches for texts that need more than `least_tokens`, by the budget of tokens."""
    _process: weakref.ReferenceType[MatcherProcess] | None = None
    _refusal: StructgenError | None = None
    """A matcher process refused the constraint for what it is, so another one would refuse it, too."""
    _waiting: list[Callable[[], bool]] = field(default_factory=list)
    """For each request that waits for a matcher process: whether it is still wanted."""
    _spare: IsolatedMatcher | None = None
    """Keeps a new process alive while other requests wait for it: the one that had it built may have disconnected."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def is_slow(self) -> bool:
        """Whether new matchers run in a matcher process."""
        return self.compiled is None

    def needs_process(self, room: int, *, closes: bool) -> bool:
        """Return whether opening a matcher waits for a matcher process.

        Args:
            room: The budget of tokens of the text.
            closes: The text must be complete within its budget.
        """
        return self.compiled is None or closes or self.least_tokens is None or self.least_tokens > room

    def open(self, is_wanted: Callable[[], bool] = lambda: True) -> MigratingMatcher | IsolatedMatcher:
        """Return a new matcher; may wait for a matcher process.

        Args:
            is_wanted: Called repeatedly while it waits; False ends the wait.

        Raises:
            StructgenError: No process can be started, or it refuses the constraint.
        """
        compiled = self.compiled
        if compiled is None:
            return self.isolate(is_wanted)
        try:
            with _core.CallLimits(cpu_seconds=CALL_SECONDS):
                return MigratingMatcher(compiled.open(), self)
        except _core.LimitError:
            return self.isolate(is_wanted)

    @property
    def has_process(self) -> bool:
        """Return whether its matcher process runs."""
        process = None if self._process is None else self._process()
        return process is not None and not process.has_ended

    def isolate(
        self, is_wanted: Callable[[], bool] = lambda: True, *, has_started: bool = False
    ) -> IsolatedMatcher:
        """Return a new matcher in a matcher process. All later matchers are isolated, too."""
        matcher = self.open_isolated(is_wanted, has_started=has_started)
        self.compiled = None
        return matcher

    def open_isolated(
        self, is_wanted: Callable[[], bool] = lambda: True, *, has_started: bool = False
    ) -> IsolatedMatcher:
        """Return a new matcher in a matcher process, and leave later matchers where they are.

        Args:
            is_wanted: Called repeatedly while it waits; False ends the wait.
            has_started: See `MatcherProcesses.start`.
        """
        self._waiting.append(is_wanted)
        try:
            while not self._lock.acquire(timeout=_POLL_SECONDS):
                if not is_wanted():
                    raise disconnected()
            try:
                process = None if self._process is None else self._process()
                matcher = None if process is None else open_isolated_matcher(process)
                return self._start_process(has_started) if matcher is None else matcher
            finally:
                self._lock.release()
        finally:
            self._waiting.remove(is_wanted)
            if not self._waiting:
                spare, self._spare = self._spare, None
                if spare is not None:
                    spare.on_disconnect()

    def in_own_engine(self) -> CompiledConstraint | None:
        """Compile it in this process, in an engine of its own, for which no other request waits.

        Returns:
            None if the constraint is isolated.
        """
        compiled = self.compiled
        return None if compiled is None else compiled.in_own_engine()

    def in_fresh_engine(self, matcher: Matcher) -> Matcher | None:
        """Return a matcher in an engine that has room, in place of `matcher`; None if the constraint is isolated."""
        compiled = self.compiled
        if compiled is None:
            return None
        if compiled.vocabulary is matcher.vocabulary:  # otherwise another request has done it already
            compiled = self.recompile(compiled)
            if compiled is None:
                return None
            self.compiled = compiled
        return compiled.open()

    def least_tokens_for(self, room: int, isolated: Callable[[], IsolatedMatcher]) -> int | None:
        """Return the number of tokens of a short text; see `Matcher.least_tokens`.

        Args:
            room: The search stops at a text of at most `room` tokens.
            isolated: Returns a matcher for the search, if the known length does not answer it.
        """
        if self.least_tokens is not None and self.least_tokens <= room:
            return self.least_tokens
        known = self._least_by_room
        if room not in known:
            if len(known) >= _MOST_ROOMS:
                known = self._least_by_room = {}  # a new one: other threads may be reading the old one
            known[room] = isolated().least_tokens(room)
        return known[room]

    def _is_wanted(self) -> bool:
        return any(is_wanted() for is_wanted in tuple(self._waiting))

    def _start_process(self, has_started: bool) -> IsolatedMatcher:
        if self._refusal is not None:
            raise detached(self._refusal)
        if not self._is_wanted():
            raise disconnected()
        try:
            process = self.processes.start(self.pickled, self._is_wanted, has_started=has_started)
        except StructgenError as error:
            if temporary_status(error) is None:
                self._refusal = detached(error)
            raise
        self._process = weakref.ref(process)
        self._spare = open_isolated_matcher(process)
        # All matcher processes may have been ended meanwhile.
        return open_isolated_matcher(process) or self._start_process(has_started)
