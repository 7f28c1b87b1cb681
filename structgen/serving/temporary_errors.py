"""Refusals: which of them pass, and how they are kept.

Why: clients try again after 429, 500 and 503, and not after 400; and what passes must not be remembered of a spec. An
error that was raised holds the frames that it went through, and they hold the spec, the row, its lane.
"""

from __future__ import annotations

import copy

from structgen.errors import LimitExceeded, StructgenError

__all__ = ["detached", "passing_status"]

_STATUS = {
    "max_pending": 429,
    "max_lanes": 429,
    "busy": 503,
    "worker": 503,
    "closed": 503,
    "left": 503,
    "internal": 500,
}
"""By the limit: too many wait; the process that compiles specs did not get its time, does not start or was closed; the
client has disconnected; or this program has a fault."""


def passing_status(error: StructgenError) -> int | None:
    """The HTTP status of a refusal that passes; None where it is the request's own fault."""
    return _STATUS.get(error.limit or "") if isinstance(error, LimitExceeded) else None


def detached(error: StructgenError) -> StructgenError:
    """The same error without the frames that it was raised in, to be kept, or raised anew."""
    made = copy.copy(error)
    made.__traceback__ = made.__context__ = made.__cause__ = None
    return made
