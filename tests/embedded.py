"""The embedded language model, loaded once for all tests of a process: a second copy is 0.5 GB.

Tests of modules that use it run before all others, and then it is released (tests/conftest.py). So it is never in
memory together with the data of the thousands of other tests, and with several workers only the first one loads it.
"""

from __future__ import annotations

import functools
from importlib import metadata
from typing import Any

import pytest

__all__ = [
    "embedded_model",
    "model_of",
    "place_in_order",
    "release",
    "require_embedded_package",
    "shallow_model",
]


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
    # Few rows of this table are read. Mapped from its file, only they take memory, instead of 110 MB.
    with safe_open(embedded_directory() / "model.safetensors", "pt") as file:
        model.model.get_input_embeddings().weight.data = file.get_tensor("model.embed_tokens.weight")
    return model


def shallow_model() -> Any:
    """Return the embedded model's first layers, for tests of structure, in which it does not matter what a model says.

    It takes a third of the time and 0.3 GB less. Tests are skipped where the model is not installed.
    """
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    require_embedded_package()
    return _first_layers()


@functools.cache
def _first_layers() -> Any:
    import torch
    import transformers

    from structgen.models.embedded import embedded_directory
    from structgen.models.loading import wrap

    folder = embedded_directory()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, num_hidden_layers=4
    )
    return wrap(model, tokenizer)


def model_of(item: pytest.Item) -> str:
    """Return which model the module of a test uses, or the `conftest` of its folder: whole, shallow, or none ("")."""
    module = getattr(item, "module", None)
    if item.path.parent.name == "server" or hasattr(module, "shallow_model"):
        return "shallow"
    return "whole" if hasattr(module, "embedded_model") else ""


def place_in_order(item: pytest.Item) -> int:
    """Return 0, 1 and 2 for tests of the whole model, 3 and 4 for those of the server, 5 for the others.

    The whole model takes the most memory, so its tests come before others load libraries that stay; of these the
    examples, the loop of tools and the pages of the documentation come first: some take 100 MB for a moment. For the
    same reason the tests of the server with clients, which load 75 MB, are the last of its tests.
    """
    match model_of(item):
        case "whole":
            return {"test_examples.py": 0, "test_loop.py": 0, "test_docs.py": 1}.get(item.path.name, 2)
        case "shallow":
            return 4 if item.path.name == "test_clients.py" else 3
        case _:
            return 5


def release() -> None:
    """Forget the models; the next call of `embedded_model` or `shallow_model` loads its own again."""
    _loaded.cache_clear()
    _first_layers.cache_clear()
