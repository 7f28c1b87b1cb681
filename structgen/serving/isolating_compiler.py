"""The compiler of a server whose own matchers may live elsewhere: what takes long gets a lane instead of a refusal.

What: a spec whose trial was quick is compiled in this process, as in `ConstraintCompiler`. Its matchers run here under
tight limits: each call of the core may take `CALL_SECONDS` of CPU time. A matcher that meets one of them in the middle
of a text moves to a lane (`lanes`), and the spec with it. One whose automaton takes more than `_INSTALL_SECONDS` to
build, or whose masks were slow in the trial, has a lane from the start. A call of the core is stopped when its client
has disconnected.
Invariant: nothing that was seen to take long is unpickled, built or asked here; nor is a completion looked for, which
has no limit of work so tight, and masks of others would wait for it. A text is the same in either place. What is kept
is bounded by number and by memory.
"""

from __future__ import annotations

import pickle
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from structgen import _core
from structgen._sandbox.priority import SlowWork
from structgen.errors import LimitExceeded, StructgenError
from structgen.matcher import Matcher
from structgen.tools.forms import Forms
from structgen.vocabulary import Vocabulary

from .compiler import MASK_BYTES, Compiled, install
from .matcher_process import Lane, LaneMatcher, Lanes, left
from .migrating_matcher import CALL_SECONDS, SHARED_LIMITS, MovingMatcher
from .probe import Trial, serving_vocabulary
from .probes import Job, Trials
from .requests import DEFAULT_LIMITS, Kind, RequestLimits
from .temporary_errors import detached, passing_status

__all__ = ["LanedCompiler", "LanedSpec"]

_INSTALL_SECONDS = 0.01
_TIGHT = {"mask_steps": 50_000, "earley_items": 4_000}
"""Under which a mask takes some ten milliseconds at most, where the vocabulary sets no limits (docs/server.md)."""
_ENGINE_BYTES = 512 << 20
"""Memory of that engine past which a fresh one takes its place."""
_MOST_ASKED = 64
_ASK_AGAIN = 0.05
_PICKLED_BYTES = 64 << 20
"""Memory of pickled specs past which those used longest ago are let go."""


@dataclass(eq=False)
class LanedSpec:
    """A spec for any number of requests; those in a lane at the same time share it."""

    kind: Kind
    key: bytes
    pickled: bytes
    lanes: Lanes
    quick: Compiled | None
    """It in this process; None: it has a lane."""
    recompile: Callable[[Compiled], Compiled | None] = lambda compiled: None
    """In a fresh engine, if the one that it was compiled in is full."""
    least_tokens: int | None = None
    """Of a short text, if one was found in the trial."""
    forms: Forms = field(default_factory=dict)
    """See `Trial.forms`."""
    _asked: dict[int, int | None] = field(default_factory=dict)
    """Of texts that are longer than so many tokens, as far as was found out."""
    _lane: weakref.ReferenceType[Lane] | None = None
    _refused: StructgenError | None = None
    """By a lane, for what it is and not for what there was: as any other lane would."""
    _waiting: list[Callable[[], bool]] = field(default_factory=list)
    """Of each who waits for a lane: is it still wanted?"""
    _kept: LaneMatcher | None = None
    """Of a lane that was built, while others wait for it: who had it built may have gone."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def is_slow(self) -> bool:
        return self.quick is None

    def needs_lane(self, room: int, *, closes: bool) -> bool:
        """Does the opening of a matcher wait for a lane? For a text of `room` tokens that has to close in it or not."""
        return self.quick is None or closes or self.least_tokens is None or self.least_tokens > room

    def renewed(self, matcher: Matcher) -> Matcher | None:
        """Return a matcher of it in an engine that is not full, or None."""
        quick = self.quick
        if quick is None:
            return None
        if quick.vocabulary is matcher.vocabulary:  # else somebody has done it already
            quick = self.recompile(quick)
            if quick is None:
                return None
            self.quick = quick
        return quick.open()

    def apart(self) -> Compiled | None:
        """It in this process, in an engine of its own, which makes nobody wait; None where it takes too long for this
        process."""
        quick = self.quick
        return None if quick is None else quick.apart()

    def open(self, wanted: Callable[[], bool] = lambda: True) -> MovingMatcher | LaneMatcher:
        """A fresh matcher. Waits for the lane, where it has one, as long as it is `wanted`; raises `StructgenError`."""
        quick = self.quick
        if quick is None:
            return self.in_lane(wanted)
        try:
            with _core.CallLimits(cpu_seconds=CALL_SECONDS):
                return MovingMatcher(quick.open(), self)
        except _core.LimitError:
            return self.in_lane(wanted)

    def in_lane(self, wanted: Callable[[], bool] = lambda: True) -> LaneMatcher:
        """A fresh matcher in a lane; so are those to come."""
        matcher = self.beside(wanted)
        self.quick = None
        return matcher

    def least_tokens_for(self, room: int, lane: Callable[[], LaneMatcher]) -> int | None:
        """See `Matcher.least_tokens`; in a `lane`, if that takes more than a look."""
        if self.least_tokens is not None and self.least_tokens <= room:
            return self.least_tokens
        asked = self._asked
        if room not in asked:
            if len(asked) >= _MOST_ASKED:
                asked = self._asked = {}  # a fresh one: other threads may be reading this
            asked[room] = lane().least_tokens(room)
        return asked[room]

    def beside(self, wanted: Callable[[], bool] = lambda: True) -> LaneMatcher:
        """A fresh matcher in a lane, whether others need one or not, for as long as it is `wanted`."""
        self._waiting.append(wanted)
        try:
            while not self._lock.acquire(timeout=_ASK_AGAIN):
                if not wanted():
                    raise left()
            try:
                lane = None if self._lane is None else self._lane()
                matcher = None if lane is None else lane.matcher()
                return self._lane_of_its_own() if matcher is None else matcher
            finally:
                self._lock.release()
        finally:
            self._waiting.remove(wanted)
            if not self._waiting:
                kept, self._kept = self._kept, None
                if kept is not None:
                    kept.on_disconnect()

    def _is_wanted(self) -> bool:
        return any(wanted() for wanted in tuple(self._waiting))

    def _lane_of_its_own(self) -> LaneMatcher:
        if self._refused is not None:
            raise detached(self._refused)
        if not self._is_wanted():
            raise left()
        try:
            lane = self.lanes.lane(self.pickled, self._is_wanted)
        except StructgenError as error:
            if passing_status(error) is None:
                self._refused = detached(error)
            raise
        self._lane = weakref.ref(lane)
        self._kept = lane.matcher()
        return lane.matcher() or self._lane_of_its_own()  # who ends all lanes may have been here


class LanedCompiler(Trials[Compiled | LanedSpec]):
    """Safe to use from any thread. Without `workers` there are no lanes either."""

    def __init__(
        self, vocabulary: Vocabulary, limits: RequestLimits = DEFAULT_LIMITS, workers: int = 1
    ) -> None:
        tight = vocabulary.with_limits(**{**_TIGHT, **vocabulary.limits})
        tight.__dict__["native"] = vocabulary.native
        self._tight = tight if workers else vocabulary
        self._quick_vocabulary = serving_vocabulary(self._tight)
        self.slow_work = SlowWork()
        """What takes long and is under way. Whoever keeps the processors busy has to pause for it."""
        super().__init__(vocabulary, limits, workers, self.slow_work)
        self.lanes = Lanes(self.vocabulary, limits, self.slow_work) if workers else None

    def compile(self, kind: Kind, spec: Any) -> Compiled | LanedSpec:
        """The spec, compiled or ready for a lane, waiting for it. Raises `StructgenError`."""
        return self.result(kind, spec)

    def close(self) -> None:
        super().close()
        if self.lanes is not None:
            self.lanes.close()

    def _outcome(self, job: Job[Compiled | LanedSpec], trial: Trial) -> Compiled | LanedSpec:
        is_slow = trial.slowest_mask > self.limits.slow_mask_seconds
        if self.lanes is None:
            return install(job, trial, self._quick_vocabulary, self.limits, is_slow=is_slow)
        quick: Compiled | None = None
        if not is_slow and trial.install_seconds <= _INSTALL_SECONDS:
            quick = self._installed(job, trial)
        constraint = trial.constraint(job.kind, job.spec, self.vocabulary, self.limits)
        pickled = pickle.dumps(constraint, pickle.HIGHEST_PROTOCOL)
        return LanedSpec(
            job.kind, job.key, pickled, self.lanes, quick, self._recompiled, trial.least_tokens, trial.forms
        )

    def _installed(self, job: Job[Compiled | LanedSpec], trial: Trial) -> Compiled | None:
        """It in this process; None where that takes too long: its trial met no limit, so a lane has room for it."""
        for _ in range(2):
            vocabulary = self._quick_vocabulary
            try:
                with _core.CallLimits(cpu_seconds=CALL_SECONDS):
                    return install(job, trial, vocabulary, self.limits, is_slow=False)
            except LimitExceeded as error:
                if error.limit not in SHARED_LIMITS:
                    return None
                self._renew(vocabulary)
        return None

    def _recompiled(self, compiled: Compiled) -> Compiled | None:
        self._renew(compiled.vocabulary)
        return compiled.within(self._quick_vocabulary)

    def _renew(self, full: Vocabulary) -> None:
        """Replace a full engine. It is freed with the matchers that still use it."""
        with self._lock:
            if self._quick_vocabulary is not full:
                return
            self._quick_vocabulary = serving_vocabulary(self._tight)
            for key, known in list(self._known.items()):
                if isinstance(known, LanedSpec) and known.quick is not None:
                    del self._known[key]

    def _mask_bytes(self) -> int:
        return self._quick_vocabulary.engine.mask_memory

    def _check_room(self) -> bool:
        vocabulary = self._quick_vocabulary
        if vocabulary.engine.memory > _ENGINE_BYTES:
            self._renew(vocabulary)
        pickled = sum(len(one.pickled) for one in self._known.values() if isinstance(one, LanedSpec))
        return self._mask_bytes() <= MASK_BYTES and pickled <= _PICKLED_BYTES
