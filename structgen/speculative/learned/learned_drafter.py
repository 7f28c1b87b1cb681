"""`LearnedDrafter` and `LearnedRow`: what all learned drafters share.

What: a `LearnedDrafter` reads weights and fits them to the model (`fit`) when the first text starts. Its rows compute
one state for each node. The output layer, cut to the tokens that texts consist of (`TrimmedHead`), makes logits of it.
Invariant: a drafter proposes only tokens that its weights list and that the mask allows. Verification is that of any
draft, so the text does not depend on the weights.
Cost: that of `fit`, once for each model and its weights. Rows share the result.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from inspect import Parameter, signature
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import torch
from numpy.typing import NDArray
from torch import nn

from structgen.errors import ModelError, OptionError, a_kind
from structgen.protocols import layer_count_of

from ..checks import check_number, check_whole
from ..drafters import Context, Proposal, RowDrafter, SilentRow, Start
from ..per_model import PerModel
from .acceptance import AcceptanceHead
from .fitting import Fitted, Sizes, fit
from .trimmed_head import Scores, TrimmedHead
from .weights import DraftWeights, load_weights

__all__ = ["LearnedDrafter", "LearnedRow", "Options"]

_Network = TypeVar("_Network", bound=nn.Module)


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
        acceptance: Estimates the probability that the first-ranked token is accepted, with every verifier. By default
            it follows from the probability that the drafter gives the token.

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
        self.predicts_acceptance = head.has_acceptance

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

    def acceptances(self, context: Context, tokens: Sequence[int]) -> Mapping[int, float]:
        """Return the number of the acceptance head, if the first-ranked token is one of `tokens`."""
        scores = self._known(context)
        return {} if scores is None else self._head.acceptances(scores, context, tokens)

    def _known(self, context: Context) -> Scores | None:
        """Return the scores at a node; None if the draft should not go on from there."""
        if context.drafted >= self._options.most or context.reach < self._options.least:
            return None
        with torch.inference_mode():
            return self._scores(context)

    @abstractmethod
    def _scores(self, context: Context) -> Scores | None:
        """Return the scores at a node, without the mask; None if nothing is known there."""
