"""`Eagle`: one decoder layer that continues the model's hidden states, and so drafts token after token.

What: at a position the layer reads the model's hidden states of several depths, fused into one, and the embedding of
the next token. Its output stands for the hidden state there: through the model's own output layer, cut to the tokens
that texts consist of, it gives the distribution of the token after that. For the next draft token the output takes the
place of the fused states.
Options, each a size: one state that is fused with the embedding (EAGLE-1 and -2), norms, biases, and embeddings or an
output layer of the drafter's own (EAGLE-3); feature sampling and a second output (FSPAD, see `FeatureSampler` and
`EagleNetwork.continued`); several tokens for each pass of the layer (Falcon, see `EagleSizes.tokens_a_pass`).
Invariant: the KV cache holds the positions that the model has read, and what was drafted after them only until the next
draft. So drafts depend on the row's tokens alone, not on how it was cropped or drafted before.
Cost: for each row and step one pass of the layer over the tokens that the model has read, and one for each node from
which the draft goes on. With k tokens for each pass: one for each k-th node of a path. The KV cache has one layer.
Source: Li et al. 2024 (EAGLE), Li et al. 2025 (EAGLE-3): states of three depths, training on its own outputs. Gui et
al. 2024 (FSPAD), https://arxiv.org/abs/2408.15562, Gao et al. 2024 (Falcon), https://arxiv.org/abs/2412.12639, and the
code that both published.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import torch
from torch import nn
from torch.nn import functional

from ..drafters import Context
from .fitting import Fitted
from .layer_cache import LayerCache
from .layers import DraftLayer, LayerSizes, RMSNorm
from .learned_drafter import LearnedDrafter, LearnedRow
from .size_checks import check_flags, check_sizes
from .trimmed_head import Scores

__all__ = ["Eagle", "EagleNetwork", "EagleSizes", "FeatureSampler"]

_MOST_MISSING = 4
"""The largest number of passes that are computed on the way to a node, because no proposal needed them before. So far
from the model's states the layer is less often right."""
LARGEST_BLOCK = 16
"""The largest number of tokens that one pass of the layer gives."""


@dataclass(frozen=True)
class EagleSizes:
    """What determines the shapes of an EAGLE drafter."""

    layer: LayerSizes
    hidden_layers: tuple[int, ...]
    """The layers of the model whose states are fused, as in `HiddenStatesModel.start_with_hidden_states`."""
    input_norms: Literal["each", "all", "none"] = "each"
    """What is normed before states are fused: the state of each layer, all of them as one vector, or nothing."""
    fuse_bias: bool = False
    fuses_embeddings: bool = False
    """Whether the embedding of the next token is fused, too, so that the layer reads one vector. Then the states are
    those of one layer."""
    normed_embeddings: bool = False
    """Whether embeddings that are fused are normed before."""
    normed_output: bool = True
    """Whether the layer's output is normed before the output layer."""
    output_rows: int = 0
    """The number of rows of an output layer of its own; 0 for the model's."""
    embedding_rows: int = 0
    """The number of embeddings of its own; 0 for the model's."""
    sampler: int = 0
    """The width of the inner layer of a `FeatureSampler`; 0 for none."""
    second_output: bool = False
    """Whether the layer has an output of its own for the state that it goes on from, see `EagleNetwork.continued`."""
    tokens_a_pass: int = 1
    """The number k of states that one pass of the layer gives (Falcon).

    The pass reads the k last positions t - k + 1 to t, which see each other. The output at the i-th of them stands for
    the state k positions further, that of t + i, so the first k draft tokens take one pass. The next pass reads these
    outputs with the tokens that were drafted from them. Nodes of one block that are equally deep have the same logits:
    a token does not depend on those before it in its block. The LSTM that Falcon has in place of `EagleNetwork.fuse`
    is left out: its state would have to be kept for each position to which a row may be cropped."""

    def __post_init__(self) -> None:
        check_sizes(0, sampler=self.sampler, output_rows=self.output_rows, embedding_rows=self.embedding_rows)
        check_sizes(1, LARGEST_BLOCK, tokens_a_pass=self.tokens_a_pass)
        if not self.hidden_layers:
            raise ValueError("hidden_layers is empty")
        for layer in self.hidden_layers:
            check_sizes(0, hidden_layers=layer)
        check_flags(
            fuse_bias=self.fuse_bias,
            fuses_embeddings=self.fuses_embeddings,
            normed_embeddings=self.normed_embeddings,
            normed_output=self.normed_output,
            second_output=self.second_output,
        )
        if self.input_norms not in ("each", "all", "none"):
            raise ValueError(f"input_norms is {self.input_norms!r:.40}")
        if self.fuses_embeddings and len(self.hidden_layers) != 1:
            raise ValueError("embeddings are fused with the states of one layer")
        if self.second_output and not self.layer.mlp:
            raise ValueError("two outputs are those of a feed-forward part")

    @property
    def hidden(self) -> int:
        """The width of hidden states."""
        return self.layer.hidden

    def as_dict(self) -> dict[str, Any]:
        """Return the sizes as JSON values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, given: dict[str, Any]) -> EagleSizes:
        """Return the sizes that `as_dict` returned."""
        layer, layers = LayerSizes(**given["layer"]), tuple(given["hidden_layers"])
        return cls(**{**given, "layer": layer, "hidden_layers": layers})


class FeatureSampler(nn.Module):
    """Chooses what a state says about the token that follows it: a feed-forward part whose gate reads the embedding.

    A hidden state gives a distribution over the next token, and so stands for many of them. The embedding is that of
    the token which was drawn. Here it picks from the state, number by number, in a space of more dimensions:
    ``state + D (SiLU(G embedding) * U state)``. FSPAD calls this feature sampling. It is computed and not random.

    The embedding is normed before the gate, too, which the published code does not do.

    Args:
        hidden: The width of states.
        inner: The number of dimensions of the space in which the embedding picks.
        eps: Keeps norms from dividing by zero.
    """

    def __init__(self, hidden: int, inner: int, eps: float) -> None:
        super().__init__()
        self.state_norm, self.embedding_norm = RMSNorm(hidden, eps), RMSNorm(hidden, eps)
        self.gate = nn.Linear(hidden, inner, bias=False)
        self.up = nn.Linear(hidden, inner, bias=False)
        self.down = nn.Linear(inner, hidden, bias=False)
        nn.init.normal_(self.down.weight, std=0.01)  # at first it changes the state little

    def forward(self, states: torch.Tensor, embeddings: torch.Tensor) -> torch.Tensor:
        """Return new states, ``[..., hidden]``, from states and the embedding of the token after each of them."""
        gates = functional.silu(self.gate(self.embedding_norm(embeddings)))
        chosen: torch.Tensor = self.down(gates * self.up(self.state_norm(states)))
        return states + chosen


class EagleNetwork(nn.Module):
    """The weights of an EAGLE drafter, without the model's embeddings and output layer.

    `output` and `embeddings` are the drafter's own; None where it uses the model's.
    """

    def __init__(self, sizes: EagleSizes) -> None:
        super().__init__()
        self.sizes = sizes
        hidden, eps = sizes.layer.hidden, sizes.layer.eps
        width = len(sizes.hidden_layers) * hidden
        each = sizes.hidden_layers if sizes.input_norms == "each" else ()
        self.input_norms = nn.ModuleList(RMSNorm(hidden, eps) for _ in each)
        self.input_norm = RMSNorm(width, eps) if sizes.input_norms == "all" else nn.Identity()
        self.embedding_norm = RMSNorm(hidden, eps) if sizes.normed_embeddings else nn.Identity()
        self.fuse = nn.Linear(width + sizes.fuses_embeddings * hidden, hidden, bias=sizes.fuse_bias)
        self.sampler = FeatureSampler(hidden, sizes.sampler, eps) if sizes.sampler else None
        self.layer = DraftLayer(
            sizes.layer, reads_embeddings=not sizes.fuses_embeddings, outputs=1 + sizes.second_output
        )
        self.output_norm = RMSNorm(hidden, eps) if sizes.normed_output else nn.Identity()
        self.output = nn.Linear(hidden, sizes.output_rows, bias=False) if sizes.output_rows else None
        self.embeddings = nn.Embedding(sizes.embedding_rows, hidden) if sizes.embedding_rows else None

    def fused(self, states: torch.Tensor) -> torch.Tensor:
        """Return one state for each token, ``[..., hidden]``, from states ``[..., layers, hidden]``."""
        parts = list(states.unbind(-2))
        if self.input_norms:
            parts = [norm(part) for norm, part in zip(self.input_norms, parts, strict=True)]
        joined: torch.Tensor = self.input_norm(torch.cat(parts, -1))
        return joined if self.sizes.fuses_embeddings else self.fuse(joined)

    def layer_inputs(
        self, states: torch.Tensor, embeddings: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Return what the layer reads, of states that `fused` or the layer returned: the states, and the embeddings.

        Args:
            states: The states, ``[..., hidden]``.
            embeddings: The embedding of the token after each of them, of the same shape.
        """
        if self.sizes.fuses_embeddings:
            states = self.fuse(torch.cat([self.embedding_norm(embeddings), states], -1))
        if self.sampler is not None:
            states = self.sampler(states, embeddings)
        return states, None if self.sizes.fuses_embeddings else embeddings

    def continued(self, outputs: torch.Tensor) -> torch.Tensor:
        """Return the states that take the place of `fused` ones for the next draft token, ``[..., hidden]``.

        They are the layer's outputs. A layer of two outputs has one for this and another one for `predicted`, so that
        training can align the first one with the model's states, and the second one need not resemble them (partial
        alignment, FSPAD).

        Args:
            outputs: What the layer returned.
        """
        return outputs[..., -self.sizes.hidden :]

    def predicted(self, outputs: torch.Tensor) -> torch.Tensor:
        """Return the states that the output layer reads, ``[..., hidden]``.

        Args:
            outputs: What the layer returned.
        """
        normed: torch.Tensor = self.output_norm(outputs[..., : self.sizes.hidden])
        return normed


class Eagle(LearnedDrafter[EagleNetwork]):
    """Drafts with a decoder layer that was trained on the model's hidden states; see `LearnedDrafter`."""

    kind = "eagle"
    grows_without_lock = True
    sizes: EagleSizes

    def _sizes_from(self, given: dict[str, Any]) -> EagleSizes:
        return EagleSizes.from_dict(given)

    def new_network(self) -> EagleNetwork:
        """See `LearnedDrafter`."""
        return EagleNetwork(self.sizes)

    def _row(self, fitted: Fitted[EagleNetwork], temperature: float) -> _EagleRow:
        return _EagleRow(fitted, self, temperature)


@dataclass(slots=True)
class _Block:
    """What one pass of the layer gave, after a node of the draft or the tokens that the model has read."""

    output: torch.Tensor
    """What the layer returned, ``[tokens_a_pass, hidden]`` for a layer of one output."""
    slots: list[int]
    """Where the KV cache has the draft tokens up to it."""
    scores: list[Scores] | None = None
    """Of the tokens of the block."""


class _EagleRow(LearnedRow):
    """The KV cache of one row, and the nodes of its last draft."""

    def __init__(self, fitted: Fitted[EagleNetwork], drafter: Eagle, temperature: float) -> None:
        super().__init__(fitted.head, drafter, temperature)
        self._fitted, self._layers = fitted, drafter.hidden_layers
        self._width = fitted.network.sizes.tokens_a_pass
        self._cache = LayerCache(fitted.network.layer, fitted.like, self._width)
        self._read = 0
        """The number of positions that the cache has read for the current draft."""
        self._blocks: dict[tuple[int, ...], _Block] = {}
        """By the tokens after these positions and the one that the last of them reads, `tokens_a_pass` for each."""

    def observe(self, tokens: Sequence[int], start: int) -> None:
        self._cache.crop(start - 1)  # the position of a token also depends on the token after it
        self._blocks.clear()

    def _scores(self, context: Context) -> Scores | None:
        block = self._block(context)
        if block is None:
            return None
        if block.scores is None:
            block.scores = self._head.scores(self._fitted.network.predicted(block.output))
        return block.scores[(len(context.tokens) - 1 - self._read) % self._width]

    def _block(self, context: Context) -> _Block | None:
        """Return what gives the token after the context; None if nothing is known, or too much is missing."""
        base = len(context.tokens) - context.drafted
        if () not in self._blocks:
            root = self._root(context, base)
            if root is None:
                return None
            self._blocks[()] = root
        width = self._width
        after = tuple(context.tokens[self._read + 1 :])
        end = known = len(after) // width * width
        while after[:known] not in self._blocks:
            known -= width
        if end - known > width * _MOST_MISSING:
            return None
        block = self._blocks[after[:known]]
        for start in range(known, end, width):
            block = self._after(block, after[start : start + width], self._read + start)
            self._blocks[after[: start + width]] = block
        return block

    def _root(self, context: Context, base: int) -> _Block | None:
        """Read what the model has read since the last draft."""
        hidden, tokens = context.hidden, context.tokens
        if hidden is None:
            return None
        count = min(hidden.count, base - 1)

        def inputs(first: int) -> tuple[torch.Tensor, torch.Tensor | None]:
            network = self._fitted.network
            states = network.fused(self._fitted.states(hidden, first, self._layers)[: count - first])
            return network.layer_inputs(states, self._fitted.embedded(tokens[first + 1 : count + 1]))

        last = self._cache.read(count, inputs)
        self._read = self._cache.held
        return None if last is None else _Block(last, [])

    def _after(self, block: _Block, tokens: Sequence[int], position: int) -> _Block:
        """Return what follows a block and the tokens that were drafted from it, the first one at `position`."""
        network = self._fitted.network
        states, embeddings = network.layer_inputs(
            network.continued(block.output), self._fitted.embedded(tokens)
        )
        return _Block(*self._cache.step(states, embeddings, position, block.slots))
