"""Which refusals are temporary, and how errors are kept.

Why: clients retry after the statuses 429, 500 and 503, and not after 400. A temporary refusal must not be remembered
for a spec. An error that was raised refers to the frames that it passed through, and these refer to the spec, the row
and its matcher process.
"""

from __future__ import annotations

import copy

from structgen.errors import LimitExceeded, StructgenError

__all__ = ["WorkerUnavailable", "detached", "temporary_status"]

_STATUS = {
    "max_pending": 429,
    "max_matcher_processes": 503,
    "busy": 503,
    "worker": 503,
    "closed": 503,
    "disconnected": 503,
    "internal": 500,
}
"""By limit: too many wait; no process was free in time; the process got no CPU time, does not start or was closed; the
client has disconnected; this program has a fault."""


class WorkerUnavailable(LimitExceeded):
    """A process that a request needs does not run.

    Args:
        message: What the client reads.
        reason: Why it does not run, for the operator; it may name files of the server.
    """

    def __init__(self, message: str, *, reason: str = "") -> None:
        super().__init__(message, limit="worker", hint="Try again later.")
        self.reason = reason

    @property
    def cause(self) -> str:
        """Return what the log says: the message without the name of the limit, and the reason."""
        plain = self.message.removesuffix(" (limit worker)")
        return f"{plain}: {self.reason}" if self.reason else plain


def temporary_status(error: StructgenError) -> int | None:
    """Return the HTTP status of a temporary refusal; None if the request itself is at fault."""
    return _STATUS.get(error.limit or "") if isinstance(error, LimitExceeded) else None


def detached(error: StructgenError) -> StructgenError:
    """Return a copy of an error without the frames it was raised in, which can be kept or raised again."""
    made = copy.copy(error)
    made.__traceback__ = made.__context__ = made.__cause__ = None
    return made
