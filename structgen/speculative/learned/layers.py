"""The parts of which learned drafters consist: a norm, rotary positions, and one decoder layer.

The layer is that of Llama, with an input of its own: the normed embedding of the next token next to the normed hidden
state. So one module serves training, where a whole text passes at once, and drafting, where single tokens do.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional

from .size_checks import check_flags, check_numbers, check_sizes

__all__ = ["DraftLayer", "LayerSizes", "RMSNorm", "rotated"]


@dataclass(frozen=True)
class LayerSizes:
    """The sizes of a decoder layer."""

    hidden: int
    """The width of hidden states."""
    heads: int
    kv_heads: int
    head_size: int
    mlp: int
    """The width of its feed-forward part; 0 for a layer without one."""
    rope_theta: float = 10_000.0
    eps: float = 1e-5
    frequencies: tuple[float, ...] = ()
    """The frequencies of rotary positions, half as many as a head has numbers. Empty for those of `rope_theta`."""
    qkv_bias: bool = False
    """Whether queries, keys and values have biases."""
    output_bias: bool = False
    """Whether the output of attention has a bias."""
    normed_input: bool = True
    """Whether the state is normed before attention."""
    norm_before_residual: bool = False
    """Whether attention's output is added to the normed state, not to the state."""

    def __post_init__(self) -> None:
        check_sizes(hidden=self.hidden, heads=self.heads, kv_heads=self.kv_heads, head_size=self.head_size)
        check_sizes(0, mlp=self.mlp)
        check_numbers(rope_theta=self.rope_theta, eps=self.eps)
        check_flags(
            qkv_bias=self.qkv_bias,
            output_bias=self.output_bias,
            normed_input=self.normed_input,
            norm_before_residual=self.norm_before_residual,
        )
        if self.heads % self.kv_heads or self.head_size % 2:
            raise ValueError(
                f"{self.heads} heads of {self.head_size} numbers do not fit {self.kv_heads} KV heads"
            )
        object.__setattr__(self, "frequencies", tuple(self.frequencies))  # JSON has lists only
        for frequency in self.frequencies:
            check_numbers(frequencies=frequency)
        if len(self.frequencies) not in (0, self.head_size // 2):
            raise ValueError(f"{len(self.frequencies)} frequencies are not half as many as {self.head_size}")


class RMSNorm(nn.Module):
    """Root-mean-square norm with a learned weight; computed in float32."""

    def __init__(self, size: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """Return the normed states, of the same shape and dtype."""
        return functional.rms_norm(states.float(), self.weight.shape, self.weight.float(), self.eps).to(
            states.dtype
        )


class DraftLayer(nn.Module):
    """One decoder layer that reads a hidden state and the embedding of the token after it.

    The output has the width of a hidden state, so that it can be the next input.

    Args:
        sizes: Its sizes.
        reads_embeddings: Whether it reads embeddings, too.
        outputs: The number of states that it returns for each position, side by side. They share attention, and the
            feed-forward part up to its last matrix.
    """

    def __init__(self, sizes: LayerSizes, *, reads_embeddings: bool = True, outputs: int = 1) -> None:
        super().__init__()
        self.sizes, self.outputs = sizes, outputs
        width, hidden = (1 + reads_embeddings) * sizes.hidden, sizes.hidden

        def linear(inputs: int, outputs: int, bias: bool = False) -> nn.Linear:
            return nn.Linear(inputs, outputs, bias=bias)

        if reads_embeddings:
            self.embedding_norm = RMSNorm(hidden, sizes.eps)
        self.state_norm = RMSNorm(hidden, sizes.eps) if sizes.normed_input else nn.Identity()
        self.q = linear(width, sizes.heads * sizes.head_size, sizes.qkv_bias)
        self.k = linear(width, sizes.kv_heads * sizes.head_size, sizes.qkv_bias)
        self.v = linear(width, sizes.kv_heads * sizes.head_size, sizes.qkv_bias)
        self.o = linear(sizes.heads * sizes.head_size, hidden, sizes.output_bias)
        last = [self.o]
        if sizes.mlp:
            self.mlp_norm = RMSNorm(hidden, sizes.eps)
            self.gate, self.up = linear(hidden, sizes.mlp), linear(hidden, sizes.mlp)
            self.down = linear(sizes.mlp, outputs * hidden)
            last.append(self.down)
        for matrix in last:  # at first the layer changes its input little
            nn.init.normal_(matrix.weight, std=0.01)

    def forward(self, states: torch.Tensor, embeddings: torch.Tensor | None) -> torch.Tensor:
        """Return the outputs of whole texts, in which each position sees those up to it, as `finished` does.

        Args:
            states: Hidden states, ``[texts, tokens, hidden]``.
            embeddings: The embedding of the token after each of them, of the same shape; None for a layer that reads
                none.
        """
        angles = self.angles(0, states.shape[1]).to(states.device)
        queries, keys, values = self.projected(states, embeddings, angles)
        attended = functional.scaled_dot_product_attention(
            queries, keys, values, is_causal=True, enable_gqa=True
        )
        return self.finished(states, attended.transpose(1, 2).flatten(2))

    def projected(
        self, states: torch.Tensor, embeddings: torch.Tensor | None, angles: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return queries, keys and values, ``[..., heads, tokens, head size]``.

        Args:
            states: Hidden states, ``[..., tokens, hidden]``.
            embeddings: The embedding of the token after each of them, of the same shape; None for a layer that reads
                none.
            angles: Cosines and sines of the positions, ``[2, tokens, head size]``.
        """
        inputs = self.state_norm(states)
        if embeddings is not None:
            inputs = torch.cat([self.embedding_norm(embeddings), inputs], -1)
        queries, keys, values = (
            linear(inputs).unflatten(-1, (-1, self.sizes.head_size)).transpose(-2, -3)
            for linear in (self.q, self.k, self.v)
        )
        return rotated(queries, angles), rotated(keys, angles), values

    def finished(self, states: torch.Tensor, attended: torch.Tensor) -> torch.Tensor:
        """Return the layer's output from its input states and what attention returned.

        Its shape is ``[..., tokens, hidden]``, or ``[..., tokens, outputs * hidden]`` for a layer of several outputs.
        """
        if self.sizes.norm_before_residual:
            states = self.state_norm(states)
        states = states + self.o(attended)
        if not self.sizes.mlp:
            return states
        inner = self.mlp_norm(states)
        if self.outputs > 1:
            states = torch.cat([states] * self.outputs, -1)
        output: torch.Tensor = states + self.down(functional.silu(self.gate(inner)) * self.up(inner))
        return output

    def angles(self, first: int, count: int) -> torch.Tensor:
        """Return cosines and sines of the positions from `first` on, ``[2, count, head size]``."""
        size = self.sizes.head_size
        frequencies = self.sizes.rope_theta ** -(torch.arange(0, size, 2).double() / size)
        if self.sizes.frequencies:
            frequencies = torch.tensor(self.sizes.frequencies, dtype=torch.double)
        turned = torch.arange(first, first + count).double()[:, None] * frequencies
        turned = torch.cat([turned, turned], -1)
        return torch.stack([turned.cos(), turned.sin()]).float()


def rotated(heads: torch.Tensor, angles: torch.Tensor) -> torch.Tensor:
    """Return queries or keys with rotary positions (Su et al. 2021), halves of a head as the two coordinates."""
    cosines, sines = angles.to(heads.dtype)
    first, second = heads.chunk(2, -1)
    turned: torch.Tensor = heads * cosines + torch.cat([-second, first], -1) * sines
    return turned
