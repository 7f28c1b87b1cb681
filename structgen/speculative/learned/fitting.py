"""`fit`: trained weights and a model become what a drafter computes with.

Why: weights come from a file, and the model may be another one than that of the training. A mistake is found before the
first draft, and named.
What: sizes, tokenizer, layers and tokens are compared with the model's. Then the network and the listed rows of the
output layer are put on the model's device, in its precision or in a faster one.
Invariant: the result has tensors of the model, and no reference to it.
Cost: a copy of the network, and of the listed rows of the output layer, for each model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import torch
from torch import nn

from structgen.errors import ModelError, VocabularyMismatch
from structgen.models.packed import can_pack, pack_linear
from structgen.protocols import layer_count_of

from .acceptance import AcceptanceHead, network_tensors
from .int8_linear import with_int8
from .made_networks import network_of
from .output_layers import logit_map_of, output_rows
from .trimmed_head import TrimmedHead
from .weights import DraftWeights
from .wrapped_models import transformers_model

if TYPE_CHECKING:
    from structgen.generation.drafting import RowStates

__all__ = ["Fitted", "Sizes", "fit"]

_WIDE = 512
"""The width from which products in bfloat16 are faster: of 576 x 8192, in half the time; of 256 x 256, not."""
_RETRAIN = "Use weights that were trained for this model, or train them: structgen draft train."

_Network = TypeVar("_Network", bound=nn.Module)


class Sizes(Protocol):
    """What determines the shapes of a drafter."""

    @property
    def hidden(self) -> int:
        """The width of the model's hidden states."""
        ...

    @property
    def hidden_layers(self) -> tuple[int, ...]:
        """The layers whose states it reads, as in `HiddenStatesModel.start_with_hidden_states`."""
        ...


@dataclass(frozen=True)
class Fitted(Generic[_Network]):
    """What a drafter computes with. It has tensors of the model, and no reference to it."""

    network: _Network
    """Its weights, on the model's device and in its precision."""
    embeddings: torch.Tensor
    """The embeddings of all tokens, ``[tokens, hidden]``: the model's, or the drafter's own."""
    head: TrimmedHead
    like: torch.Tensor
    """An empty tensor in the precision of the network."""

    def embedded(self, tokens: Sequence[int]) -> torch.Tensor:
        """Return the embeddings of tokens, ``[tokens, hidden]``."""
        return self.embeddings[list(tokens)].to(self.like)

    def states(self, hidden: RowStates, start: int, layers: Sequence[int]) -> torch.Tensor:
        """Return the model's states after the tokens from number `start` on, ``[tokens, layers, hidden]``."""
        states: torch.Tensor = hidden.since(start, layers)
        return states.to(self.like)


def fit(
    weights: DraftWeights,
    sizes: Sizes,
    make_network: Callable[[], _Network],
    model: Any,
    acceptance: AcceptanceHead | None = None,
    *,
    in_half: bool = False,
) -> Fitted[_Network]:
    """Check that weights are for a model; return what the drafter computes with.

    Args:
        weights: The weights.
        sizes: Their sizes.
        make_network: Makes a network of these sizes, which gets the weights.
        model: The model, a `LanguageModel`.
        acceptance: The acceptance head. It is copied.
        in_half: Whether the network may compute in bfloat16, with int8 weights, for a model in float32: where a CPU has
            fast products for it, and layers are so wide that reading their weights is most of the work.

    Raises:
        ModelError: The model is not one of `transformers`, its sizes are others, or the weights do not have the shapes
            that their sizes give.
        VocabularyMismatch: They were trained with another tokenizer.
    """
    whole = transformers_model(model)
    embeddings = whole.get_input_embeddings().weight.detach()
    if embeddings.shape[1] != sizes.hidden:
        raise ModelError(
            f"the drafter's weights are for hidden states of {sizes.hidden} numbers; "
            f"this model's have {embeddings.shape[1]}",
            hint="Use weights that were trained for this model.",
        )
    if weights.vocabulary != model.vocabulary.fingerprint:
        raise VocabularyMismatch(
            "the drafter's weights were trained with another tokenizer: some token is not the same",
            hint=_RETRAIN,
        )
    layers, last = layer_count_of(model), max(sizes.hidden_layers, default=0)
    if layers is not None and last > layers:
        raise ModelError(
            f"the drafter reads the hidden states of layer {last}; this model has {layers} layers",
            hint=_RETRAIN,
        )
    usable = min(model.vocabulary.size, len(embeddings))
    if weights.token_ids[-1] >= usable:
        raise ModelError(
            f"the drafter's weights list token {weights.token_ids[-1]}, which the model does not have"
        )
    rows, own_embeddings = getattr(sizes, "output_rows", 0), getattr(sizes, "embedding_rows", 0)
    if rows not in (0, len(weights.token_ids)):
        raise ModelError(
            f"the drafter's output layer has {rows} rows for the {len(weights.token_ids)} tokens that its weights list"
        )
    if 0 < own_embeddings < usable:
        raise ModelError(f"the drafter has {own_embeddings} embeddings for {usable} tokens")
    network = network_of(make_network, network_tensors(weights), "the drafter's weights")
    parts = nn.ModuleDict({"network": network})
    # An output layer of the drafter's own was trained without what the model does after its own.
    own_output = getattr(network, "output", None) is not None
    # The logits of prompt tokens are the model's.
    logit_map = None if own_output or weights.kind == "prompt-tokens" else logit_map_of(whole)
    if not own_output:
        parts["output"] = output_rows(whole, weights.token_ids)
    if acceptance is not None:
        parts["acceptance"] = deepcopy(acceptance)
    dtype, is_on_cpu = embeddings.dtype, embeddings.device.type == "cpu"
    in_half = in_half and is_on_cpu and sizes.hidden >= _WIDE and can_pack(torch.bfloat16)
    if in_half and dtype == torch.float32:
        dtype = torch.bfloat16
    parts.to(embeddings.device, dtype).eval().requires_grad_(False)
    if in_half and dtype == torch.bfloat16:
        with_int8(parts)
    if is_on_cpu:
        pack_linear(parts)
    output = parts.get_submodule("output" if "output" in parts else "network.output")
    found = getattr(network, "embeddings", None)
    own = found if isinstance(found, nn.Embedding) else None
    trimmed = TrimmedHead(
        output,
        weights.token_ids,
        model.vocabulary.size,
        parts["acceptance"] if acceptance is not None else None,
        logit_map,
    )
    like = torch.empty(0, dtype=dtype, device=embeddings.device)
    return Fitted(network, embeddings if own is None else own.weight, trimmed, like)
