"""`TrimmedModel`: a model of `transformers` whose output layer has the rows of some tokens only.

Why: `DraftModel` and `LayerSkip` run a model for each draft token, and a small one spends much of its time in the
output layer (VocabTrim).
What: a shallow copy of the model, in which a linear layer of some rows takes the place of the output layer. All else is
the model's own forward pass, so a scale, a bound or a bias of its logits applies, too.
Invariant: its logits are those of the model at these tokens, up to rounding. A comparison over a few tokens checks it.
Cost: a copy of the rows. Two passes over four tokens when it is made.
Source: Goel et al. 2025 (VocabTrim).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from structgen.errors import ModelError, StructgenError, a_kind
from structgen.models.caches import memory_of
from structgen.models.decoder_layers import shallow_copy
from structgen.models.packed import pack_linear
from structgen.models.session import start_session

from .learned.output_layers import output_rows
from .trimmed_vocabulary import check_in_vocabulary

__all__ = ["TrimmedModel", "trimmed_output", "with_output"]

_PROBE_TOKENS = 4
_TOLERANCE = 0.02
"""The largest difference of logits, as a fraction of the largest one: low precisions round to eight bits."""


class TrimmedModel:
    """A language model whose sessions give logits of some tokens only, ``[rows, tokens]``.

    Args:
        model: The model, a `LanguageModel` with a model of `transformers`.
        token_ids: The tokens, ascending.

    Raises:
        ModelError: Rows of its output layer cannot be taken, or it does not have one of the tokens.
    """

    def __init__(self, model: Any, token_ids: NDArray[np.int64]) -> None:
        self.vocabulary, self.context_length = model.vocabulary, model.context_length
        self.token_ids = token_ids
        output = trimmed_output(model, token_ids)
        self.model = with_output(model.model, output)
        # subtle: what a model keeps is found with some of its tokens, and fewer logits give fewer to choose from.
        memory_of(self.model, self.vocabulary.size)

    def start(self, prompts: Sequence[Sequence[int]]) -> Any:
        """See `LanguageModel.start`."""
        return start_session(self.model, len(self.token_ids), prompts)


def trimmed_output(model: Any, token_ids: NDArray[np.int64]) -> nn.Module:
    """Return the rows of a model's output layer for some tokens, as a layer that `with_output` takes.

    Args:
        model: The model, a `LanguageModel` with a model of `transformers`.
        token_ids: The tokens, ascending.

    Raises:
        ModelError: Rows of its output layer cannot be taken, or it does not have one of the tokens.
    """
    whole = getattr(model, "model", None)
    if not hasattr(whole, "get_output_embeddings"):
        raise ModelError(
            f"rows of the output layer of {a_kind(model)} cannot be taken",
            hint="Leave out token_ids, or use a model of transformers without processors.",
        )
    check_in_vocabulary(token_ids, model.vocabulary.size)
    try:
        layer = _rows(whole, token_ids)
        difference = _difference(whole, with_output(whole, layer), token_ids)
    except StructgenError:
        raise
    except Exception as error:  # what a quantised weight raises depends on the library that made it
        raise _no_rows(whole, f": {error!r:.200}") from error
    if not difference <= _TOLERANCE:
        raise _no_rows(
            whole, f": their logits are not the model's (a relative difference of {difference:.2g})"
        )
    return layer


def with_output(whole: Any, layer: nn.Module) -> Any:
    """Return a shallow copy of a model of `transformers` with another output layer.

    Args:
        whole: The model.
        layer: The layer.

    Raises:
        ModelError: The model does not have its output layer among its modules.
    """
    own = whole.get_output_embeddings()
    path = next((name for name, module in whole.named_modules() if module is own), "")
    if not path:
        raise _no_rows(whole, ", since it is not one of the model's modules")
    made = parent = shallow_copy(whole)
    *parents, last = path.split(".")
    for name in parents:
        parent._modules[name] = shallow_copy(parent._modules[name])
        parent = parent._modules[name]
    parent._modules[last] = layer
    return made


def _rows(whole: Any, token_ids: NDArray[np.int64]) -> nn.Module:
    layer = output_rows(whole, token_ids)
    if not layer.weight.is_floating_point():
        raise _no_rows(whole, f", since its weight is quantised ({layer.weight.dtype})")
    module = nn.ModuleList([layer])
    if layer.weight.device.type == "cpu":
        pack_linear(module)
    return module[0]


def _difference(whole: Any, trimmed: Any, token_ids: NDArray[np.int64]) -> float:
    """Return the largest difference of logits over a few tokens, as a fraction of the largest one."""
    ids = torch.arange(min(_PROBE_TOKENS, len(whole.get_input_embeddings().weight)), device=whole.device)[
        None
    ]
    with torch.inference_mode():
        wanted, found = (each(input_ids=ids).logits[0].float() for each in (whole, trimmed))
    wanted = wanted[:, torch.from_numpy(token_ids).to(wanted.device)]
    return float((found - wanted).abs().max()) / max(float(wanted.abs().max()), 1.0)


def _no_rows(whole: Any, why: str) -> ModelError:
    return ModelError(
        f"rows of the output layer of {type(whole).__name__} cannot be taken{why}",
        hint="Leave out token_ids, or load the model with an output layer that is not quantised.",
    )
