"""The embedded language model, loaded once for all tests of a process: a second copy is 0.5 GB.

Tests of modules that use it run before all others, and then it is released (tests/conftest.py). So it is never in
memory beside what the thousands of other tests take, and with several workers only the first one loads it.
"""

from __future__ import annotations

import functools
from importlib import metadata
from typing import Any

import pytest

__all__ = ["embedded_model", "place_in_order", "release", "require_embedded_package", "uses_embedded_model"]


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
    from safetensors import safe_open

    from structgen.models.embedded import embedded_directory
    from structgen.models.loading import load

    model = load()
    # A table of which few rows are read: mapped from its file, these are all that takes memory, instead of 110 MB.
    with safe_open(embedded_directory() / "model.safetensors", "pt") as file:
        model.model.get_input_embeddings().weight.data = file.get_tensor("model.embed_tokens.weight")
    return model


def uses_embedded_model(item: pytest.Item) -> bool:
    """Return whether the test is in a module, or a folder with a `conftest`, that imports `embedded_model`."""
    return place_in_order(item) < 3


def place_in_order(item: pytest.Item) -> int:
    """Return 0 and 1 for tests of the server, 2 for others that use the embedded model, 3 for those that do not.

    The server takes the most memory beside the model, so it comes before the others load libraries that stay. For the
    same reason its tests with clients, which load 75 MB, are the last of its tests.
    """
    if item.path.parent.name == "server":  # its conftest imports the model
        return 1 if item.path.name == "test_clients.py" else 0
    return 2 if hasattr(getattr(item, "module", None), "embedded_model") else 3


def release() -> None:
    """Forget the model; the next call of `embedded_model` loads it again."""
    _loaded.cache_clear()
