"""Compile specs to constraints outside the engine's thread: cached, bounded, and with hostile specs kept apart.

Why: a server for strangers compiles what they send, and one of them must not stop the others. Each new spec is first
compiled in a worker process under limits of time and memory (`probes`). What passes is compiled here: in the engine
that all constraints share if it was quick there, in an engine of its own, with its own lock, if a mask was slow, and
not at all if building its automaton would hold up the process. A spec whose form shows that it is harmless
(`simple_specs`) is compiled here at once, in at most three times the CPU time that building a probed one may take.
Invariant: the cache is bounded by number and by memory.
Cost: a known spec is a look-up, a simple one takes its compile time, and any other twice that and a round trip to the
worker.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any

from structgen import _core
from structgen.constraints.base import Constraint
from structgen.constraints.failures import limit_exceeded
from structgen.errors import LimitExceeded, StructgenError
from structgen.matcher import Matcher
from structgen.tools.forms import Forms
from structgen.vocabulary import Vocabulary

from .closing import KeptNeeds
from .limits import RequestLimits
from .probe import DeferredConstraint, ProbeResult, serving_vocabulary, special_names
from .probes import SECONDS, CompileProbes, CompilerStats, ProbeJob
from .requests import Kind, spec_text
from .simple_specs import simple_constraint

__all__ = [
    "MASK_BYTES",
    "SECONDS",
    "CompiledConstraint",
    "CompilerStats",
    "ConstraintCompiler",
    "check_build_time",
    "install",
]

MASK_BYTES = 64 << 20
"""Memory of the shared engine's masks, in bytes, above which the least recently used constraints are evicted."""
_BUSY = 4
"""Factor by which a busy machine may exceed the build limit."""


@dataclass(frozen=True, eq=False)
class CompiledConstraint:
    """A constraint with its automaton, for any number of requests."""

    kind: Kind
    key: bytes
    """The hash of its kind and spec."""
    constraint: Constraint
    vocabulary: Vocabulary
    """The vocabulary in whose engine it was compiled."""
    program: _core.Program
    is_slow: bool
    """Whether it has an engine of its own."""
    forms: Forms
    """See `ProbeResult.forms`."""
    needs: KeptNeeds = field(default_factory=OrderedDict)
    """See `Closing.kept`."""

    def open(self) -> Matcher:
        """Return a new matcher."""
        return Matcher.of_program(self.constraint, self.vocabulary, self.program)

    def in_own_engine(self) -> CompiledConstraint:
        """Compile it again, in an engine of its own."""
        return self._compiled_again(serving_vocabulary(self.vocabulary), is_slow=True)

    def in_engine_of(self, vocabulary: Vocabulary) -> CompiledConstraint:
        """Compile it again, in the engine of another vocabulary with the same tokens."""
        return self._compiled_again(vocabulary, is_slow=self.is_slow)

    def _compiled_again(self, vocabulary: Vocabulary, *, is_slow: bool) -> CompiledConstraint:
        return _compile(self.kind, self.key, self.constraint, vocabulary, self.forms, is_slow=is_slow)


class ConstraintCompiler(CompileProbes[CompiledConstraint]):
    """Compile specs for one vocabulary. Safe to use from any thread."""

    def compile(self, kind: Kind, spec: Any) -> CompiledConstraint:
        """Compile a spec and wait for it. Raises `StructgenError` if it is refused."""
        return self.result(kind, spec)

    def _install(self, job: ProbeJob[CompiledConstraint], probe: ProbeResult) -> CompiledConstraint:
        if self._workers:
            check_build_time(job, probe, self.limits)
        is_slow = probe.slowest_mask > self.limits.slow_mask_seconds
        return install(job, probe, self.vocabulary, self.limits, is_slow=is_slow)

    def _install_unprobed(self, job: ProbeJob[CompiledConstraint]) -> CompiledConstraint | None:
        """Compile a spec whose form shows that it is harmless; None if it is not, or takes too much CPU time."""
        if job.kind not in ("json", "structural_tag"):
            return None
        limits, specials = self.limits, special_names(self.vocabulary)
        size = _size(job)
        if size > limits.max_bytes:
            return None
        most = limits.install_seconds_for(size)
        try:
            with _core.CallLimits(cpu_seconds=2 * most):  # reading does not hold the interpreter
                read = simple_constraint(job.kind, job.spec, limits, specials)
                if read is None:
                    return None
                ir = read.lower()
            with _core.CallLimits(cpu_seconds=most):
                program = self.vocabulary.engine.compile(ir)
                if program.empty_parts() is not None:
                    return None
                _core.Matcher(program).mask()  # the slowest one; it is kept for the requests
        except (StructgenError, _core.LimitError, RecursionError):
            return None  # the probe says what is wrong, or takes its time
        # subtle: without the IR, which is many times as large as the spec.
        kept = DeferredConstraint(job.kind, job.spec, limits, specials, read.describe())
        return CompiledConstraint(job.kind, job.key, kept, self.vocabulary, program, False, {})

    def _mask_bytes(self) -> int:
        return self.vocabulary.engine.mask_memory

    def _has_room(self) -> bool:
        return self._mask_bytes() <= MASK_BYTES


def install(
    job: ProbeJob[Any], probe: ProbeResult, vocabulary: Vocabulary, limits: RequestLimits, *, is_slow: bool
) -> CompiledConstraint:
    """Compile a probed spec in this process; in an engine of its own if its masks are slow."""
    constraint = probe.constraint(job.kind, job.spec, vocabulary, limits)
    if is_slow:
        vocabulary = serving_vocabulary(vocabulary)
    return _compile(job.kind, job.key, constraint, vocabulary, probe.forms, is_slow=is_slow)


def _compile(
    kind: Kind, key: bytes, constraint: Constraint, vocabulary: Vocabulary, forms: Forms, *, is_slow: bool
) -> CompiledConstraint:
    try:
        program = vocabulary.engine.compile(constraint.lower())
    except _core.LimitError as error:
        raise limit_exceeded(error, constraint.describe()) from None
    return CompiledConstraint(kind, key, constraint, vocabulary, program, is_slow, forms)


def check_build_time(job: ProbeJob[Any], probe: ProbeResult, limits: RequestLimits) -> None:
    """Raise `LimitExceeded` if the automaton takes too long to build in a process that serves others."""
    size, lowered = 0 if job.kind == "json_object" else _size(job), len(probe.lowered or b"")
    most = limits.install_seconds_for(size, lowered)
    if probe.install_work <= most:  # then a busy machine has lengthened the CPU time
        # subtle: the limit without the lowered form, since the sender decides how large that is.
        most = max(most, _BUSY * limits.install_seconds_for(size))
    if probe.install_seconds > most:
        form = f" ({lowered:,} in the form that is built)" if lowered > size else ""
        raise LimitExceeded(
            f"the constraint's automaton takes {probe.install_seconds * 1000:.0f} ms to build, more than "
            f"{most * 1000:.0f} for {size:,} bytes{form}",
            limit="install_seconds",
            hint="Send a smaller one; the operator of the server can raise install_seconds.",
        )


def _size(job: ProbeJob[Any]) -> int:
    """Return the bytes of a spec."""
    return len(spec_text(job.spec).encode("utf-8", "surrogatepass"))
