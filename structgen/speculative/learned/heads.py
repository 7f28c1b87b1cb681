"""`Medusa` and `Hydra`: heads on the model's last hidden state, one for each of the next tokens.

What: the state after the last token that the model has read gives the next token through the model's own output layer;
head k gives the token k places further. A head of Medusa reads the state only. A head of Hydra also reads the tokens
between, which are those of its draft path. Both end in the model's own output layer, cut to the tokens that texts
consist of.
Options of Hydra, each a size: several blocks or a wider inner layer in each head and a decoder layer over all tokens
before (Hydra++), attention over the drafted tokens (Clover), and encodings of the last three tokens in place of
embeddings (Chimera).
Invariant: drafts depend on the row's tokens alone, not on how it was cropped or drafted before.
Cost: Medusa computes all heads at once, one product with the output layer for each draft; Hydra one head for each node.
Source: Cai et al. 2024 (Medusa), Ankner et al. 2024 (Hydra), Xiao et al. 2024 (Clover), Zeng et al. 2024 (Chimera).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from structgen.errors import ModelError

from ..drafters import Context
from .fitting import Fitted
from .layer_cache import LayerCache
from .layers import DraftLayer, LayerSizes, RMSNorm
from .learned_drafter import LearnedDrafter, LearnedRow
from .size_checks import check_flags, check_sizes
from .trimmed_head import Scores

__all__ = ["MOST_BLOCKS", "MOST_HEADS", "HeadSizes", "HeadsNetwork", "Hydra", "Medusa"]

MOST_HEADS = 256
"""The largest number of heads."""
MOST_BLOCKS = 32
"""The largest number of blocks of a head."""
TRIGRAM = 3
"""The number of tokens of an encoding."""


@dataclass(frozen=True)
class HeadSizes:
    """What determines the shapes of the heads."""

    hidden: int
    """The width of hidden states."""
    layer: int
    """The layer whose states the heads read: the number of the model's layers, so that the states are those after the
    final norm."""
    count: int
    """The number of heads."""
    reads: int = 0
    """How many of the tokens between the state and the drafted token each head reads, at most: 0 in Medusa, `count` in
    Hydra."""
    blocks: int = 1
    """The number of residual blocks of each head."""
    inner: int = 0
    """The width of the inner layer of a block. 0 for blocks ``x + SiLU(U x)``, without a second matrix."""
    trigrams: bool = False
    """Whether the last three tokens are encoded together, where a token is read."""
    draft_layer: LayerSizes | None = None
    """A decoder layer over the drafted tokens. The heads read its output in place of the state."""
    context_layer: LayerSizes | None = None
    """A decoder layer over the states of the whole text. Its output takes the place of the state."""
    output_rows: int = 0
    """The number of rows of an output layer that each head has of its own; 0 for the model's."""

    def __post_init__(self) -> None:
        check_sizes(hidden=self.hidden, layer=self.layer)
        check_sizes(1, MOST_HEADS, count=self.count)
        check_sizes(0, MOST_HEADS, reads=self.reads)
        check_sizes(0, MOST_BLOCKS, blocks=self.blocks)
        check_sizes(0, inner=self.inner, output_rows=self.output_rows)
        check_flags(trigrams=self.trigrams)
        for layer in (self.draft_layer, self.context_layer):
            if layer is not None and layer.hidden != self.hidden:
                raise ValueError(f"a layer of {layer.hidden} numbers is no part of heads of {self.hidden}")
        if self.follows_draft and not (self.blocks and not self.output_rows):
            raise ValueError("heads that read draft tokens have blocks, and no output layers of their own")

    @property
    def hidden_layers(self) -> tuple[int, ...]:
        """The layers whose states are read, as in `HiddenStatesModel.start_with_hidden_states`."""
        return (self.layer,)

    @property
    def follows_draft(self) -> bool:
        """Whether a head's output depends on the drafted tokens."""
        return self.reads > 0 or self.draft_layer is not None

    def as_dict(self) -> dict[str, Any]:
        """Return the sizes as JSON values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, given: dict[str, Any]) -> HeadSizes:
        """Return the sizes that `as_dict` returned."""
        layers = {
            name: LayerSizes(**given[name])
            for name in ("draft_layer", "context_layer")
            if given.get(name) is not None
        }
        return cls(**{**given, **layers})


class ResidualBlock(nn.Module):
    """``state + SiLU(U inputs)``, or ``state + D SiLU(U inputs)``. At first it returns the state.

    Args:
        hidden: The width of the state.
        inputs: The width of the inputs.
        inner: The width of the inner layer; 0 if there is no D.
    """

    def __init__(self, hidden: int, inputs: int, inner: int) -> None:
        super().__init__()
        self.up = nn.Linear(inputs, inner or hidden)
        self.down = nn.Linear(inner, hidden, bias=False) if inner else None
        nn.init.zeros_(self.up.bias)
        nn.init.zeros_(self.up.weight if self.down is None else self.down.weight)

    def forward(self, state: torch.Tensor, inputs: torch.Tensor) -> torch.Tensor:
        """Return the new state, ``[..., hidden]``."""
        change = functional.silu(self.up(inputs))
        return state + (change if self.down is None else self.down(change))


class Head(nn.Module):
    """One head.

    Args:
        sizes: The sizes of all heads.
        reads: The number of tokens that it reads.
    """

    def __init__(self, sizes: HeadSizes, reads: int) -> None:
        super().__init__()
        hidden = sizes.hidden
        self.reads = reads
        self.blocks = nn.ModuleList(
            ResidualBlock(hidden, hidden if block else (1 + reads) * hidden, sizes.inner)
            for block in range(sizes.blocks)
        )

    def forward(self, state: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        """Return the state that stands for the one before the token that it predicts.

        Args:
            state: The state, ``[..., hidden]``.
            tokens: The encodings of all tokens after it, ``[..., tokens, hidden]``. It reads the last ones.
        """
        inputs = torch.cat([state, tokens[..., tokens.shape[-2] - self.reads :, :].flatten(-2)], -1)
        for block in self.blocks:
            state = inputs = block(state, inputs)
        return state


class OutputLayers(nn.ModuleList):
    """One output layer for each head."""

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """Return the logits ``[heads, rows]`` of the states of all heads, ``[heads, hidden]``."""
        return torch.stack([layer(state) for layer, state in zip(self, states, strict=True)])


class HeadsNetwork(nn.Module):
    """The weights of all heads, without the model's embeddings and output layer.

    `output` are the heads' own output layers; None where they use the model's.
    """

    def __init__(self, sizes: HeadSizes) -> None:
        super().__init__()
        self.sizes = sizes
        hidden = sizes.hidden
        self.heads = nn.ModuleList(Head(sizes, min(k, sizes.reads)) for k in range(1, sizes.count + 1))
        self.embedding_norm = RMSNorm(hidden)
        self.trigram = ResidualBlock(hidden, TRIGRAM * hidden, hidden) if sizes.trigrams else None
        self.draft_layer = None if sizes.draft_layer is None else DraftLayer(sizes.draft_layer)
        self.context_layer = None if sizes.context_layer is None else DraftLayer(sizes.context_layer)
        self.output = None
        if sizes.output_rows:
            self.output = OutputLayers(nn.Linear(hidden, sizes.output_rows, bias=False) for _ in self.heads)

    def head(self, number: int) -> Head:
        """Return a head, numbered from 1."""
        head = self.heads[number - 1]
        assert isinstance(head, Head)
        return head

    def encoded(self, embeddings: torch.Tensor) -> torch.Tensor:
        """Return what the heads read of tokens, ``[..., tokens, hidden]``.

        Args:
            embeddings: The embeddings of the tokens and of two tokens before them, ``[..., 2 + tokens, hidden]``; zeros
                before the start of the text.
        """
        normed: torch.Tensor = self.embedding_norm(embeddings)
        count = normed.shape[-2] - (TRIGRAM - 1)
        own = normed[..., TRIGRAM - 1 :, :]
        if self.trigram is None:
            return own
        windows = [normed[..., offset : offset + count, :] for offset in range(TRIGRAM)]
        encoded: torch.Tensor = self.trigram(own, torch.cat(windows, -1))
        return encoded


class _HeadsDrafter(LearnedDrafter[HeadsNetwork]):
    """Drafts with heads."""

    sizes: HeadSizes

    def _check_layers(self, layers: int) -> None:
        if layers != self.sizes.layer:
            raise ModelError(
                f"the heads were trained for a model of {self.sizes.layer} layers; this one has {layers}",
                hint="Use weights that were trained for this model.",
            )

    def _sizes_from(self, given: dict[str, Any]) -> HeadSizes:
        return HeadSizes.from_dict(given)

    def new_network(self) -> HeadsNetwork:
        """See `LearnedDrafter`."""
        return HeadsNetwork(self.sizes)

    def _row(self, fitted: Fitted[HeadsNetwork], temperature: float) -> _HeadsRow:
        return _HeadsRow(fitted, self, temperature)


class Medusa(_HeadsDrafter):
    """Drafts with heads that read the model's last hidden state only; see `LearnedDrafter`.

    A draft has no more tokens than the weights have heads.
    """

    kind = "medusa"
    grows_without_lock = True
    usual_least = 0.0

    def _sizes_from(self, given: dict[str, Any]) -> HeadSizes:
        sizes = super()._sizes_from(given)
        if sizes.follows_draft:
            raise ValueError("the heads read draft tokens")
        return sizes


class Hydra(_HeadsDrafter):
    """Drafts with heads that read the model's last hidden state and the draft tokens after it; see `LearnedDrafter`.

    A draft has no more tokens than the weights have heads.
    """

    kind = "hydra"
    grows_without_lock = True
    usual_least = 0.1


class _HeadsRow(LearnedRow):
    """The state that the heads of one row read, and what they gave in its last draft."""

    def __init__(self, fitted: Fitted[HeadsNetwork], drafter: _HeadsDrafter, temperature: float) -> None:
        super().__init__(fitted.head, drafter, temperature)
        self._fitted, self._network = fitted, fitted.network
        self._layers = drafter.hidden_layers
        context_layer, draft_layer = fitted.network.context_layer, fitted.network.draft_layer
        like = fitted.like
        self._context_cache = None if context_layer is None else LayerCache(context_layer, like)
        self._draft_cache = None if draft_layer is None else LayerCache(draft_layer, like)
        self._read = 0
        """How many tokens the model has read."""
        self._state: torch.Tensor | None = None
        """The state after them, ``[1, hidden]``; None until it is needed."""
        self._all: list[Scores] = []
        """The scores of all heads, if none of them reads draft tokens."""
        self._known_scores: dict[tuple[int, ...], Scores] = {}
        """By the tokens after the state."""
        self._nodes: dict[tuple[int, ...], tuple[torch.Tensor, list[int]]] = {}
        """The outputs of the layer over drafted tokens, and where its cache has the tokens."""

    def observe(self, tokens: Sequence[int], start: int) -> None:
        if self._context_cache is not None:
            self._context_cache.crop(start - 1)  # the position of a token also depends on the token after it
        self._state = None

    def _scores(self, context: Context) -> Scores | None:
        base, hidden = len(context.tokens) - context.drafted, context.hidden
        read = 0 if hidden is None else min(hidden.count, base - 1)
        after = tuple(context.tokens[read:]) if read else ()
        if not 0 < len(after) <= self._network.sizes.count:
            return None
        if self._state is None or self._read != read:
            self._start_draft(context, read)
        if not self._network.sizes.follows_draft:
            return self._all[len(after) - 1]
        scores = self._known_scores.get(after)
        if scores is None:
            scores = self._known_scores[after] = self._head.scores(self._output(context.tokens, after))[0]
        return scores

    def _start_draft(self, context: Context, read: int) -> None:
        """Find the state after the tokens that the model has read."""
        hidden, tokens, network = context.hidden, context.tokens, self._network
        assert hidden is not None
        self._known_scores.clear()
        self._nodes.clear()
        if self._draft_cache is not None:
            self._draft_cache.forget_draft()
        if self._context_cache is None:
            self._state = self._fitted.states(hidden, read - 1, self._layers)[:1, 0]
        else:

            def inputs(first: int) -> tuple[torch.Tensor, torch.Tensor]:
                states = self._fitted.states(hidden, first, self._layers)[: read - first, 0]
                return states, self._encoded(tokens, first + 1, read + 1)

            self._context_cache.crop(read)
            self._state = self._context_cache.read(read, inputs)
        self._read, state = read, self._state
        assert state is not None
        if not network.sizes.follows_draft:
            nothing = state.new_empty((1, 0, network.sizes.hidden))
            self._all = self._head.scores(torch.cat([head(state, nothing) for head in network.heads]))

    def _output(self, tokens: Sequence[int], after: tuple[int, ...]) -> torch.Tensor:
        """Return the output of the head that follows the tokens `after`, ``[1, hidden]``."""
        head = self._network.head(len(after))
        state = self._state if self._draft_cache is None else self._draft_state(tokens, after)
        end = len(tokens)
        output: torch.Tensor = head(state, self._encoded(tokens, end - head.reads, end)[None])
        return output

    def _draft_state(self, tokens: Sequence[int], after: tuple[int, ...]) -> torch.Tensor:
        """Return the output of the layer over drafted tokens at the last one."""
        assert self._state is not None and self._draft_cache is not None
        known = len(after)
        while known and after[:known] not in self._nodes:
            known -= 1
        state, slots = self._nodes.get(after[:known], (self._state, []))
        for index in range(known, len(after)):
            encoded = self._encoded(tokens, self._read + index, self._read + index + 1)
            state, slots = self._draft_cache.step(self._state, encoded, index, slots)
            self._nodes[after[: index + 1]] = state, slots
        return state

    def _encoded(self, tokens: Sequence[int], start: int, stop: int) -> torch.Tensor:
        """Return what the heads read of the tokens from number `start` to `stop`, ``[tokens, hidden]``."""
        first = start - (TRIGRAM - 1)
        embeddings = self._fitted.embedded(tokens[max(0, first) : stop])
        return self._network.encoded(functional.pad(embeddings, (0, 0, max(0, -first), 0)))
