"""The tensors and sizes of EAGLE's checkpoints: versions 1 to 3, of their own project and of `speculators`.

The hidden states that they read are stated in `checkpoints`: after the final norm for EAGLE-1 and -2, of three layers
and before any norm for EAGLE-3.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from structgen.errors import ModelError

from .checkpoint_files import Checkpoint, Target
from .eagle import Eagle, EagleSizes
from .layers import LayerSizes
from .number_types import WHOLES
from .size_checks import check_numbers

__all__ = ["check_layer", "read_eagle", "read_eagle3"]

_LAYER_NAMES = ("midlayer.", "transformer.", "layers.0.")
_Read = tuple[type[Eagle], EagleSizes, NDArray[np.int64], dict[str, torch.Tensor]]
"""The drafter, its sizes, the tokens that it drafts, and its tensors."""


def read_eagle(checkpoint: Checkpoint, target: Target) -> _Read:
    """Read a layer that follows the fusion of the embedding and the state after the final norm."""
    hidden = target.hidden
    fuse = "fusion_fc" if checkpoint.has("fusion_fc.weight") else "fc"
    tensors = {"fuse.weight": checkpoint.take(f"{fuse}.weight", hidden, 2 * hidden)}
    fuse_bias = checkpoint.has(f"{fuse}.bias")
    if fuse_bias:
        tensors["fuse.bias"] = checkpoint.take(f"{fuse}.bias", hidden)
    normed = {}
    for theirs, ours in (("embedding_layernorm", "embedding_norm"), ("pre_lm_head_layernorm", "output_norm")):
        normed[ours] = checkpoint.has(f"{theirs}.weight")
        if normed[ours]:
            tensors[f"{ours}.weight"] = checkpoint.take(f"{theirs}.weight", hidden)
    layer = _layer(checkpoint, target, tensors, reads_embeddings=False)
    embeddings, rows, ids = _own_tables(checkpoint, target, tensors)
    sizes = EagleSizes(
        layer,
        (target.layers,),
        input_norms="none",
        fuse_bias=fuse_bias,
        fuses_embeddings=True,
        normed_embeddings=normed["embedding_norm"],
        normed_output=normed["output_norm"],
        output_rows=rows,
        embedding_rows=embeddings,
    )
    return Eagle, sizes, ids, tensors


def read_eagle3(checkpoint: Checkpoint, target: Target) -> _Read:
    """Read a layer over the fusion of several layers' outputs, before any norm, next to the embedding."""
    hidden, layers = target.hidden, _layers_read(checkpoint, target)
    tensors = {"fuse.weight": checkpoint.take("fc.weight", hidden, len(layers) * hidden)}
    fuse_bias, is_normed = checkpoint.has("fc.bias"), checkpoint.has("input_norm.weight")
    if fuse_bias:
        tensors["fuse.bias"] = checkpoint.take("fc.bias", hidden)
    if is_normed:
        tensors["input_norm.weight"] = checkpoint.take("input_norm.weight", len(layers) * hidden)
    tensors["output_norm.weight"] = checkpoint.take("norm.weight", hidden)
    layer = _layer(checkpoint, target, tensors, reads_embeddings=True)
    embeddings, rows, ids = _own_tables(checkpoint, target, tensors)
    sizes = EagleSizes(
        layer,
        layers,
        input_norms="all" if is_normed else "none",
        fuse_bias=fuse_bias,
        output_rows=rows,
        embedding_rows=embeddings,
    )
    return Eagle, sizes, ids, tensors


def _layers_read(checkpoint: Checkpoint, target: Target) -> tuple[int, ...]:
    """Return the layers of EAGLE-3: 2, n // 2 and n - 3 as the published code has them, or those of the config.

    Number k is the input of decoder layer k, counted from 0, and so the output of the k-th layer.
    """
    config, key, n = checkpoint.config, "eagle_aux_hidden_state_layer_ids", target.layers
    inner = config.get("eagle_config")
    inner = inner if isinstance(inner, dict) else {}
    if inner.get("use_aux_hidden_state") is False:
        raise ModelError(f"{checkpoint.config_file}: EAGLE-3 without states of several layers cannot be read")
    layers = config.get(key)
    layers = inner.get(key) if layers is None else layers
    if layers is None:
        if n < 7:
            raise ModelError(
                f"{checkpoint.file}: EAGLE-3 reads the layers 2, n / 2 and n - 3, and this model has {n} layers",
                hint=f"{key} in config.json may name other layers.",
            )
        return (2, n // 2, n - 3)
    if not isinstance(layers, list) or not all(type(each) is int for each in layers):
        raise ModelError(f"{checkpoint.config_file}: {key} is {layers!r:.60}, not a list of whole numbers")
    if not layers or not 0 <= min(layers) <= max(layers) < n:  # number n is after the final norm
        raise ModelError(
            f"{checkpoint.config_file}: {key} is {layers!r:.60}; this model has {n} layers",
            hint=checkpoint.hint(),
        )
    return tuple(sorted(layers))


def check_layer(checkpoint: Checkpoint) -> None:
    """Raise `ModelError` if there is not one decoder layer of a known form."""
    if any(name.startswith("layers.1.") for name in checkpoint.names()):
        raise ModelError(f"{checkpoint.file}: drafters of more than one layer cannot be read")
    if checkpoint.config.get("hidden_act", "silu") != "silu":
        raise ModelError(f"{checkpoint.config_file}: layers with another hidden_act than silu cannot be read")


def _layer(
    checkpoint: Checkpoint, target: Target, tensors: dict[str, torch.Tensor], *, reads_embeddings: bool
) -> LayerSizes:
    """Read the decoder layer into `tensors`; return its sizes."""
    hidden, take = target.hidden, checkpoint.take
    check_layer(checkpoint)
    prefix = next(
        (each for each in _LAYER_NAMES if any(name.startswith(each) for name in checkpoint.names())),
        "layers.0.",
    )
    attention, mlp = f"{prefix}self_attn.", f"{prefix}mlp."
    # subtle: configs of transformers leave out what is equal to a default, so tensors give what a config does not.
    heads = checkpoint.whole("num_attention_heads", 32)
    head_size = checkpoint.whole("head_dim", checkpoint.rows(f"{attention}q_proj.weight") // heads)
    if head_size < 2 or head_size % 2:
        raise ModelError(
            f"{checkpoint.config_file}: {heads} heads do not fit "
            f"{checkpoint.rows(f'{attention}q_proj.weight')} rows of q_proj"
        )
    kv_heads = checkpoint.whole(
        "num_key_value_heads", max(1, checkpoint.rows(f"{attention}k_proj.weight") // head_size)
    )
    if heads % kv_heads:
        raise ModelError(f"{checkpoint.config_file}: {heads} heads cannot share {kv_heads} keys")
    inner = checkpoint.whole("intermediate_size", checkpoint.rows(f"{mlp}gate_proj.weight"))
    width = (1 + reads_embeddings) * hidden
    qkv_bias, output_bias = (checkpoint.has(f"{attention}{name}_proj.bias") for name in "qo")
    for name, count in (("q", heads), ("k", kv_heads), ("v", kv_heads)):
        tensors[f"layer.{name}.weight"] = take(f"{attention}{name}_proj.weight", count * head_size, width)
        if qkv_bias:
            tensors[f"layer.{name}.bias"] = take(f"{attention}{name}_proj.bias", count * head_size)
    tensors["layer.o.weight"] = take(f"{attention}o_proj.weight", hidden, heads * head_size)
    if output_bias:
        tensors["layer.o.bias"] = take(f"{attention}o_proj.bias", hidden)
    for name, shape in (("gate", (inner, hidden)), ("up", (inner, hidden)), ("down", (hidden, inner))):
        tensors[f"layer.{name}.weight"] = take(f"{mlp}{name}_proj.weight", *shape)
    norms = [("post_attention_layernorm", "mlp_norm")]
    # subtle: where the layer reads embeddings, `input_layernorm` norms them; otherwise it norms the state.
    normed_input = reads_embeddings or checkpoint.has(f"{prefix}input_layernorm.weight")
    if reads_embeddings:
        norms += [("input_layernorm", "embedding_norm"), ("hidden_norm", "state_norm")]
    elif normed_input:
        norms.append(("input_layernorm", "state_norm"))
    for theirs, ours in norms:
        tensors[f"layer.{ours}.weight"] = take(f"{prefix}{theirs}.weight", hidden)
    return LayerSizes(
        hidden,
        heads,
        kv_heads,
        head_size,
        inner,
        eps=checkpoint.number("rms_norm_eps", 1e-6),
        frequencies=_frequencies(checkpoint, head_size),
        qkv_bias=qkv_bias,
        output_bias=output_bias,
        normed_input=normed_input,
        norm_before_residual=checkpoint.config.get("norm_before_residual") is True,
    )


def _frequencies(checkpoint: Checkpoint, head_size: int) -> tuple[float, ...]:
    """Return the frequencies of rotary positions."""
    config = checkpoint.config
    given = config.get("rope_parameters") or config.get("rope_scaling") or {}
    given = given if isinstance(given, dict) else {}
    kind = given.get("rope_type", given.get("type", "default"))
    if kind not in ("default", "linear", "llama3") or config.get("partial_rotary_factor", 1) != 1:
        raise ModelError(
            f"{checkpoint.config_file}: rotary positions of the type {kind!r:.40} cannot be read"
        )
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

    theta = given.get("rope_theta", checkpoint.number("rope_theta", 10_000.0))
    try:
        check_numbers(rope_theta=theta)
        sizes = LlamaConfig(
            hidden_size=head_size,
            num_attention_heads=1,
            head_dim=head_size,
            max_position_embeddings=checkpoint.whole("max_position_embeddings", 2048),
            rope_parameters={**given, "rope_type": kind, "rope_theta": theta},
        )
        frequencies = tuple(LlamaRotaryEmbedding(sizes).inv_freq.double().tolist())
        for frequency in frequencies:
            check_numbers(frequencies=frequency)
        return frequencies
    except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError, RuntimeError) as error:
        raise ModelError(
            f"{checkpoint.config_file}: rotary positions cannot be read: {error!r:.200}"
        ) from error


def _own_tables(
    checkpoint: Checkpoint, target: Target, tensors: dict[str, torch.Tensor]
) -> tuple[int, int, NDArray[np.int64]]:
    """Read embeddings and an output layer into `tensors` where they are not the model's.

    Returns:
        The number of embeddings, the number of rows of the output layer (0 for the model's), and the drafted tokens.
    """
    hidden, count = target.hidden, 0
    if checkpoint.has("embed_tokens.weight"):
        own = checkpoint.take("embed_tokens.weight", target.tokens, hidden)
        if not _are_equal(own, target.embeddings):
            tensors["embeddings.weight"], count = own, target.tokens
    if checkpoint.has("t2d"):
        checkpoint.take_any("t2d", target.tokens)
    rows = checkpoint.rows("lm_head.weight") if checkpoint.has("lm_head.weight") else 0
    ids = _drafted(checkpoint, target, rows or target.tokens)
    usable = np.flatnonzero(ids < target.usable)
    order = usable[np.argsort(ids[usable])]
    if not len(order):
        raise ModelError(f"{checkpoint.file} drafts none of the model's tokens")
    if rows:
        own = checkpoint.take("lm_head.weight", rows, hidden)[torch.from_numpy(order)]
        if not _are_equal(own, target.output[torch.from_numpy(ids[order]).to(target.output.device)]):
            tensors["output.weight"] = own
            return count, len(order), ids[order]
    return count, 0, ids[order]


def _drafted(checkpoint: Checkpoint, target: Target, rows: int) -> NDArray[np.int64]:
    """Return the model's token for each row of the output layer: `d2t` has the difference of the two numbers."""
    if rows > target.tokens:
        raise ModelError(
            f"{checkpoint.file}: lm_head.weight has {rows} rows; the model has {target.tokens} tokens",
            hint=checkpoint.hint(),
        )
    ids = np.arange(rows)
    if checkpoint.has("d2t"):
        shifts = checkpoint.take_any("d2t", rows)
        if shifts.dtype not in WHOLES:
            raise ModelError(f"{checkpoint.file}: the tensor d2t has numbers of type {shifts.dtype}")
        ids = ids + shifts.long().numpy()
    elif rows != target.tokens:
        raise ModelError(
            f"{checkpoint.file}: lm_head.weight has {rows} rows for a model of {target.tokens} tokens, and no tensor "
            "d2t states which tokens they are"
        )
    if ids.min() < 0 or ids.max() >= target.tokens or len(np.unique(ids)) != rows:
        raise ModelError(
            f"{checkpoint.file}: d2t maps to tokens {ids.min()} to {ids.max()}, {len(np.unique(ids))} different ones "
            f"for {rows} rows; the model has {target.tokens} tokens",
            hint=checkpoint.hint(),
        )
    return ids


def _are_equal(own: torch.Tensor, models: torch.Tensor) -> bool:
    return own.shape == models.shape and torch.equal(own.to(models.device, models.dtype), models)
