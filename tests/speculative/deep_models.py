"""Models of four layers without a tokenizer, whose first layers can run alone."""

from __future__ import annotations

from typing import Any

import torch
from transformers import AutoModelForCausalLM, LlamaConfig

from tests.models.tiny import SIZE

from .tiny_sessions import Model

LAYERS = 4


class DeepModel(Model):
    """A Llama of four layers; those from `idle` on change nothing, so that earlier exits agree with the model.

    Layers from `quiet` on change little, so that their exits agree often.
    """

    layer_count = LAYERS

    def __init__(self, idle: int = LAYERS, quiet: int = LAYERS) -> None:
        super().__init__("llama")
        torch.manual_seed(11)
        config = LlamaConfig(
            vocab_size=SIZE,
            bos_token_id=0,
            eos_token_id=1,
            pad_token_id=1,
            hidden_size=32,
            intermediate_size=48,
            num_hidden_layers=LAYERS,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=256,
        )
        self.model: Any = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
        with torch.no_grad():
            for parameter in self.model.parameters():
                parameter.mul_(4)
            for index, layer in enumerate(self.model.model.layers):
                for last in (layer.self_attn.o_proj, layer.mlp.down_proj):
                    last.weight.mul_(0 if index >= idle else 0.2 if index >= quiet else 1)
        self.model.eval()
