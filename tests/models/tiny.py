"""Models of `transformers` with random weights, small enough to compare with their own full forward passes, and a
tokenizer of few characters for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    AutoModelForCausalLM,
    BambaConfig,
    BloomConfig,
    FalconConfig,
    FalconH1Config,
    FalconMambaConfig,
    GPT2Config,
    GPTNeoConfig,
    GraniteMoeHybridConfig,
    JambaConfig,
    Lfm2Config,
    LlamaConfig,
    Mamba2Config,
    MambaConfig,
    MistralConfig,
    OpenAIGPTConfig,
    Phi3Config,
    PreTrainedConfig,
    PreTrainedTokenizerFast,
    Qwen3NextConfig,
    RecurrentGemmaConfig,
    RobertaConfig,
    RwkvConfig,
)

SIZE = 48
_COMMON = {"vocab_size": SIZE, "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 1}
_DECODER = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 256,
}


def _llama() -> PreTrainedConfig:
    return LlamaConfig(**_COMMON, **_DECODER)


def _longrope() -> PreTrainedConfig:
    """Keys are turned otherwise as soon as a text has more than 100 tokens."""
    turns = {"rope_type": "longrope", "short_factor": [1.0] * 4, "long_factor": [9.0] * 4}
    return Phi3Config(
        **_COMMON | {"pad_token_id": 1}, **_DECODER, rope_scaling=turns, original_max_position_embeddings=100
    )


def _dynamic() -> PreTrainedConfig:
    turns = {"rope_type": "dynamic", "factor": 4.0, "original_max_position_embeddings": 100}
    return LlamaConfig(**_COMMON, **_DECODER | {"max_position_embeddings": 100}, rope_scaling=turns)


def _gpt2() -> PreTrainedConfig:
    return GPT2Config(**_COMMON, n_embd=32, n_layer=2, n_head=4, n_positions=256)


def _mistral() -> PreTrainedConfig:
    return MistralConfig(**_COMMON, **_DECODER, sliding_window=6)


def _bloom() -> PreTrainedConfig:
    return BloomConfig(**_COMMON, hidden_size=32, n_layer=2, n_head=4)


def _falcon() -> PreTrainedConfig:
    return FalconConfig(**_COMMON, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, alibi=True)


def _gpt_neo() -> PreTrainedConfig:
    kinds = [[["global", "local"], 1]]
    sizes = {"hidden_size": 32, "num_layers": 2, "num_heads": 4, "max_position_embeddings": 256}
    return GPTNeoConfig(**_COMMON, **sizes, attention_types=kinds, window_size=6)


def _qwen3_next() -> PreTrainedConfig:
    sizes = {**_DECODER, "num_hidden_layers": 4}
    return Qwen3NextConfig(
        **_COMMON,
        **sizes,
        linear_num_value_heads=4,
        linear_num_key_heads=2,
        linear_key_head_dim=8,
        linear_value_head_dim=8,
        num_experts=0,
        decoder_sparse_step=1,
        mlp_only_layers=[0, 1, 2, 3],
    )


def _roberta() -> PreTrainedConfig:
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
    return RobertaConfig(**_COMMON, **sizes, max_position_embeddings=258, is_decoder=True)


def _mamba() -> PreTrainedConfig:
    return MambaConfig(**_COMMON, hidden_size=32, num_hidden_layers=2, state_size=8)


def _mamba2() -> PreTrainedConfig:
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "state_size": 8, "num_heads": 8, "head_dim": 8}
    return Mamba2Config(**_COMMON, **sizes, expand=2, n_groups=1, chunk_size=16)


def _lfm2() -> PreTrainedConfig:
    sizes = {**_DECODER, "num_hidden_layers": 3}
    return Lfm2Config(**_COMMON, **sizes, layer_types=["conv", "full_attention", "conv"])


def _falcon_h1() -> PreTrainedConfig:
    mixer = {
        "mamba_d_ssm": 64,
        "mamba_n_heads": 8,
        "mamba_d_head": 8,
        "mamba_d_state": 8,
        "mamba_n_groups": 1,
        "mamba_chunk_size": 16,
    }
    return FalconH1Config(**_COMMON, **_DECODER, **mixer)


def _jamba() -> PreTrainedConfig:
    mixer = {"attn_layer_period": 2, "attn_layer_offset": 1, "mamba_d_state": 8, "mamba_dt_rank": 4}
    return JambaConfig(**_COMMON, **_DECODER, **mixer, num_experts=1)


def _bamba() -> PreTrainedConfig:
    heads = {"mamba_d_state": 8, "mamba_n_heads": 8, "mamba_d_head": 8}
    mixer = {"attn_layer_indices": [1], "mamba_chunk_size": 16, **heads}
    return BambaConfig(**_COMMON, **_DECODER, **mixer)


def _falcon_mamba() -> PreTrainedConfig:
    return FalconMambaConfig(**_COMMON, hidden_size=32, num_hidden_layers=2, state_size=8)


def _granite_hybrid() -> PreTrainedConfig:
    sizes = {name: value for name, value in _DECODER.items() if name != "head_dim"}
    heads = {"mamba_d_state": 8, "mamba_n_heads": 8, "mamba_d_head": 8, "mamba_chunk_size": 16}
    layers = {"layer_types": ["mamba", "attention"], "num_local_experts": 0, "shared_intermediate_size": 48}
    return GraniteMoeHybridConfig(**_COMMON, **sizes, **heads, **layers)


def _recurrent_gemma() -> PreTrainedConfig:
    sizes = {**_DECODER, "num_hidden_layers": 3}
    return RecurrentGemmaConfig(**_COMMON, **sizes, lru_width=32, attention_window_size=6)


def _rwkv() -> PreTrainedConfig:
    return RwkvConfig(**_COMMON, hidden_size=32, num_hidden_layers=2, context_length=256)


def _gpt() -> PreTrainedConfig:
    return OpenAIGPTConfig(**_COMMON, n_embd=32, n_layer=2, n_head=4, n_positions=256)


CONFIGS: dict[str, Callable[[], PreTrainedConfig]] = {
    "longrope": _longrope,
    "dynamic": _dynamic,
    "llama": _llama,
    "gpt2": _gpt2,
    "mistral": _mistral,
    "bloom": _bloom,
    "falcon": _falcon,
    "gpt_neo": _gpt_neo,
    "qwen3_next": _qwen3_next,
    "roberta": _roberta,
    "mamba": _mamba,
    "mamba2": _mamba2,
    "lfm2": _lfm2,
    "falcon_h1": _falcon_h1,
    "jamba": _jamba,
    "bamba": _bamba,
    "falcon_mamba": _falcon_mamba,
    "granite_hybrid": _granite_hybrid,
    "recurrent_gemma": _recurrent_gemma,
    "rwkv": _rwkv,
    "gpt": _gpt,
}


def tiny_model(name: str, attention: str | None = None, dtype: torch.dtype = torch.float32) -> Any:
    """The model `name`, the same on each call."""
    torch.manual_seed(7)
    options = {} if attention is None else {"attn_implementation": attention}
    model = AutoModelForCausalLM.from_config(CONFIGS[name](), dtype=dtype, **options)
    with torch.no_grad():  # weights as they are initialised give nearly uniform distributions
        for parameter in model.parameters():
            parameter.mul_(4)
    return model.eval()


def tiny_tokenizer() -> Any:
    """A byte-level tokenizer of lower-case letters and what JSON needs: fewer tokens than the models have."""
    tokens = ["<s>", "</s>", "<turn>", "Ġ", *"abcdefghijklmnopqrstuvwxyz", *'{}[]":,<>/.01']
    backend = Tokenizer(models.BPE({token: i for i, token in enumerate(tokens)}, []))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens(tokens[:3])
    return PreTrainedTokenizerFast(tokenizer_object=backend, bos_token="<s>", eos_token="</s>")
