"""`transformers_model`: the model of `transformers` that learned drafters take tensors from."""

from __future__ import annotations

from typing import Any

from structgen.errors import ModelError, a_kind

__all__ = ["transformers_model"]


def transformers_model(model: Any) -> Any:
    """Return the model of `transformers` in a `LanguageModel`.

    Raises:
        ModelError: It is not one of `transformers`.
    """
    whole = getattr(model, "model", None)
    while whole is not None and not hasattr(whole, "get_input_embeddings"):
        whole = getattr(whole, "model", None)  # a model with processors contains another one
    if whole is None:
        raise ModelError(
            f"a learned drafter reads the weights of a transformers model, and {a_kind(model)} has none"
        )
    return whole
