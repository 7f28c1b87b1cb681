"""Weights that come with structgen: the learned drafter of the embedded model.

Invariant: a drafter is used for the model that it was trained for, in any precision, and no other. A model is known by
its tokenizer, its number of layers and a sample of its embeddings.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import torch

from structgen.protocols import layer_count_of

from .learned_drafter import LearnedDrafter
from .loading import load_drafter
from .wrapped_models import transformers_model

__all__ = ["base_of", "shipped_drafter"]

_FOLDER = Path(__file__).parent / "shipped"
_FILES = {
    "cceb5abd44fdf097d7b71aa2320cd32e3b54f4fa9ebc98b1031d77fd346a2f02": "smollm2-135m-instruct.safetensors",
}
"""The files, by `base_of` their models."""
_SAMPLED = 64
"""The number of embeddings that tell a model from others."""


def base_of(model: Any) -> str:
    """Return a hash that is the same for a model in all precisions of at least bfloat16, and another for other weights.

    Args:
        model: A `LanguageModel` with a model of `transformers`.
    """
    embeddings = transformers_model(model).get_input_embeddings().weight.detach()
    step = max(1, len(embeddings) // _SAMPLED)
    rows = embeddings[::step].to("cpu", torch.bfloat16)
    known = hashlib.sha256(f"{model.vocabulary.fingerprint} {layer_count_of(model)}".encode())
    known.update(rows.contiguous().view(torch.int16).numpy().tobytes())
    return known.hexdigest()


def shipped_drafter(model: Any) -> LearnedDrafter[Any] | None:
    """Return the drafter that comes with structgen for a model; None for other models.

    Raises:
        ModelError: Its file is damaged.
    """
    try:
        base = base_of(model)
    except Exception:  # noqa: BLE001 — a model may have no embeddings that can be read, and raise anything
        return None
    name = _FILES.get(base)
    if name is None:
        return None
    drafter = load_drafter(_FOLDER / name)
    drafter.prepare(model)
    return drafter
