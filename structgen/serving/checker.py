"""Check whether a spec can be served, in the process that receives requests and computes no masks.

Why: a faulty spec is refused there, with its message, and never reaches the engine.
Invariant: nothing is compiled in this process; verdicts are those of `ConstraintCompiler` over the same vocabulary.
"""

from __future__ import annotations

from typing import Any

from .compiler import check_build_time
from .probe import ProbeResult
from .probes import CompileProbes, ProbeJob
from .requests import Kind

__all__ = ["SpecChecker"]


class SpecChecker(CompileProbes[int | None]):
    """Probes specs as `ConstraintCompiler` does, and compiles nothing itself."""

    def check(self, kind: Kind, spec: Any) -> int | None:
        """Wait for the verdict.

        Returns:
            The number of tokens of a short text, if the probe found one.

        Raises:
            StructgenError: The spec is refused.
        """
        return self.result(kind, spec)

    def _install(self, job: ProbeJob[int | None], probe: ProbeResult) -> int | None:
        if self._workers:
            check_build_time(job, probe, self.limits)
        return probe.least_tokens
