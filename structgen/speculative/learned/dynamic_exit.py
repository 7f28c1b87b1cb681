"""`DEL`: drafts with the model's own first layers; how many layers and how many tokens follows from the context.

What: the state after any layer, through the model's own final norm and output layer, gives a distribution of the next
token. Nothing is trained. The model's hidden states at the tokens that it has read show which token each exit would
have drafted there ("shadow tokens"), also for exits that no draft has used. Decaying counts of the right ones give the
acceptance rate of each exit. Before each draft, exit and length are chosen that maximise expected tokens per time.
Invariant: the choice depends on earlier tokens only. Draft tokens run through the first layers with the row's own KV
cache (`Session.early_exit`).
Cost: hidden states of all candidate exits for every token. A look computes, for each of up to `_MOST_POSITIONS` tokens,
as many rows of the output layer as there are exits. So a look is taken in every n-th pass only, and more rarely while
no exit pays. With SmolLM2 on a CPU a look takes 0.2 passes, and 0.04 with 8,000 of its 49,000 tokens (`token_ids`); so
every eighth pass it adds 3 % and 0.5 %. Each draft token costs a pass of the chosen layers and the output layer.
Limits: models that were not trained for it (LayerSkip) agree with their last layers only, and then no exit pays. In
SmolLM2, layers 20 to 29 of 30 have 0.1 to 0.6 of the greedy tokens (`python -m bench.speculation.exits`). The most
probable token of an exit is compared with the token that was drawn, without the constraint's mask: under constraints
and at high temperatures more drafts are accepted than counted.
Source: Entezari Zarch et al. 2025 (DEL), https://arxiv.org/abs/2504.05598: shadow tokens, tokens per layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from structgen.errors import ModelError, OptionError, a_kind
from structgen.models.decoder_layers import NORMS, find_layers
from structgen.protocols import layer_count_of

from ..checks import check_number, check_whole
from ..drafters import Context, RowDrafter, SilentRow, Start
from ..per_model import PerModel
from ..trimmed_vocabulary import check_in_vocabulary, checked_token_ids
from .learned_drafter import LearnedRow
from .output_layers import logit_map_of
from .row_exit import RowExit
from .trimmed_head import Scores, TrimmedHead, trimmed_head
from .wrapped_models import transformers_model

__all__ = ["DEL", "Acceptances", "ExitCosts", "best_exit"]

_DEFAULT_EXITS = 7
_MOST_POSITIONS = 4
"""The largest number of tokens of one look."""
_PRIOR_WEIGHT = 4.0
"""The weight of the prior acceptance rate, in tokens."""
_LONGEST_WAIT = 16
"""The largest factor by which looks become rarer while no exit pays."""


@dataclass(frozen=True)
class ExitCosts:
    """Times, as fractions of the time of a forward pass over one token."""

    layer: float
    """Of one layer over one token."""
    head: float
    """Of the output layer that drafts use."""
    token: float = 0.03
    """Of another token in the verifying pass."""


def best_exit(
    rates: NDArray[np.float64], exits: Sequence[int], costs: ExitCosts, most: int
) -> tuple[int, int]:
    """Return the exit and the draft length that maximise the expected number of tokens per time.

    A draft of d tokens, each accepted with probability a if those before it are, yields ``1 + a + ... + a^d`` tokens on
    average. It takes the time of the verifying pass and of d passes to the exit.

    Args:
        rates: The acceptance rate of each exit, ``[exits]``.
        exits: The number of layers of each.
        costs: The times.
        most: The largest length.

    Returns:
        The index of the exit, and the length; a length of 0 if drafting does not pay.
    """
    lengths = np.arange(most + 1)
    tokens = (rates[:, None] ** lengths).cumsum(1)
    times = 1 + lengths * (np.asarray(exits)[:, None] * costs.layer + costs.head + costs.token)
    index, length = np.unravel_index(int((tokens / times).argmax()), tokens.shape)
    return int(index), int(length)


class Acceptances:
    """How often the token of each exit was the next one: decaying counts.

    Args:
        prior: The acceptance rate of each exit before anything is counted, ``[exits]``; or counts that give it, which
            then count everything, too.
        decay: The factor by which counts are multiplied with each token.
    """

    def __init__(self, prior: NDArray[np.float64] | Acceptances, decay: float) -> None:
        self._prior, self._decay = prior, decay
        self._right: NDArray[np.float64] | float = 0.0
        self._tried = 0.0

    def note(self, right: NDArray[np.bool_]) -> None:
        """Count tokens, the oldest first: whether each exit had each of them, ``[tokens, exits]``."""
        for one in right:
            self._right = self._right * self._decay + one
            self._tried = self._tried * self._decay + 1
        if isinstance(self._prior, Acceptances):
            self._prior.note(right)

    def rates(self) -> NDArray[np.float64]:
        """Return the estimated acceptance rate of each exit, ``[exits]``."""
        prior = self._prior.rates() if isinstance(self._prior, Acceptances) else self._prior
        rates: NDArray[np.float64] = (self._right + _PRIOR_WEIGHT * prior) / (self._tried + _PRIOR_WEIGHT)
        return rates


@dataclass(frozen=True)
class _Parts:
    """What the drafter computes with."""

    norm: torch.nn.Module
    """The model's final norm."""
    head: TrimmedHead
    exits: tuple[int, ...]
    costs: ExitCosts
    counts: Acceptances
    """Of all rows."""


class DEL:
    """Drafts with the first layers of the model. The exit layer and the draft length are chosen for each draft.

    It needs a model whose first layers can run alone (`SessionCapabilities.exits`). With others, generation goes on
    without the drafter, and a `SpeculationWarning` says so.

    Args:
        exits: The candidates: numbers of layers, each below the number of the model's layers. None for seven that are
            evenly spaced.
        most: The largest number of tokens of a draft path.
        least: The probability that a node must have for the draft to go on from it.
        width: The number of alternatives proposed at a node.
        token_ids: The tokens that may be drafted, as from `frequent_tokens`; None for all. With 8,000 of 49,000 tokens
            the output layer takes a sixth of the time.
        every: The number of passes from one look at the acceptance rates to the next.
        decay: The factor by which counts are multiplied with each token that is looked at.
        costs: Times of the parts of a pass, as `bench.speculation.exits` measures them; None for estimates from the
            numbers of weights.

    Raises:
        OptionError: An option is out of range.
        ModelError: The model has no such layers or tokens (when a text starts).
    """

    kind = "exit"
    gives_distributions = True

    def __init__(
        self,
        *,
        exits: Sequence[int] | None = None,
        most: int = 6,
        least: float = 0.3,
        width: int = 1,
        token_ids: ArrayLike | None = None,
        every: int = 8,
        decay: float = 0.97,
        costs: ExitCosts | None = None,
    ) -> None:
        check_whole("most", most)
        check_number("least", least)
        check_whole("width", width)
        check_whole("every", every, high=1_000_000)
        check_number("decay", decay)
        for exit_ in exits or ():
            check_whole("exits", exit_, high=100_000)
        if exits is not None and not len(exits):
            raise OptionError("there are no exits", hint="Leave out `exits` for seven candidates.")
        self.exits = None if exits is None else tuple(sorted(set(exits)))
        self.most, self.least, self.width = most, least, width
        self.token_ids = checked_token_ids(token_ids)
        self.every, self.decay, self.costs = every, decay, costs
        self._ready: PerModel[_Parts] = PerModel()

    def hidden_layers(self, layer_count: int) -> tuple[int, ...]:
        """Return the layers whose hidden states it reads; see `Drafter`."""
        if self.exits is not None:
            return self.exits
        places = {round(layer_count * place / (_DEFAULT_EXITS + 1)) for place in range(1, _DEFAULT_EXITS + 1)}
        return tuple(sorted(place for place in places if 0 < place < layer_count))

    def start(self, start: Start) -> RowDrafter:
        """See `Drafter`."""
        parts = self._ready.get(start.model)
        if parts is None:
            parts = self._fit(start.model)
            self._ready.set(start.model, parts)
        if layer_count_of(start.model) is None or not parts.exits:
            return SilentRow()
        return _ExitRow(parts, self, start)

    def _fit(self, model: Any) -> _Parts:
        whole = transformers_model(model)
        found = find_layers(whole)
        norm = found and next((found[0]._modules[name] for name in NORMS if name in found[0]._modules), None)
        if found is None or norm is None:
            raise ModelError(
                f"the layers of {a_kind(whole)} cannot run alone",
                hint="DEL needs a transformers model with `layers` that have `self_attn`, such as Llama's or Qwen's.",
            )
        layers, size = found[1], int(model.vocabulary.size)
        exits = self.hidden_layers(len(layers))
        if exits and exits[-1] >= len(layers):
            raise ModelError(f"there is no exit after layer {exits[-1]}: this model has {len(layers)} layers")
        ids = np.arange(size) if self.token_ids is None else self.token_ids
        check_in_vocabulary(ids, size)
        if self.token_ids is None:
            head = TrimmedHead(whole.get_output_embeddings(), ids, size, logit_map=logit_map_of(whole))
        else:
            head = trimmed_head(model, ids)
        each, hidden = _weights_of(layers[0]), found[0].get_input_embeddings().weight.shape[1]
        whole_pass = len(layers) * each + size * hidden
        costs = self.costs or ExitCosts(each / whole_pass, len(ids) * hidden / whole_pass)
        # Until there are counts, later layers are assumed to agree more often, and none to pay.
        prior = (np.array(exits) / len(layers)) ** 2
        return _Parts(norm, head, exits, costs, Acceptances(prior, self.decay))


def _weights_of(module: Any) -> int:
    """Return the number of weights of a module, packed ones included."""
    return sum(
        part.in_features * part.out_features
        if hasattr(part, "in_features")
        else sum(parameter.numel() for parameter in part.parameters(recurse=False))
        for part in module.modules()
    )


class _ExitRow(LearnedRow):
    """The acceptance rates and the last draft of one row."""

    def __init__(self, parts: _Parts, drafter: DEL, start: Start) -> None:
        super().__init__(parts.head, drafter, start.temperature)
        self._parts, self._every = parts, drafter.every
        self._counts = Acceptances(parts.counts, drafter.decay)
        self._exit = RowExit()
        self._known_scores: dict[tuple[int, ...], Scores] = {}
        self._looked = max(0, len(start.prompt) - 1)
        """The number of positions that need no look: those of the prompt and those that were looked at."""
        self._passes, self._wait = drafter.every, drafter.every
        """The number of passes since the last look, and that after which one is due."""
        self._choice: tuple[int, int] | None = None
        """The index of the exit and the length of this draft."""

    @property
    def name(self) -> str:
        """The name under which proposals of the current exit are counted."""
        index, _ = self._choice or (0, 0)
        return f"exit {self._parts.exits[index]}"

    def observe(self, tokens: Sequence[int], start: int) -> None:
        """See `RowDrafter.observe`."""
        self._looked = min(self._looked, max(0, start - 1))
        self._passes += 1
        self._exit.clear()
        self._known_scores.clear()
        self._choice = None

    def _scores(self, context: Context) -> Scores | None:
        hidden = context.hidden
        if hidden is None or not hidden.count:
            return None
        if self._choice is None:
            self._look(context)
            parts = self._parts
            self._choice = best_exit(self._counts.rates(), parts.exits, parts.costs, self._options.most)
            # While no exit pays, looks become rarer.
            longest = self._every if self._choice[1] else _LONGEST_WAIT * self._every
            self._wait = min(self._wait, longest)
        index, length = self._choice
        if context.drafted >= length:
            return None
        path = tuple(context.tokens[hidden.count :])
        scores = self._known_scores.get(path)
        if scores is None:
            layer = self._parts.exits[index]
            ended = hidden.since(hidden.count - 1, (layer,))[:, 0]
            states = self._exit.states(context, layer) if path else ended
            if states is None:
                return None
            scores = self._known_scores[path] = self._head.scores(self._parts.norm(states[-1:]))[0]
        return scores

    def _look(self, context: Context) -> None:
        """Count what each exit would have drafted at the last tokens, if a look is due."""
        hidden = context.hidden
        assert hidden is not None
        if self._passes < self._wait:
            return
        count = min(hidden.count, len(context.tokens) - context.drafted - 1)
        first = max(self._looked, count - _MOST_POSITIONS)
        if count <= first:
            return
        states = hidden.since(first, self._parts.exits)[: count - first]
        tokens = np.array(context.tokens[first + 1 : count + 1])
        best = self._head.best(self._parts.norm(states))
        self._counts.note(best == tokens[:, None])
        self._looked, self._passes, self._wait = count, 0, 2 * self._wait
