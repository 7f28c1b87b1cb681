"""A draft model that starts as a copy of the model's first layers.

Why: layers that the model has trained are a better start than random ones, and its own embeddings fit them.
Invariant: the copy computes what the model's first layers do. This is checked with a pass of both, so a model whose
layers are of another form is an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from structgen.errors import ModelError, OptionError
from structgen.models.decoder_layers import NORMS, find_layers
from structgen.speculative.learned.layers import LayerSizes
from structgen.speculative.learned.nested_layers import NestedNetwork, NestedSizes
from structgen.speculative.learned.wrapped_models import transformers_model

if TYPE_CHECKING:
    from structgen.models.hugging_face import HuggingFaceModel

__all__ = ["first_layers"]

_NAMES = {
    "state_norm": "input_layernorm",
    "q": "self_attn.q_proj",
    "k": "self_attn.k_proj",
    "v": "self_attn.v_proj",
    "o": "self_attn.o_proj",
    "mlp_norm": "post_attention_layernorm",
    "gate": "mlp.gate_proj",
    "up": "mlp.up_proj",
    "down": "mlp.down_proj",
}
"""The parts of a `DraftLayer`, and their names in `transformers`."""
_TESTED_TOKENS = 8
_LARGEST_DIFFERENCE = 0.05
"""As a fraction of the norm of the model's states; some are computed in bfloat16."""


def first_layers(model: HuggingFaceModel, layer: LayerSizes, exits: Sequence[int]) -> NestedNetwork:
    """Return a draft model with the weights of the model's first layers, and of its final norm at each exit.

    Args:
        model: The model.
        layer: The sizes of one of its layers.
        exits: The number of layers before each exit.

    Raises:
        OptionError: The exits are not ascending numbers, or the model has no more layers than the draft model.
        ModelError: The model's layers are not of Llama's form.
    """
    whole = transformers_model(model)
    found = find_layers(whole)
    norm = found and next((found[0]._modules[name] for name in NORMS if name in found[0]._modules), None)
    if found is None or norm is None:
        raise _of_another_form()
    inner, layers = found
    frequencies = getattr(getattr(inner, "rotary_emb", None), "inv_freq", None)
    sizes = replace(
        layer,
        eps=float(getattr(norm, "variance_epsilon", layer.eps)),
        frequencies=() if frequencies is None else tuple(frequencies.double().tolist()),
        qkv_bias=getattr(getattr(layers[0].self_attn, "q_proj", None), "bias", None) is not None,
        output_bias=getattr(getattr(layers[0].self_attn, "o_proj", None), "bias", None) is not None,
    )
    try:
        network = NestedNetwork(NestedSizes(sizes, tuple(exits)))
    except ValueError as error:
        raise OptionError(f"a draft model of these layers cannot be made: {error}") from error
    if exits[-1] >= len(layers):
        raise OptionError(f"the draft model has {exits[-1]} layers, and the model no more than {len(layers)}")
    state = {f"exit_norms.{place}.weight": norm.weight for place in range(len(exits))}
    for index in range(exits[-1]):
        for name, theirs in _NAMES.items():
            try:
                part = layers[index].get_submodule(theirs)
            except AttributeError:
                raise _of_another_form() from None
            state |= {
                f"layers.{index}.{name}.{kind}": tensor
                for kind in ("weight", "bias")
                if (tensor := getattr(part, kind, None)) is not None
            }
    try:
        network.load_state_dict({name: tensor.detach().float().cpu() for name, tensor in state.items()})
    except RuntimeError as error:
        raise _of_another_form() from error
    _check_copy(network, model)
    return network


def _check_copy(network: NestedNetwork, model: HuggingFaceModel) -> None:
    """Raise `ModelError` unless the copy computes what the model's first layers do."""
    whole = transformers_model(model)
    table = whole.get_input_embeddings().weight.detach()
    tokens = torch.linspace(0, len(table) - 1, _TESTED_TOKENS).long().to(table.device)[None]
    last = network.sizes.exits[-1]
    with torch.inference_mode():
        wanted = whole(input_ids=tokens, use_cache=False, output_hidden_states=True).hidden_states[last]
        found = table[tokens].float().cpu()
        for layer in network.layers:
            found = layer(found, None)
    difference = (found - wanted.float().cpu()).norm() / wanted.float().norm().cpu()
    if not difference < _LARGEST_DIFFERENCE:
        raise _of_another_form()


def _of_another_form() -> ModelError:
    return ModelError(
        "a draft model cannot be copied from this model's first layers, which are not of Llama's form",
        hint="Train another kind: structgen draft train --kind eagle.",
    )
