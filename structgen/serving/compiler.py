"""Specs to compiled constraints, off the engine's thread: remembered, bounded, hostile ones kept apart.

Why: whoever serves strangers compiles what they send; one of them must not stop the others. A process of its own tries
each new spec out under limits of time and memory (`trials`, `worker`). What comes back is compiled here: in the engine
that all share if it was quick there, in one of its own, with a lock of its own, if a mask was slow, and not at all if
building its automaton alone would hold up the process.
Invariant: what is kept is bounded by number and by memory.
Cost: a spec that is known is a look-up; a new one a round trip to the worker and twice its compile time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from structgen import _core
from structgen.constraints.base import Constraint
from structgen.constraints.failures import limit_exceeded
from structgen.errors import LimitExceeded
from structgen.matcher import Matcher
from structgen.tools.forms import Forms
from structgen.vocabulary import Vocabulary

from .probe import Trial, serving_vocabulary
from .probes import SECONDS, CompilerStats, Job, Trials
from .requests import Kind, RequestLimits

__all__ = [
    "MASK_BYTES",
    "SECONDS",
    "Compiled",
    "CompilerStats",
    "ConstraintCompiler",
    "check_install",
    "install",
]

MASK_BYTES = 64 << 20
"""Memory of masks in the shared engine past which compiled specs are let go, those used longest ago first."""


@dataclass(frozen=True, eq=False)
class Compiled:
    """A constraint with its automaton, for any number of requests."""

    kind: Kind
    key: bytes
    constraint: Constraint
    vocabulary: Vocabulary
    """That of the engine that it was compiled in."""
    program: _core.Program
    is_slow: bool
    """It has an engine of its own."""
    forms: Forms
    """See `Trial.forms`."""

    def open(self) -> Matcher:
        """A fresh matcher."""
        return Matcher.of_program(self.constraint, self.vocabulary, self.program)

    def apart(self) -> Compiled:
        """The same, compiled once more, in an engine of its own."""
        return self._again(serving_vocabulary(self.vocabulary), is_slow=True)

    def within(self, vocabulary: Vocabulary) -> Compiled:
        """The same, compiled once more, in the engine of another vocabulary of the same tokens."""
        return self._again(vocabulary, is_slow=self.is_slow)

    def _again(self, vocabulary: Vocabulary, *, is_slow: bool) -> Compiled:
        return _built(self.kind, self.key, self.constraint, vocabulary, self.forms, is_slow=is_slow)


class ConstraintCompiler(Trials[Compiled]):
    """Compiles for one vocabulary; safe to use from any thread."""

    def compile(self, kind: Kind, spec: Any) -> Compiled:
        """The spec, compiled, waiting for it. Raises `StructgenError`."""
        return self.result(kind, spec)

    def _outcome(self, job: Job[Compiled], trial: Trial) -> Compiled:
        if self._workers:
            check_install(trial, self.limits)
        is_slow = trial.slowest_mask > self.limits.slow_mask_seconds
        return install(job, trial, self.vocabulary, self.limits, is_slow=is_slow)

    def _mask_bytes(self) -> int:
        return self.vocabulary.engine.mask_memory

    def _check_room(self) -> bool:
        return self._mask_bytes() <= MASK_BYTES


def install(
    job: Job[Any], trial: Trial, vocabulary: Vocabulary, limits: RequestLimits, *, is_slow: bool
) -> Compiled:
    """A spec that was tried out, compiled in this process; in an engine of its own if its masks are slow."""
    constraint = trial.constraint(job.kind, job.spec, vocabulary, limits)
    if is_slow:
        vocabulary = serving_vocabulary(vocabulary)
    return _built(job.kind, job.key, constraint, vocabulary, trial.forms, is_slow=is_slow)


def _built(
    kind: Kind, key: bytes, constraint: Constraint, vocabulary: Vocabulary, forms: Forms, *, is_slow: bool
) -> Compiled:
    try:
        program = vocabulary.engine.compile(constraint.lower())
    except _core.LimitError as error:
        raise limit_exceeded(error, constraint.describe()) from None
    return Compiled(kind, key, constraint, vocabulary, program, is_slow, forms)


def check_install(trial: Trial, limits: RequestLimits) -> None:
    """Raises `LimitExceeded` where the automaton takes too long to build in a process that serves others."""
    if trial.install_seconds > limits.install_seconds:
        raise LimitExceeded(
            f"the constraint's automaton takes {trial.install_seconds * 1000:.0f} ms to build, more than "
            f"{limits.install_seconds * 1000:.0f}",
            limit="install_seconds",
            hint="Send a smaller one; the operator of the server can raise install_seconds.",
        )
