"""Is a spec fit to be served? Asked in the process where requests come in, which makes no masks.

Why: a bad spec is refused there, with its message, and never reaches the engine.
Invariant: nothing is compiled in this process; verdicts are those of `ConstraintCompiler` over the same vocabulary.
"""

from __future__ import annotations

from typing import Any

from .compiler import check_install
from .probe import Trial
from .probes import Job, Trials
from .requests import Kind

__all__ = ["SpecChecker"]


class SpecChecker(Trials[bool]):
    """The same as `ConstraintCompiler`, without what it compiles."""

    def check(self, kind: Kind, spec: Any) -> None:
        """Waits for the verdict. Raises `StructgenError`."""
        self.result(kind, spec)

    def _outcome(self, job: Job[bool], trial: Trial) -> bool:
        if self._workers:
            check_install(trial, self.limits)
        return True
