"""The embedded language model, loaded once for all tests of a process: a second copy is 0.9 GB."""

from __future__ import annotations

import functools
from importlib import metadata
from typing import Any

import pytest

__all__ = ["embedded_model", "require_embedded_package"]


def embedded_model() -> Any:
    """Return SmolLM2-135M; the test is skipped where it is not installed. Do not change its weights."""
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    require_embedded_package()
    return _loaded()


def require_embedded_package() -> None:
    """Skip the test, or the module that is being imported, where the package of the embedded model is missing.

    Its file is all that is used. Importing it would bring pandas along, which is 75 MB.
    """
    from structgen.models.embedded import PACKAGE

    try:
        metadata.version(PACKAGE)
    except metadata.PackageNotFoundError:
        pytest.skip("the embedded model is not installed", allow_module_level=True)


@functools.cache
def _loaded() -> Any:
    from structgen.models.loading import load

    return load()
