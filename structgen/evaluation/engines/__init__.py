"""Engines in one small protocol: a schema compiled, then masks and tokens.

Why: everything that is measured (instances read, texts written) runs the same loop over every engine.
Invariant: ``mask()`` has int32 words, least significant bit first, as many as the vocabulary needs; a text may end
where the end-of-sequence token is in it. What an engine raises is its result: nothing is caught here.
Each runs with its defaults and on one thread. Cost: one call of Python in addition to the engine's own work.
An endpoint (``openai:URL``) has no masks; `structgen.evaluation.endpoints` requests texts from it.
"""

from .base import BenchmarkEngine, Engine, ReusableSession, Session, Words, accepts, has_token
from .registry import BENCHMARK_ENGINES, ENGINES, check_engine, engine_version, is_endpoint, open_engine

__all__ = [
    "BENCHMARK_ENGINES",
    "ENGINES",
    "BenchmarkEngine",
    "Engine",
    "ReusableSession",
    "Session",
    "Words",
    "accepts",
    "check_engine",
    "engine_version",
    "has_token",
    "is_endpoint",
    "open_engine",
]
