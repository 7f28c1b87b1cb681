"""Which refusals are temporary, and how errors are kept.

Why: clients retry after the statuses 429, 500 and 503, and not after 400. A temporary refusal must not be remembered
for a spec. An error that was raised refers to the frames that it passed through, and these refer to the spec, the row
and its matcher process.
"""

from __future__ import annotations

import copy

from structgen.errors import LimitExceeded, StructgenError

__all__ = ["detached", "temporary_status"]

_STATUS = {
    "max_pending": 429,
    "max_matcher_processes": 429,
    "busy": 503,
    "worker": 503,
    "closed": 503,
    "disconnected": 503,
    "internal": 500,
}
"""By limit: too many wait or run; the process that compiles specs got no CPU time, does not start or was closed; the
client has disconnected; this program has a fault."""


def temporary_status(error: StructgenError) -> int | None:
    """Return the HTTP status of a temporary refusal; None if the request itself is at fault."""
    return _STATUS.get(error.limit or "") if isinstance(error, LimitExceeded) else None


def detached(error: StructgenError) -> StructgenError:
    """Return a copy of an error without the frames it was raised in, which can be kept or raised again."""
    made = copy.copy(error)
    made.__traceback__ = made.__context__ = made.__cause__ = None
    return made
