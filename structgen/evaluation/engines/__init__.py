"""Engines behind one small protocol: a schema compiled, then masks and tokens.

Why: everything that is measured (instances read, texts written) runs the same loop over every engine.
Invariant: ``mask()`` has int32 words, least significant bit first, as many as the vocabulary needs; a text may end
where the end-of-text token is in it. What an engine raises is what it did: nothing is caught here.
Each runs with its defaults and on one thread. Cost: beside the engine's own work, one call of Python.
An endpoint (``openai:URL``) has no masks; it is asked for texts, in `structgen.evaluation.endpoints`.
"""

from .base import Engine, Session, Words, accepts
from .registry import ENGINES, check_engine, engine_version, is_endpoint, open_engine

__all__ = [
    "ENGINES",
    "Engine",
    "Session",
    "Words",
    "accepts",
    "check_engine",
    "engine_version",
    "is_endpoint",
    "open_engine",
]
