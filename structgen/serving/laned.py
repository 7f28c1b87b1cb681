"""The compiler of a server whose own matchers may live elsewhere: what takes long gets a lane instead of a refusal.

What: a spec whose trial was quick is compiled in this process, as `ConstraintCompiler` does; one whose automaton takes
more than `_INSTALL_SECONDS` to build, or whose masks are slow, is kept as it came from its trial, pickled, and lives in
a lane (`lanes`) while somebody draws by it.
Invariant: nothing that takes long is unpickled, built or asked here. What is kept is bounded by number and by memory.
"""

from __future__ import annotations

import threading
import weakref
from dataclasses import dataclass, field
from typing import Any

from structgen.vocabulary import Vocabulary

from .compiler import MASK_BYTES, Compiled, install
from .lanes import Lane, LaneMatcher, Lanes
from .requests import DEFAULT_LIMITS, Kind, RequestLimits
from .trial import Trial
from .trials import Job, Trials

__all__ = ["LanedCompiler", "LanedSpec"]

_INSTALL_SECONDS = 0.01
_PICKLED_BYTES = 64 << 20
"""Memory of pickled specs past which those used longest ago are let go."""


@dataclass(eq=False)
class LanedSpec:
    """A spec that takes long, for any number of requests; those at the same time share a lane."""

    kind: Kind
    key: bytes
    pickled: bytes
    words: int
    lanes: Lanes
    is_slow: bool = True
    _lane: weakref.ReferenceType[Lane] | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def open(self) -> LaneMatcher:
        """A fresh matcher. Waits for the lane; raises `StructgenError`."""
        with self._lock:
            lane = None if self._lane is None else self._lane()
            if lane is None or lane.is_over:
                lane = self.lanes.lane(self.pickled)
                self._lane = weakref.ref(lane)
        return LaneMatcher(lane, self.words)


class LanedCompiler(Trials[Compiled | LanedSpec]):
    """Safe to use from any thread. Without `workers` there are no lanes either."""

    def __init__(
        self, vocabulary: Vocabulary, limits: RequestLimits = DEFAULT_LIMITS, workers: int = 1
    ) -> None:
        super().__init__(vocabulary, limits, workers)
        self.lanes = Lanes(self.vocabulary, limits) if workers else None

    def compile(self, kind: Kind, spec: Any) -> Compiled | LanedSpec:
        """The spec, compiled or ready for a lane, waiting for it. Raises `StructgenError`."""
        return self.result(kind, spec)

    def close(self) -> None:
        super().close()
        if self.lanes is not None:
            self.lanes.close()

    def _outcome(self, job: Job[Compiled | LanedSpec], trial: Trial) -> Compiled | LanedSpec:
        is_slow = trial.slowest_mask > self.limits.slow_mask_seconds
        if self.lanes is not None and (is_slow or trial.install_seconds > _INSTALL_SECONDS):
            return LanedSpec(job.kind, job.key, trial.pickled, self.vocabulary.words, self.lanes)
        return install(job.kind, job.key, trial, self.vocabulary, is_slow=is_slow)

    def _mask_bytes(self) -> int:
        return self.vocabulary.engine.mask_memory

    def _check_room(self) -> bool:
        pickled = sum(len(one.pickled) for one in self._known.values() if isinstance(one, LanedSpec))
        return self._mask_bytes() <= MASK_BYTES and pickled <= _PICKLED_BYTES
