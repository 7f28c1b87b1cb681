"""Checkpoints with random weights in the layouts that other projects publish, and their forward passes in plain torch.

The forward passes follow the papers: they keep no cache and compute every position again for each token.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, LlamaConfig

from tests.models.tiny import SIZE
from tests.speculative.tiny_sessions import Model

HIDDEN, HEADS, KV_HEADS, HEAD, INNER = 32, 4, 2, 8, 40
EPS = 1e-6
Tensors = dict[str, torch.Tensor]
LAYER_CONFIG = {
    "hidden_size": HIDDEN,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV_HEADS,
    "intermediate_size": INNER,
    "rms_norm_eps": EPS,
    "vocab_size": SIZE,
    "num_hidden_layers": 1,
    "hidden_act": "silu",
    "model_type": "llama",
}


class EightLayers(Model):
    """A Llama of eight layers."""

    layer_count = 8

    def __init__(self) -> None:
        super().__init__("llama")
        torch.manual_seed(5)
        config = LlamaConfig(
            vocab_size=SIZE,
            bos_token_id=0,
            eos_token_id=1,
            pad_token_id=1,
            hidden_size=HIDDEN,
            intermediate_size=48,
            num_hidden_layers=8,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=256,
        )
        self.model: Any = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
        with torch.no_grad():
            for parameter in self.model.parameters():
                parameter.mul_(4)
        self.model.eval()


def random(seed: int, **shapes: tuple[int, ...]) -> Tensors:
    """Return random tensors; ``__`` in a name stands for a full stop."""
    made = torch.Generator().manual_seed(seed)
    return {
        name.replace("__", "."): torch.randn(shape, generator=made) * (0.5 if len(shape) == 1 else 0.3)
        + (name.endswith("norm__weight"))
        for name, shape in shapes.items()
    }


def layer_tensors(seed: int, prefix: str, width: int, norms: tuple[str, ...], bias: str = "") -> Tensors:
    """Return the tensors of a layer of Llama whose attention reads `width` numbers."""
    found = random(
        seed,
        self_attn__q_proj__weight=(HEADS * HEAD, width),
        self_attn__k_proj__weight=(KV_HEADS * HEAD, width),
        self_attn__v_proj__weight=(KV_HEADS * HEAD, width),
        self_attn__o_proj__weight=(HIDDEN, HEADS * HEAD),
        mlp__gate_proj__weight=(INNER, HIDDEN),
        mlp__up_proj__weight=(INNER, HIDDEN),
        mlp__down_proj__weight=(HIDDEN, INNER),
        **{f"{norm}__weight": (HIDDEN,) for norm in norms},
        **{f"self_attn__{n}_proj__bias": ((KV_HEADS if n in "kv" else HEADS) * HEAD,) for n in bias},
    )
    return {prefix + name: tensor for name, tensor in found.items()}


def write(
    folder: Path, config: dict[str, Any] | None, tensors: Tensors, name: str = "model.safetensors"
) -> Path:
    """Write a checkpoint; return its folder."""
    folder.mkdir(exist_ok=True)
    if config is not None:
        (folder / "config.json").write_text(json.dumps(config))
    if name.endswith(".safetensors"):
        save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, folder / name)
    else:
        torch.save(tensors, folder / name)
    return folder


def medusa(seed: int, heads: int, blocks: int, prefix: str = "") -> Tensors:
    """Return the tensors of Medusa's heads."""
    shapes: dict[str, tuple[int, ...]] = {}
    for head in range(heads):
        for block in range(blocks):
            shapes[f"{prefix}{head}.{block}.linear.weight"] = (HIDDEN, HIDDEN)
            shapes[f"{prefix}{head}.{block}.linear.bias"] = (HIDDEN,)
        shapes[f"{prefix}{head}.{blocks}.weight"] = (SIZE, HIDDEN)
    return random(seed, **shapes)


def eagle(seed: int, model: Model, *, bias: bool = True, attention_bias: str = "") -> Tensors:
    """Return the tensors of EAGLE-1 and -2: a layer without a norm of its input, and a copy of the embeddings."""
    return {
        **random(seed, fc__weight=(HIDDEN, 2 * HIDDEN), **({"fc__bias": (HIDDEN,)} if bias else {})),
        **layer_tensors(seed + 1, "layers.0.", HIDDEN, ("post_attention_layernorm",), attention_bias),
        "embed_tokens.weight": model.model.get_input_embeddings().weight.detach().clone(),
    }


NORMS3 = ("input_layernorm", "hidden_norm", "post_attention_layernorm")


def eagle3(seed: int, ids: list[int], prefix: str = "midlayer.", layers: int = 3) -> Tensors:
    """Return the tensors of EAGLE-3 with a draft vocabulary of the tokens `ids`."""
    d2t = torch.tensor(ids) - torch.arange(len(ids))
    t2d = torch.zeros(SIZE, dtype=torch.bool)
    t2d[ids] = True
    return {
        **random(
            seed,
            fc__weight=(HIDDEN, layers * HIDDEN),
            norm__weight=(HIDDEN,),
            lm_head__weight=(len(ids), HIDDEN),
            embed_tokens__weight=(SIZE, HIDDEN),
        ),
        **layer_tensors(seed + 1, prefix, 2 * HIDDEN, NORMS3),
        "d2t": d2t,
        "t2d": t2d,
    }


def final_states(model: Model, tokens: list[int]) -> torch.Tensor:
    """Return the states after the final norm, ``[tokens, hidden]``."""
    states: torch.Tensor = model.model.base_model(input_ids=torch.tensor([tokens])).last_hidden_state[0]
    return states


def layer_inputs(model: Model, tokens: list[int], layers: tuple[int, ...]) -> torch.Tensor:
    """Return the inputs of some decoder layers, side by side, ``[tokens, layers * hidden]``."""
    seen: dict[int, torch.Tensor] = {}

    def keep(index: int) -> Any:
        def hook(module: Any, args: Any, kwargs: Any) -> None:
            seen[index] = (args[0] if args else kwargs["hidden_states"])[0]

        return hook

    hooks = [model.model.model.layers[k].register_forward_pre_hook(keep(k), with_kwargs=True) for k in layers]
    model.model(input_ids=torch.tensor([tokens]))
    for hook in hooks:
        hook.remove()
    return torch.cat([seen[k] for k in layers], -1)


def normed(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Return the root-mean-square norm."""
    return weight * x / (x.square().mean(-1, keepdim=True) + EPS).sqrt()


def llama_frequencies(theta: float = 10_000.0) -> list[float]:
    """Return the frequencies of rotary positions."""
    return [theta ** (-2 * i / HEAD) for i in range(HEAD // 2)]


def attention(
    t: Tensors, prefix: str, inputs: torch.Tensor, frequencies: list[float], offset: int = 0
) -> torch.Tensor:
    """Return causal attention with rotary positions, one head and one query at a time."""

    def project(name: str) -> torch.Tensor:
        outputs = inputs @ t[f"{prefix}self_attn.{name}_proj.weight"].T
        bias = t.get(f"{prefix}self_attn.{name}_proj.bias")
        return (outputs if bias is None else outputs + bias).view(len(inputs), -1, HEAD)

    def turned(vector: torch.Tensor, position: int) -> torch.Tensor:
        angles = torch.tensor([position * f for f in frequencies])
        first, second = vector[: HEAD // 2], vector[HEAD // 2 :]
        cosines, sines = angles.cos(), angles.sin()
        return torch.cat([first * cosines - second * sines, second * cosines + first * sines])

    queries, keys, values = project("q"), project("k"), project("v")
    rows = []
    for q in range(len(inputs)):
        heads = []
        for head in range(HEADS):
            group = head // (HEADS // KV_HEADS)
            query = turned(queries[q, head], q + offset)
            scores = torch.stack([query @ turned(keys[k, group], k + offset) for k in range(q + 1)])
            heads.append((scores / HEAD**0.5).softmax(0) @ values[: q + 1, group])
        rows.append(torch.cat(heads))
    return torch.stack(rows) @ t[f"{prefix}self_attn.o_proj.weight"].T


def mlp(t: Tensors, prefix: str, states: torch.Tensor) -> torch.Tensor:
    """Return the output of a layer from the sum of its residual and its attention."""
    inner = normed(states, t[f"{prefix}post_attention_layernorm.weight"])
    gate = torch.nn.functional.silu(inner @ t[f"{prefix}mlp.gate_proj.weight"].T)
    return (
        states + (gate * (inner @ t[f"{prefix}mlp.up_proj.weight"].T)) @ t[f"{prefix}mlp.down_proj.weight"].T
    )
