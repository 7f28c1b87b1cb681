"""What all learned drafters share: weights that are checked against the model, a trimmed output layer, proposals.

What: a `LearnedDrafter` reads weights and fits them to the model when the first text starts. Its rows compute one state
for each node. The model's own output layer, cut to the tokens that texts consist of, makes logits of it, and the
constraint's mask leaves out what may not follow.
Invariant: a drafter proposes only tokens that its weights list and that the mask allows. Verification is that of any
draft, so the text does not depend on the weights.
Cost: a copy of the listed rows of the output layer for each model.
Source: "VocabTrim" (Goel et al. 2025): a draft needs only the tokens that are frequent.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from inspect import Parameter, signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from structgen.errors import ModelError, OptionError, VocabularyMismatch, a_kind
from structgen.generation.distributions import bits_of
from structgen.models.packed import can_pack, pack_linear
from structgen.protocols import layer_count_of

from ..checks import check_number, check_whole
from ..drafters import Context, Proposal, RowDrafter, SilentRow, Start
from ..per_model import PerModel
from .acceptance import AcceptanceHead, network_tensors
from .int8_linear import with_int8
from .made_networks import network_of
from .output_layers import LogitMap, logit_map_of, output_rows, output_weight
from .weights import DraftWeights, load_weights

if TYPE_CHECKING:
    from structgen.generation.drafting import RowStates

__all__ = [
    "Fitted",
    "LearnedDrafter",
    "LearnedRow",
    "Options",
    "Scores",
    "Sizes",
    "TrimmedHead",
    "fit",
    "output_weight",
    "transformers_model",
    "trimmed_head",
]

_MIN_TEMPERATURE = 0.05
_WIDE = 512
"""The width from which products in bfloat16 are faster: of 576 x 8192, in half the time; of 256 x 256, not."""
_RETRAIN = "Use weights that were trained for this model, or train them: structgen draft train."


class Sizes(Protocol):
    """What determines the shapes of a drafter."""

    @property
    def hidden(self) -> int:
        """The width of the model's hidden states."""
        ...

    @property
    def hidden_layers(self) -> tuple[int, ...]:
        """The layers whose states it reads, as in `HiddenStatesModel.start_with_hidden_states`."""
        ...


@dataclass(frozen=True, slots=True)
class Scores:
    """What the output layers make of a node's state."""

    logits: NDArray[np.float32]
    """Of the tokens that may be drafted."""
    acceptance: float | None
    """The probability that the token with the largest of them is accepted. None without an acceptance head."""


class TrimmedHead:
    """The rows of a model's output layer for some tokens.

    Args:
        layer: Makes logits of the tokens from states: the linear layer of those rows, or one for each of the states.
        token_ids: The tokens, ascending.
        size: The size of the vocabulary.
        acceptance: The acceptance head.
        logit_map: What the model does with the logits of the layer.
    """

    def __init__(
        self,
        layer: nn.Module,
        token_ids: NDArray[np.int64],
        size: int,
        acceptance: nn.Module | None = None,
        logit_map: LogitMap | None = None,
    ) -> None:
        self._layer, self.token_ids, self.size, self._acceptance = layer, token_ids, size, acceptance
        self._map = LogitMap() if logit_map is None else logit_map

    def scores(self, states: torch.Tensor) -> list[Scores]:
        """Return what follows from each of the states ``[states, hidden]``."""
        logits = self._map(self._layer(states).float()).cpu().numpy()
        if self._acceptance is None:
            return [Scores(row, None) for row in logits]
        chances = self._acceptance(states).float().sigmoid().tolist()
        return [Scores(row, chance) for row, chance in zip(logits, chances, strict=True)]

    def best(self, states: torch.Tensor) -> NDArray[np.int64]:
        """Return the token with the largest logit of each of the states ``[..., hidden]``."""
        best: NDArray[np.int64] = self.token_ids[self._layer(states).argmax(-1).cpu().numpy()]
        return best

    def masked(self, logits: NDArray[np.float32], context: Context) -> NDArray[np.float32] | None:
        """Return logits with minus infinity where the constraint forbids a token; None if it forbids all of them."""
        if not context.is_constrained:
            return logits
        allowed = bits_of(context.matcher.mask(), self.size)[self.token_ids]
        return np.where(allowed, logits, np.float32(-np.inf)) if allowed.any() else None

    def proposals(self, scores: Scores, context: Context, name: str, width: int) -> list[Proposal]:
        """Return the most probable tokens that the constraint allows, each as a proposal.

        Acceptance is counted by the rank, the depth (at most 3) and the tenth of the probability.
        """
        logits = self.masked(scores.logits, context)
        if logits is None:
            return []
        width = min(width, len(logits))
        best = np.argpartition(logits, -width)[-width:] if width < len(logits) else np.arange(width)
        best = best[np.argsort(-logits[best], kind="stable")]
        masses = np.exp(logits - logits[best[0]])
        chances = masses[best] / masses.sum()
        # The acceptance head was trained for the token that is first-ranked without a mask.
        if scores.acceptance is not None and best[0] == scores.logits.argmax():
            chances[0] = scores.acceptance
        depth = min(context.drafted, 3)
        return [
            Proposal(
                (int(self.token_ids[place]),),
                f"{name} {rank}, {depth}, {int(chance * 10)}",
                float(chance),
                is_probability=True,
            )
            for rank, (place, chance) in enumerate(zip(best, chances, strict=True))
            if chance > 0
        ]

    def distribution(self, logits: NDArray[np.float32], temperature: float) -> NDArray[np.float64]:
        """Return the distribution over the whole vocabulary, not normalised, ``[size]``."""
        scaled = logits.astype(np.float64) / max(temperature, _MIN_TEMPERATURE)
        distribution = np.zeros(self.size)
        distribution[self.token_ids] = np.exp(scaled - scaled.max())
        return distribution


_Network = TypeVar("_Network", bound=nn.Module)


@dataclass(frozen=True)
class Fitted(Generic[_Network]):
    """What a drafter computes with. It has tensors of the model, and no reference to it."""

    network: _Network
    """Its weights, on the model's device and in its precision."""
    embeddings: torch.Tensor
    """The embeddings of all tokens, ``[tokens, hidden]``: the model's, or the drafter's own."""
    head: TrimmedHead
    like: torch.Tensor
    """An empty tensor in the precision of the network."""

    def embedded(self, tokens: Sequence[int]) -> torch.Tensor:
        """Return the embeddings of tokens, ``[tokens, hidden]``."""
        return self.embeddings[list(tokens)].to(self.like)

    def states(self, hidden: RowStates, start: int, layers: Sequence[int]) -> torch.Tensor:
        """Return the model's states after the tokens from number `start` on, ``[tokens, layers, hidden]``."""
        states: torch.Tensor = hidden.since(start, layers)
        return states.to(self.like)


def transformers_model(model: Any) -> Any:
    """Return the model of `transformers` in a `LanguageModel`.

    Raises:
        ModelError: It is not one of `transformers`.
    """
    whole = getattr(model, "model", None)
    while whole is not None and not hasattr(whole, "get_input_embeddings"):
        whole = getattr(whole, "model", None)  # a model with processors contains another one
    if whole is None:
        raise ModelError(
            f"a learned drafter reads the weights of a transformers model, and {a_kind(model)} has none"
        )
    return whole


def fit(
    weights: DraftWeights,
    sizes: Sizes,
    make_network: Callable[[], _Network],
    model: Any,
    acceptance: AcceptanceHead | None = None,
    *,
    in_half: bool = False,
) -> Fitted[_Network]:
    """Check that weights are for a model; return what the drafter computes with.

    Args:
        weights: The weights.
        sizes: Their sizes.
        make_network: Makes a network of these sizes, which gets the weights.
        model: The model, a `LanguageModel`.
        acceptance: The acceptance head. It is copied.
        in_half: Whether the network may compute in bfloat16, with int8 weights, for a model in float32: where a CPU has
            fast products for it, and layers are so wide that reading their weights is most of the work.

    Raises:
        ModelError: The model is not one of `transformers`, its sizes are others, or the weights do not have the shapes
            that their sizes give.
        VocabularyMismatch: They were trained with another tokenizer.
    """
    whole = transformers_model(model)
    embeddings = whole.get_input_embeddings().weight.detach()
    if embeddings.shape[1] != sizes.hidden:
        raise ModelError(
            f"the drafter's weights are for hidden states of {sizes.hidden} numbers; "
            f"this model's have {embeddings.shape[1]}",
            hint="Use weights that were trained for this model.",
        )
    if weights.vocabulary != model.vocabulary.fingerprint:
        raise VocabularyMismatch(
            "the drafter's weights were trained with another tokenizer: some token is not the same",
            hint=_RETRAIN,
        )
    layers, last = layer_count_of(model), max(sizes.hidden_layers, default=0)
    if layers is not None and last > layers:
        raise ModelError(
            f"the drafter reads the hidden states of layer {last}; this model has {layers} layers",
            hint=_RETRAIN,
        )
    usable = min(model.vocabulary.size, len(embeddings))
    if weights.token_ids[-1] >= usable:
        raise ModelError(
            f"the drafter's weights list token {weights.token_ids[-1]}, which the model does not have"
        )
    rows, own_embeddings = getattr(sizes, "output_rows", 0), getattr(sizes, "embedding_rows", 0)
    if rows not in (0, len(weights.token_ids)):
        raise ModelError(
            f"the drafter's output layer has {rows} rows for the {len(weights.token_ids)} tokens that its weights list"
        )
    if 0 < own_embeddings < usable:
        raise ModelError(f"the drafter has {own_embeddings} embeddings for {usable} tokens")
    network = network_of(make_network, network_tensors(weights), "the drafter's weights")
    parts = nn.ModuleDict({"network": network})
    # An output layer of the drafter's own was trained without what the model does after its own.
    own_output = getattr(network, "output", None) is not None
    # The logits of prompt tokens are the model's.
    logit_map = None if own_output or weights.kind == "prompt-tokens" else logit_map_of(whole)
    if not own_output:
        parts["output"] = output_rows(whole, weights.token_ids)
    if acceptance is not None:
        parts["acceptance"] = deepcopy(acceptance)
    dtype, is_on_cpu = embeddings.dtype, embeddings.device.type == "cpu"
    in_half = in_half and is_on_cpu and sizes.hidden >= _WIDE and can_pack(torch.bfloat16)
    if in_half and dtype == torch.float32:
        dtype = torch.bfloat16
    parts.to(embeddings.device, dtype).eval().requires_grad_(False)
    if in_half and dtype == torch.bfloat16:
        with_int8(parts)
    if is_on_cpu:
        pack_linear(parts)
    output = parts.get_submodule("output" if "output" in parts else "network.output")
    found = getattr(network, "embeddings", None)
    own = found if isinstance(found, nn.Embedding) else None
    trimmed = TrimmedHead(
        output,
        weights.token_ids,
        model.vocabulary.size,
        parts["acceptance"] if acceptance is not None else None,
        logit_map,
    )
    like = torch.empty(0, dtype=dtype, device=embeddings.device)
    return Fitted(network, embeddings if own is None else own.weight, trimmed, like)


def trimmed_head(model: Any, token_ids: NDArray[np.int64]) -> TrimmedHead:
    """Return a model's own output layer, cut to some tokens.

    Args:
        model: A `LanguageModel` with a model of `transformers`.
        token_ids: The tokens, ascending.
    """
    whole = transformers_model(model)
    module = nn.ModuleList([output_rows(whole, token_ids)])
    if module[0].weight.device.type == "cpu":
        pack_linear(module)
    return TrimmedHead(module[0], token_ids, model.vocabulary.size, logit_map=logit_map_of(whole))


class Options(Protocol):
    """What determines which drafts are made."""

    most: int
    """The largest number of tokens of a draft path."""
    least: float
    """The probability that a node must have for the draft to go on from it."""
    width: int
    """The number of alternatives proposed at a node."""

    @property
    def kind(self) -> str:
        """The name under which proposals are counted."""
        ...


class LearnedDrafter(ABC, Generic[_Network]):
    """A drafter with trained weights. A subclass has sizes, a network, and rows.

    It keeps no model alive: when the model is freed, what was made for it is dropped. Then it drafts for the next model
    that its weights fit.

    Rows share what was computed from the weights, and none of them changes it. So subclasses may declare
    ``grows_without_lock`` (`Drafter`) if their rows share nothing else.

    Args:
        weights: Weights that `structgen draft train` wrote, or the path of their file.
        most: The largest number of tokens of a draft path.
        least: The probability that a node must have for the draft to go on from it; None for `usual_least`.
        width: The number of alternatives proposed at a node; None for `usual_width`.
        acceptance: Estimates the probability that the first-ranked token is accepted. By default it is the probability
            that the drafter gives the token.

    Raises:
        ModelError: The weights are not of such a drafter, or not for the model (when a text starts).
        VocabularyMismatch: They were trained with another tokenizer (when a text starts).
    """

    kind: ClassVar[str]
    """The `DraftWeights.kind` that it reads."""
    gives_distributions = True
    usual_least: ClassVar[float] = 0.2
    usual_width: ClassVar[int] = 3
    computes_in_half: ClassVar[bool] = True
    """Whether its network may compute in bfloat16 for a model in float32, see `fit`."""
    drafts_in_batches: ClassVar[bool] = True
    """Whether it drafts for the rows of a running batch, as those of a server."""

    def __init__(
        self,
        weights: DraftWeights | str | Path,
        *,
        most: int = 12,
        least: float | None = None,
        width: int | None = None,
        acceptance: AcceptanceHead | None = None,
    ) -> None:
        least = self.usual_least if least is None else least
        width = self.usual_width if width is None else width
        check_whole("most", most)
        check_number("least", least)
        check_whole("width", width)
        self.weights = weights if isinstance(weights, DraftWeights) else load_weights(weights)
        if self.weights.kind != self.kind:
            raise ModelError(f"these are weights of the kind {self.weights.kind!r:.40}, not {self.kind!r}")
        self.most, self.least, self.width = most, least, width
        try:
            self.sizes = self._sizes_from(self.weights.sizes)
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise ModelError(
                f"the weights do not have the sizes of a drafter of the kind {self.kind!r}: {error!r:.200}"
            ) from error
        self.hidden_layers = self.sizes.hidden_layers
        if acceptance is not None and not isinstance(acceptance, AcceptanceHead):
            raise OptionError(
                f"acceptance is {a_kind(acceptance)}; it is an acceptance head or None",
                hint="A head in the drafter's file is used without this option. acceptance=None leaves it out.",
            )
        if acceptance is not None and acceptance.hidden != self.sizes.hidden:
            raise ModelError(
                f"the acceptance head reads states of {acceptance.hidden} numbers; the drafter's have "
                f"{self.sizes.hidden}"
            )
        self.acceptance = acceptance
        self._ready: PerModel[tuple[DraftWeights, Fitted[_Network]]] = PerModel()
        """What the drafter computes with for a model, and the weights that it was made of."""
        self._lock = threading.RLock()
        """Guards both: rows start on several threads, and `use` may be called on another one."""

    @classmethod
    def check_options(cls, options: Iterable[str]) -> None:
        """Raise `OptionError` if a drafter of this class has no option of one of these names."""
        known = {
            name
            for each in cls.__mro__
            if "__init__" in vars(each)
            for name, parameter in signature(vars(each)["__init__"]).parameters.items()
            if parameter.kind is Parameter.KEYWORD_ONLY
        }
        for name in options:
            if name not in known:
                raise OptionError(
                    f"a drafter of the kind {cls.kind!r} has no option {name!r:.40}",
                    hint=f"It has {', '.join(sorted(known))}.",
                )

    def start(self, start: Start) -> RowDrafter:
        """See `Drafter`."""
        fitted = self.prepare(start.model)
        if layer_count_of(start.model) is None:
            return SilentRow()
        return self._row(fitted, start.temperature)

    def prepare(self, model: Any) -> Fitted[_Network]:
        """Check that the weights fit a model, and get ready to draft for it. Otherwise the first text does this.

        Raises:
            ModelError: The weights are not for the model.
            VocabularyMismatch: They were trained with another tokenizer.
        """
        with self._lock:  # of rows that start at once, one gets it ready for all
            ready, weights = self._ready.get(model), self.weights
            if ready is None or ready[0] is not weights:
                ready = weights, self._fitted(weights, model)
                self._ready.set(model, ready)
            return ready[1]

    def use(self, tensors: dict[str, torch.Tensor], model: Any = None) -> None:
        """Draft with other weights of the same network from the next text on. One thread at a time may call this.

        Args:
            tensors: The weights that change, by name.
            model: The model to get ready for first. Until then texts start with the weights as they were, and none
                waits. None to get ready when the next text starts.

        Raises:
            ModelError: The weights are not for the model. The ones before stay.
        """
        kept = {name: tensor for name, tensor in self.weights.tensors.items() if name not in tensors}
        weights = replace(self.weights, tensors={**kept, **tensors})
        fitted = None if model is None else self._fitted(weights, model)
        with self._lock:
            self.weights = weights
            if fitted is not None:
                self._ready.set(model, (weights, fitted))

    def _fitted(self, weights: DraftWeights, model: Any) -> Fitted[_Network]:
        layers = layer_count_of(model)
        if layers is not None:
            self._check_layers(layers)
        return fit(
            weights, self.sizes, self.new_network, model, self.acceptance, in_half=self.computes_in_half
        )

    @abstractmethod
    def _sizes_from(self, given: dict[str, Any]) -> Sizes:
        """Return the sizes of `DraftWeights.sizes`."""

    @abstractmethod
    def new_network(self) -> _Network:
        """Return a network of the drafter's sizes, without its weights."""

    def _check_layers(self, layers: int) -> None:
        """Raise `ModelError` if the drafter is not for a model of so many layers."""

    @abstractmethod
    def _row(self, fitted: Fitted[_Network], temperature: float) -> RowDrafter:
        """Return the drafter of a new row."""

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = threading.RLock()


class LearnedRow(RowDrafter):
    """Proposes the tokens that the logits at a node make most probable.

    Args:
        head: Makes logits of states.
        drafter: Its options.
        temperature: The temperature at which the row is drawn.
    """

    computes = True

    def __init__(self, head: TrimmedHead, drafter: Options, temperature: float) -> None:
        self._head, self._options, self._temperature = head, drafter, temperature

    @property
    def name(self) -> str:
        """See `RowDrafter`."""
        return self._options.kind

    def propose(self, context: Context) -> Iterable[Proposal]:
        """See `RowDrafter`."""
        scores = self._known(context)
        return () if scores is None else self._head.proposals(scores, context, self.name, self._options.width)

    def distribution(self, context: Context) -> NDArray[Any] | None:
        """Return the distribution of the next token at the row's temperature, ``[vocabulary.size]``."""
        scores = self._known(context)
        logits = None if scores is None else self._head.masked(scores.logits, context)
        return None if logits is None else self._head.distribution(logits, self._temperature)

    def _known(self, context: Context) -> Scores | None:
        """Return the scores at a node; None if the draft should not go on from there."""
        if context.drafted >= self._options.most or context.reach < self._options.least:
            return None
        with torch.inference_mode():
            return self._scores(context)

    @abstractmethod
    def _scores(self, context: Context) -> Scores | None:
        """Return the scores at a node, without the mask; None if nothing is known there."""
