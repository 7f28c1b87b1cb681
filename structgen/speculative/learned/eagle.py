"""`Eagle`: one decoder layer that continues the model's hidden states, and so drafts token after token.

What: at a position the layer reads the model's hidden states of several depths, fused into one, and the embedding of
the next token. Its output stands for the hidden state there: through the model's own output layer, cut to the tokens
that texts consist of, it gives the distribution of the token after that. For the next draft token the output takes the
place of the fused states.
Invariant: the KV cache holds the positions that the model has read, and what was drafted after them only until the next
draft. So drafts depend on the row's tokens alone, not on how it was cropped or drafted before.
Cost: for each row and step one pass of the layer over the tokens that the model has read, and one for each node from
which the draft goes on. The KV cache has one layer.
Source: Li et al. 2024 (EAGLE), Li et al. 2025 (EAGLE-3): states of three depths, training on its own outputs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from structgen.errors import ModelError, VocabularyMismatch, a_kind
from structgen.generation.distributions import bits_of
from structgen.models.packed import pack_linear

from ..checks import check_number, check_whole
from ..drafters import Context, Proposal, RowDrafter, SilentRow, Start
from .acceptance import AcceptanceHead, network_tensors
from .layers import DraftLayer, LayerSizes, RMSNorm
from .weights import DraftWeights, load_weights

__all__ = ["Eagle", "EagleNetwork", "EagleSizes"]

_MIN_TEMPERATURE = 0.05
_MOST_MISSING = 3
"""The largest number of nodes that are computed on the way to one, because no proposal needed them before."""
_FIRST_CAPACITY = 256


@dataclass(frozen=True)
class EagleSizes:
    """What determines the shapes of an EAGLE drafter."""

    layer: LayerSizes
    hidden_layers: tuple[int, ...]
    """The layers of the model whose states are fused, as in `LanguageModel.start_with_hidden_states`."""

    def as_dict(self) -> dict[str, Any]:
        """Return the sizes as JSON values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, given: dict[str, Any]) -> EagleSizes:
        """Return the sizes that `as_dict` returned."""
        return cls(LayerSizes(**given["layer"]), tuple(given["hidden_layers"]))


class EagleNetwork(nn.Module):
    """The weights of an EAGLE drafter, without the model's embeddings and output layer."""

    def __init__(self, sizes: EagleSizes) -> None:
        super().__init__()
        self.sizes = sizes
        hidden = sizes.layer.hidden
        self.input_norms = nn.ModuleList(RMSNorm(hidden, sizes.layer.eps) for _ in sizes.hidden_layers)
        self.fuse = nn.Linear(len(sizes.hidden_layers) * hidden, hidden, bias=False)
        self.layer = DraftLayer(sizes.layer)
        self.output_norm = RMSNorm(hidden, sizes.layer.eps)

    def fused(self, states: torch.Tensor) -> torch.Tensor:
        """Return one state for each token, ``[..., hidden]``, from states ``[..., layers, hidden]``."""
        normed = [norm(states[..., index, :]) for index, norm in enumerate(self.input_norms)]
        output: torch.Tensor = self.fuse(torch.cat(normed, -1))
        return output


class Eagle:
    """Drafts with a decoder layer that was trained on the model's hidden states.

    Args:
        weights: Weights that `structgen draft train` wrote, or the path of their file.
        most: The largest number of tokens of a draft path.
        least: The probability that a node must have for the draft to go on from it.
        width: The number of alternatives proposed at a node.
        acceptance: Estimates the probability that the first-ranked token is accepted. By default it is the probability
            that the drafter gives the token.

    Raises:
        ModelError: The weights are not of such a drafter, or not for the model (when a text starts).
        VocabularyMismatch: They were trained with another tokenizer (when a text starts).
    """

    gives_distributions = True

    def __init__(
        self,
        weights: DraftWeights | str,
        *,
        most: int = 6,
        least: float = 0.2,
        width: int = 3,
        acceptance: AcceptanceHead | None = None,
    ) -> None:
        check_whole("most", most)
        check_number("least", least)
        check_whole("width", width)
        self.weights = load_weights(weights) if isinstance(weights, str) else weights
        if self.weights.kind != "eagle":
            raise ModelError(f"these are weights of {a_kind(self.weights.kind)}, not of an EAGLE drafter")
        self.most, self.least, self.width = most, least, width
        self.sizes = EagleSizes.from_dict(self.weights.sizes)
        self.hidden_layers = self.sizes.hidden_layers
        if acceptance is not None and acceptance.hidden != self.sizes.layer.hidden:
            raise ModelError(
                f"the acceptance head reads states of {acceptance.hidden} numbers; the drafter's have "
                f"{self.sizes.layer.hidden}"
            )
        self.acceptance = acceptance
        self._model: Any = None
        self._parts: _Parts | None = None

    def start(self, start: Start) -> RowDrafter:
        """See `Drafter`."""
        if self._model is not start.model or self._parts is None:
            self._parts, self._model = _parts_for(self, start.model), start.model
        if start.model.layer_count is None:
            return SilentRow()
        return _EagleRow(self._parts, self, start.temperature)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_model": None, "_parts": None}  # made again from the weights


@dataclass(frozen=True)
class _Parts:
    """What the drafter computes with: its weights, and the model's embeddings and output rows."""

    network: EagleNetwork
    embeddings: torch.Tensor
    """Of all tokens, ``[tokens, hidden]``."""
    head: nn.Module
    """The rows of the model's output layer for `token_ids`."""
    token_ids: NDArray[np.int64]
    """The tokens that may be drafted, ascending."""
    size: int
    """The size of the vocabulary."""
    acceptance: nn.Module | None


def _parts_for(drafter: Eagle, model: Any) -> _Parts:
    """Check that the weights are for the model; return what the drafter computes with."""
    weights, sizes = drafter.weights, drafter.sizes
    network = EagleNetwork(sizes)
    whole = getattr(model, "model", None)
    if whole is None or not hasattr(whole, "get_input_embeddings"):
        raise ModelError(
            f"a learned drafter reads the weights of a transformers model, and {a_kind(model)} has none"
        )
    embeddings, width = whole.get_input_embeddings().weight.detach(), sizes.layer.hidden
    if embeddings.shape[1] != width:
        raise ModelError(
            f"the drafter's weights are for hidden states of {width} numbers; this model's have {embeddings.shape[1]}",
            hint="Use weights that were trained for this model.",
        )
    if weights.vocabulary != model.vocabulary.fingerprint:
        raise VocabularyMismatch(
            "the drafter's weights were trained with another tokenizer: some token is not the same",
            hint="Use weights that were trained for this model, or train them: structgen draft train.",
        )
    network.load_state_dict(network_tensors(weights))
    rows = torch.from_numpy(weights.token_ids).to(embeddings.device)
    head = nn.Linear(width, len(rows), bias=False)
    head.weight = nn.Parameter(_output_rows(whole, embeddings, rows).clone(), requires_grad=False)
    modules = [network, head] if drafter.acceptance is None else [network, head, deepcopy(drafter.acceptance)]
    parts = nn.ModuleList(modules).to(embeddings.device, embeddings.dtype).eval().requires_grad_(False)
    if embeddings.device.type == "cpu":
        pack_linear(parts)
    acceptance = parts[2] if len(parts) > 2 else None
    return _Parts(network, embeddings, parts[1], weights.token_ids, model.vocabulary.size, acceptance)


def _output_rows(whole: Any, embeddings: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """Return rows of the model's output layer."""
    if getattr(whole.config.get_text_config(), "tie_word_embeddings", False):
        return embeddings[rows]
    weight: torch.Tensor = whole.get_output_embeddings().weight
    return weight.detach()[rows]


@dataclass(slots=True)
class _Node:
    """A node of the draft, or the end of the row."""

    state: torch.Tensor
    """The layer's output there, ``[1, hidden]``."""
    slots: list[int]
    """Where the KV cache has the draft tokens up to it."""
    logits: NDArray[np.float32] | None = None
    """Of the tokens that may be drafted."""
    acceptance: tuple[int, float] | None = None
    """Which of these tokens is first-ranked, and how probably it is accepted. None without an acceptance head."""


class _EagleRow(RowDrafter):
    """The KV cache of one row, and the nodes of its last draft."""

    name = "eagle"

    def __init__(self, parts: _Parts, drafter: Eagle, temperature: float) -> None:
        self._parts, self._drafter = parts, drafter
        self._temperature = max(temperature, _MIN_TEMPERATURE)
        self._held = 0
        """The number of positions whose keys and values are those of states of the model."""
        self._slots = 0
        """The number of used slots of the cache, those of draft tokens included."""
        layer = parts.network.sizes.layer
        shape = (2, layer.kv_heads, _FIRST_CAPACITY, layer.head_size)
        self._cache = torch.empty(shape, dtype=parts.embeddings.dtype, device=parts.embeddings.device)
        """Keys and values, ``[2, heads, slots, head size]``."""
        self._angles = parts.network.layer.angles(0, _FIRST_CAPACITY).to(self._cache)
        self._last: torch.Tensor | None = None
        """The output at the last position that is held."""
        self._nodes: dict[tuple[int, ...], _Node] = {}

    def observe(self, tokens: Sequence[int], start: int) -> None:
        # The position of a token also depends on the token after it.
        if start - 1 < self._held:
            self._held, self._last = max(0, start - 1), None
        self._nodes.clear()

    def propose(self, context: Context) -> Iterable[Proposal]:
        logits = self._logits(context)
        if logits is None:
            return ()
        width = min(self._drafter.width, len(logits))
        best = np.argpartition(logits, -width)[-width:] if width < len(logits) else np.arange(width)
        best = best[np.argsort(-logits[best], kind="stable")]
        masses = np.exp(logits - logits[best[0]])
        chances = masses[best] / masses.sum()
        accepted = self._nodes[tuple(context.tokens[len(context.tokens) - context.drafted :])].acceptance
        if (
            accepted is not None and accepted[0] == best[0]
        ):  # the mask allows the token for which the head is trained
            chances[0] = accepted[1]
        depth = min(context.drafted, 3)
        return [
            Proposal(
                (int(self._parts.token_ids[place]),),
                f"eagle {rank}, {depth}, {int(chance * 10)}",
                float(chance),
                is_probability=True,
            )
            for rank, (place, chance) in enumerate(zip(best, chances, strict=True))
            if chance > 0
        ]

    def distribution(self, context: Context) -> NDArray[Any] | None:
        """Return the distribution of the next token at the row's temperature, ``[vocabulary.size]``."""
        logits = self._logits(context)
        if logits is None:
            return None
        scaled = logits.astype(np.float64) / self._temperature
        distribution = np.zeros(self._parts.size)
        distribution[self._parts.token_ids] = np.exp(scaled - scaled.max())
        return distribution

    def _logits(self, context: Context) -> NDArray[np.float32] | None:
        """Return the logits of the tokens that may be drafted at a node; minus infinity where the mask forbids one."""
        if context.drafted >= self._drafter.most or context.reach < self._drafter.least:
            return None
        with torch.inference_mode():
            node = self._node(context)
            if node is None:
                return None
            if node.logits is None:
                normed = self._parts.network.output_norm(node.state)
                node.logits = self._parts.head(normed)[0].float().cpu().numpy()
                if self._parts.acceptance is not None:
                    chance = float(self._parts.acceptance(normed).float().sigmoid()[0])
                    node.acceptance = int(np.argmax(node.logits)), chance
        logits = node.logits
        if context.is_constrained:
            allowed = bits_of(context.matcher.mask(), self._parts.size)[self._parts.token_ids]
            if not allowed.any():
                return None
            logits = np.where(allowed, logits, np.float32(-np.inf))
        return logits

    def _node(self, context: Context) -> _Node | None:
        """Return the node at the end of the context; None if nothing is known of the row, or too much is missing."""
        base = len(context.tokens) - context.drafted
        path = tuple(context.tokens[base:])
        known = len(path)
        while known and path[:known] not in self._nodes:
            known -= 1
        if len(path) - known > _MOST_MISSING:
            return None
        node = self._nodes.get(path[:known])
        if node is None:
            node = self._root(context, base)
            if node is None:
                return None
            self._nodes[()] = node
        for depth in range(known, len(path)):
            node = self._after(node, path[depth], base - 1 + depth)
            self._nodes[path[: depth + 1]] = node
        return node

    def _root(self, context: Context, base: int) -> _Node | None:
        """Read what the model has read since the last draft; return the node at the end of the row."""
        if context.hidden is None:
            return None
        self._slots = self._held
        count = min(context.hidden.count, base - 1)
        if count > self._held:
            states = context.hidden.since(self._held, self._drafter.hidden_layers)[: count - self._held]
            self._last = self._read(states, context.tokens[self._held + 1 : count + 1])
            self._held = self._slots
        if self._last is None:
            if not self._held:
                return None
            # The position is held, and its output is not: compute it again.
            self._held -= 1
            return self._root(context, base)
        node = _Node(self._last, [])
        for position in range(self._held, base - 1):  # tokens that the model has not read yet
            node = self._after(node, context.tokens[position + 1], position)
        return node

    def _read(self, states: torch.Tensor, tokens: Sequence[int]) -> torch.Tensor:
        """Add positions that the model has read; return the output at the last one."""
        network, first, count = self._parts.network, self._held, len(tokens)
        self._make_room(first + count)
        fused = network.fused(states)
        queries, keys, values = network.layer.projected(
            fused, self._embedded(tokens), self._angles[:, first : first + count]
        )
        self._cache[0, :, first : first + count] = keys
        self._cache[1, :, first : first + count] = values
        self._slots = first + count
        mask = None
        if count > 1:
            mask = torch.ones((count, self._slots), dtype=torch.bool, device=keys.device).tril(first)
        held = self._cache[:, None, :, : self._slots]
        attended = functional.scaled_dot_product_attention(
            queries[None], held[0], held[1], attn_mask=mask, enable_gqa=True
        )[0]
        return network.layer.finished(fused[-1:], attended[:, -1].reshape(1, -1))

    def _after(self, node: _Node, token: int, position: int) -> _Node:
        """Return the node after `node` and `token`, at `position`."""
        layer = self._parts.network.layer
        slot = self._slots
        self._make_room(max(slot, position) + 1)
        queries, keys, values = layer.projected(
            node.state, self._embedded([token]), self._angles[:, position : position + 1]
        )
        self._cache[0, :, slot : slot + 1], self._cache[1, :, slot : slot + 1] = keys, values
        self._slots = slot + 1
        slots = [*node.slots, slot]
        if slots[0] == self._held and slots[-1] == self._held + len(slots) - 1:
            seen = self._cache[:, :, : self._held + len(slots)]
        else:
            seen = torch.cat([self._cache[:, :, : self._held], self._cache[:, :, slots]], 2)
        heads, size = layer.sizes.kv_heads, layer.sizes.head_size
        grouped = queries.view(heads, -1, size)  # the queries that share keys and values
        weights = (grouped @ seen[0].transpose(-1, -2) / size**0.5).softmax(-1)
        return _Node(layer.finished(node.state, (weights @ seen[1]).reshape(1, -1)), slots)

    def _embedded(self, tokens: Sequence[int]) -> torch.Tensor:
        return self._parts.embeddings[list(tokens)]

    def _make_room(self, slots: int) -> None:
        """Let the cache and the angles have at least so many slots."""
        capacity = self._cache.shape[2]
        if slots <= capacity:
            return
        more = max(slots, 2 * capacity)
        grown = self._cache.new_empty((*self._cache.shape[:2], more, self._cache.shape[3]))
        grown[:, :, :capacity] = self._cache
        self._cache = grown
        self._angles = self._parts.network.layer.angles(0, more).to(self._cache)
