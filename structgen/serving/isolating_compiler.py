"""The compiler of the OpenAI-compatible server, which isolates slow constraints instead of refusing them.

What: a spec whose probe was quick is compiled in this process, as in `ConstraintCompiler`. Its matchers run here under
tight limits: each call of the core may take `CALL_SECONDS` of CPU time. A matcher that exceeds a limit in the middle of
a text moves to a matcher process, and its constraint is isolated from then on. A constraint whose automaton takes more
than `_BUILD_SECONDS` to build, or whose masks were slow in its probe, is isolated from the start. A call of the core is
stopped when its client has disconnected.
Invariant: a text is the same in either place. The cache is bounded by number and by memory.
"""

from __future__ import annotations

import logging
import pickle
from typing import Any

from structgen import _core
from structgen._sandbox.priority import SlowWork
from structgen.constraints.regex import regex
from structgen.errors import LimitExceeded
from structgen.vocabulary import Vocabulary

from .compiler import MASK_BYTES, CompiledConstraint, install
from .isolatable_constraint import IsolatableConstraint
from .limits import DEFAULT_LIMITS, RequestLimits
from .matcher_processes import MatcherProcesses
from .migrating_matcher import CALL_SECONDS, SHARED_LIMITS
from .probe import ProbeResult, serving_vocabulary
from .probes import CompileProbes, ProbeJob
from .requests import Kind

__all__ = ["IsolatingCompiler"]

logger = logging.getLogger(__name__)

_CHECKED = "a"
"""The pattern that `check_processes` compiles."""
_BUILD_SECONDS = 0.01
"""CPU time of building an automaton above which its constraint is isolated."""
_TIGHT = {"mask_steps": 50_000, "earley_items": 4_000}
"""Default limits of the shared engine, under which a mask takes some ten milliseconds at most (docs/server.md)."""
_ENGINE_BYTES = 512 << 20
"""Memory of the shared engine, in bytes, above which it is replaced."""
_PICKLED_BYTES = 64 << 20
"""Memory of pickled constraints, in bytes, above which the least recently used ones are evicted."""


class IsolatingCompiler(CompileProbes[CompiledConstraint | IsolatableConstraint]):
    """Compile specs for one vocabulary. Safe to use from any thread."""

    def __init__(
        self,
        vocabulary: Vocabulary,
        limits: RequestLimits = DEFAULT_LIMITS,
        workers: int = 1,
        queue_seconds: float = 0.0,
    ) -> None:
        """Start the workers and the matcher processes.

        Args:
            vocabulary: The vocabulary to compile for.
            limits: Limits on each spec, on matcher processes and on the cache.
            workers: Worker processes for probes. With 0 there are no matcher processes either.
            queue_seconds: How long a request may wait for a process, or for its CPU time; see `CompileProbes` and
                `MatcherProcesses`.
        """
        tight = vocabulary.with_limits(**{**_TIGHT, **vocabulary.limits})
        tight.__dict__["native"] = vocabulary.native
        self._tight = tight if workers else vocabulary
        self._shared_vocabulary = serving_vocabulary(self._tight)
        self.slow_work = SlowWork()
        """The slow work in progress. A thread that keeps the processors busy must pause while there is any."""
        super().__init__(vocabulary, limits, workers, self.slow_work, queue_seconds)
        self.matcher_processes = (
            MatcherProcesses(self.vocabulary, limits, self.slow_work, queue_seconds) if workers else None
        )

    def check_processes(self) -> None:
        """Compile a small constraint in a process of each type. Log a warning if there are no matcher processes.

        Raises:
            StructgenError: No process compiles constraints: it does not start, or its limits are too tight.
        """
        self.wait_until_ready()
        if self.matcher_processes is None:
            return
        try:
            self.result("regex", _CHECKED)
        except LimitExceeded as error:
            if error.limit != "busy":  # a busy machine is no reason not to start
                raise
        try:
            self.matcher_processes.check(pickle.dumps(regex(_CHECKED), pickle.HIGHEST_PROTOCOL))
        except LimitExceeded as error:
            if error.limit != "busy":
                logger.warning(
                    "matcher processes do not work: %s. Constraints that are too slow for the server's own process "
                    "will get an error.",
                    getattr(error, "reason", "") or error.message,
                )

    def compile(self, kind: Kind, spec: Any) -> CompiledConstraint | IsolatableConstraint:
        """Compile a spec and wait for it. Raises `StructgenError` if it is refused."""
        return self.result(kind, spec)

    def close(self) -> None:
        """Stop the workers and the matcher processes."""
        super().close()
        if self.matcher_processes is not None:
            self.matcher_processes.close()

    def _install(
        self, job: ProbeJob[CompiledConstraint | IsolatableConstraint], probe: ProbeResult
    ) -> CompiledConstraint | IsolatableConstraint:
        is_slow = probe.slowest_mask > self.limits.slow_mask_seconds
        if self.matcher_processes is None:
            return install(job, probe, self._shared_vocabulary, self.limits, is_slow=is_slow)
        compiled: CompiledConstraint | None = None
        if not is_slow and probe.install_seconds <= _BUILD_SECONDS:
            compiled = self._install_here(job, probe)
        constraint = probe.constraint(job.kind, job.spec, self.vocabulary, self.limits)
        pickled = pickle.dumps(constraint, pickle.HIGHEST_PROTOCOL)
        return IsolatableConstraint(
            job.kind,
            job.key,
            pickled,
            self.matcher_processes,
            compiled,
            self._recompile,
            probe.least_tokens,
            probe.forms,
        )

    def _install_here(
        self, job: ProbeJob[CompiledConstraint | IsolatableConstraint], probe: ProbeResult
    ) -> CompiledConstraint | None:
        """Compile it in this process; return None if that takes too long.

        Its probe met no limit, so a matcher process has room for it.
        """
        for _ in range(2):
            vocabulary = self._shared_vocabulary
            try:
                with _core.CallLimits(cpu_seconds=CALL_SECONDS):
                    return install(job, probe, vocabulary, self.limits, is_slow=False)
            except LimitExceeded as error:
                if error.limit not in SHARED_LIMITS:
                    return None
                self._replace_engine(vocabulary)
        return None

    def _recompile(self, compiled: CompiledConstraint) -> CompiledConstraint | None:
        self._replace_engine(compiled.vocabulary)
        return compiled.in_engine_of(self._shared_vocabulary)

    def _replace_engine(self, full: Vocabulary) -> None:
        """Replace a full engine. It is freed with the matchers that still use it."""
        with self._lock:
            if self._shared_vocabulary is not full:
                return
            self._shared_vocabulary = serving_vocabulary(self._tight)
            for key, known in list(self._known.items()):
                if isinstance(known, IsolatableConstraint) and known.compiled is not None:
                    del self._known[key]

    def _mask_bytes(self) -> int:
        return self._shared_vocabulary.engine.mask_memory

    def _has_room(self) -> bool:
        vocabulary = self._shared_vocabulary
        if vocabulary.engine.memory > _ENGINE_BYTES:
            self._replace_engine(vocabulary)
        pickled = sum(
            len(known.pickled) for known in self._known.values() if isinstance(known, IsolatableConstraint)
        )
        return self._mask_bytes() <= MASK_BYTES and pickled <= _PICKLED_BYTES
