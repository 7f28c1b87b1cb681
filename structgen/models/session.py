"""`start_session`: the session that fits a `transformers` model.

`BatchedSession` keeps all rows in one KV cache. `SeparateSession` reads its rows one by one, for models whose memory
has no slots that could be empty, and `RecurrentSession` is one for states. Models without a usable cache run in a
`RereadingSession`.
"""

from __future__ import annotations

from collections.abc import Sequence

from structgen.errors import ModelError

from .batched_session import BatchedSession
from .cached_session import Tokens
from .caches import NoCache, forgets, memory_of
from .recurrent_session import RecurrentSession
from .rereading import RereadingSession
from .separate_session import SeparateSession

__all__ = ["start_session"]


def start_session(
    model: object, size: int, prompts: Tokens, layers: Sequence[int] = ()
) -> BatchedSession | SeparateSession | RereadingSession:
    """Prefill one row per prompt and return the session that fits the model. It keeps hidden states of `layers`."""
    if not all(prompts):
        raise ModelError("a prompt has no tokens", hint="Every row needs at least one token to start from.")
    kept = memory_of(model, size)
    if kept.argument is not None:
        kind: type[BatchedSession | SeparateSession] = BatchedSession if kept.has_slots else SeparateSession
        if kept.is_recurrent and kept.reads_runs:
            kind = RecurrentSession
        try:
            return kind(model, size, prompts, layers)
        except NoCache:
            forgets(model, size)
    return RereadingSession(model, size, prompts, layers)
