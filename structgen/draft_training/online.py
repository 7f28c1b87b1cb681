"""`OnlineDrafter`: a learned drafter that goes on learning from the texts that it drafts for.

Why: requests change with time, and a drafter that was trained on other texts guesses less of the new ones.
What: the hidden states of each text are kept when it has ended, within a bound; under a constraint also the masks that
its tokens were drawn with (`ServedMasks`). As in `recipes`, distributions are compared over the tokens that a mask
allows, and forced tokens are left out. After every few texts the drafter's network is trained on some of them for a few
steps, in a thread of its own. The same thread gets the drafter ready with the new weights. Texts that start afterwards
use them, and no text waits.
Invariant: texts stay the same. If numbers are not finite, the drafter keeps the weights that it had, and stops learning
with a warning. The buffer never exceeds its bound.
Limits: a text counts up to its last draft. While `Goodput` pauses the drafter, nothing is learned. Of a long text the
last 384 tokens are kept. Without a thread, all rows wait while it is trained. Tokens of a constrained text that were
drawn before the drafter started on it have no mask, and are left out: in a running batch the first one.
Cost: the time of the steps and of getting ready, on the machine that serves; under a constraint that of `ServedMasks`.
Memory: the buffer; the states of up to 768 tokens of each text that is drawn (`LastStates`), and their masks; for each
weight of the network 16 bytes (float32: the network, two numbers of the optimiser, the weights that are used); the
output rows of the tokens that are drafted, in bfloat16. For the drafter of the embedded model this is 91 MB, the states
and the buffer. While it is trained, also the states of the buffer once more, gradients and activations. Former weights
stay until the texts that use them end. The model's embeddings are not copied.
A buffer contains the tokens of users' texts, and weights learn from them: give each group of users that must not learn
of each other a drafter of its own.
Source: Liu et al. 2024 (Online Speculative Decoding).
"""

from __future__ import annotations

import threading
import warnings
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from structgen.errors import ModelError, OptionError, a_kind
from structgen.protocols import layer_count_of
from structgen.speculative import Context, Proposal, RowDrafter, SpeculationWarning, Start
from structgen.speculative.checks import check_number, check_whole
from structgen.speculative.guarded import grows_without_lock
from structgen.speculative.learned.acceptance import network_tensors
from structgen.speculative.learned.heads import HeadSizes
from structgen.speculative.learned.learned_drafter import LearnedDrafter
from structgen.speculative.learned.made_networks import network_of
from structgen.speculative.per_model import PerModel

from .features import LONGEST, Features, as_half
from .last_states import LastStates
from .recipes import frozen_rows, outputs_of
from .served_masks import AnswerMasks, ServedMasks
from .training import Training, TrainingOptions

if TYPE_CHECKING:
    from structgen.models.hugging_face import HuggingFaceModel

__all__ = ["OnlineDrafter"]


@dataclass(frozen=True)
class _Seen:
    """A text that has ended."""

    tokens: NDArray[np.int32]
    states: NDArray[np.float16]
    prompt: int
    masks: AnswerMasks | None
    """Those of the tokens after the prompt; None for a text without a constraint."""

    @property
    def size(self) -> int:
        masks = 0 if self.masks is None else self.masks.nbytes
        return self.tokens.nbytes + self.states.nbytes + masks


@dataclass(frozen=True)
class _SeenMasks:
    """The masks of texts that have ended, see `masks.Masks`."""

    texts: Sequence[_Seen]
    drafted: int
    """The number of tokens that may be drafted."""

    def of(self, text: int) -> NDArray[np.bool_] | None:
        seen = self.texts[text]
        if seen.masks is None:
            return None
        allowed = np.ones((len(seen.tokens), self.drafted), dtype=bool)
        allowed[seen.prompt :] = seen.masks.allowed(self.drafted)
        return allowed


class OnlineDrafter:
    """Drafts with a learned drafter, and trains it on the texts that end.

    Args:
        drafter: The drafter. Its weights are replaced as it learns.
        every: The number of texts after which it is trained.
        steps: The number of steps each time.
        most_bytes: The largest size of the texts and states that are kept; the oldest ones are dropped first.
        learning_rate: Of the steps.
        background: Whether a thread trains, so that no text waits.

    Raises:
        OptionError: Drafters of its kind are not trained here.
        ModelError: The drafter has an output layer or embeddings of its own, as those of other projects do.
    """

    gives_distributions = True
    reads_masks = True

    def __init__(
        self,
        drafter: LearnedDrafter[Any],
        *,
        every: int = 16,
        steps: int = 8,
        most_bytes: int = 64 << 20,
        learning_rate: float = 3e-4,
        background: bool = True,
    ) -> None:
        check_whole("every", every, high=1_000_000)
        check_whole("steps", steps, high=10_000)
        check_whole("most_bytes", most_bytes, high=1 << 40)
        check_number("learning_rate", learning_rate)
        if not isinstance(drafter, LearnedDrafter):
            raise OptionError(
                f"OnlineDrafter goes on training a learned drafter, and this is {a_kind(drafter)}",
                hint="Give it load_drafter(FILE).",
            )
        sizes = drafter.weights.sizes
        if sizes.get("output_rows") or sizes.get("embedding_rows"):
            raise ModelError(
                "a drafter with an output layer or embeddings of its own cannot go on learning",
                hint="Use it without OnlineDrafter (in a server: without --learn).",
            )
        self.drafter, self.every, self.steps = drafter, every, steps
        self.most_bytes, self.background = most_bytes, background
        self.updates = 0
        """How many times it was trained."""
        outputs_of(drafter.kind)
        ahead = drafter.sizes.count if isinstance(drafter.sizes, HeadSizes) else 3
        self._options = TrainingOptions(learning_rate=learning_rate, batch=4, held_out=0.5, steps_ahead=ahead)
        self._buffer: deque[_Seen] = deque()
        self._bytes = self._new = 0
        self._failed = False
        self._training: PerModel[Training] = PerModel()
        self._model: Callable[[], Any] = lambda: None
        """Returns the model of the last text while it lives: the drafter keeps none alive."""
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    @property
    def grows_without_lock(self) -> bool:
        """See `Drafter`: as the drafter's rows do. What ends is added under a lock of its own."""
        return grows_without_lock(self.drafter)

    def hidden_layers(self, layer_count: int) -> tuple[int, ...]:
        """Return the layers that the drafter reads, and the one that the model's output layer reads."""
        return tuple(sorted({*self.drafter.hidden_layers, layer_count}))

    def start(self, start: Start) -> RowDrafter:
        """See `Drafter`."""
        row, model = self.drafter.start(start), start.model
        with self._lock:
            if self._model() is not model:
                try:
                    self._model = weakref.ref(model)
                except TypeError:
                    self._model = lambda: model
                self._forget_texts()  # their states are those of another model
        layers = layer_count_of(model)
        return _OnlineRow(self, row, start, () if layers is None else self.hidden_layers(layers))

    def add(
        self, tokens: Sequence[int], states: torch.Tensor, prompt: int, masks: AnswerMasks | None = None
    ) -> None:
        """Keep a text that has ended; train if it is time.

        Args:
            tokens: Its tokens, prompt included, or its last ones.
            states: The hidden states after them, ``[tokens, layers, hidden size]``.
            prompt: The number of these tokens that are the prompt's.
            masks: The masks of the others; None without a constraint. A text without a choice is not kept.
        """
        # The attention of a training takes memory with the square of a text.
        start = max(0, len(tokens) - LONGEST)
        if masks is not None:
            masks = masks.since(max(0, start - prompt))
        tokens, states, prompt = tokens[start:], states[start:], max(0, prompt - start)
        if self._failed or len(tokens) <= prompt + self._options.steps_ahead + 1:
            return
        if masks is not None and not masks.has_choice:
            return
        seen = _Seen(np.array(tokens, dtype=np.int32), np.array(as_half(states)), prompt, masks)
        if seen.size > self.most_bytes:
            return
        with self._lock:
            self._buffer.append(seen)
            self._bytes += seen.size
            while self._bytes > self.most_bytes:
                self._bytes -= self._buffer.popleft().size
            self._new += 1
            is_busy = self._thread is not None and self._thread.is_alive()
            if self._new < self.every or len(self._buffer) < 2 or is_busy:
                return
            self._new = 0
            texts = list(self._buffer)
            if self.background:
                self._thread = threading.Thread(target=self._update, args=(texts,), daemon=True)
                self._thread.start()
                return
        self._update(texts)

    def wait(self) -> None:
        """Wait until a training in progress has ended."""
        if self._thread is not None:
            self._thread.join()

    def _update(self, texts: Sequence[_Seen]) -> None:
        try:
            model = self._model()
            if model is None:
                return  # it was freed, and there is nothing to learn for
            features = self._features(texts, model.layer_count)
            training = self._training.get(model)
            if training is None:
                training = self._started(features, model)
                self._training.set(model, training)
            masks = _SeenMasks(texts, len(self.drafter.weights.token_ids))
            training.learn(features, self.steps, masks)
            _release(training)
            state = training.network.state_dict()
            if not all(torch.isfinite(tensor).all() for tensor in state.values()):
                raise ModelError("its weights are no longer finite")
            learned = {name: tensor.detach().float().cpu().clone() for name, tensor in state.items()}
            self.drafter.use(learned, model)
        except Exception as error:  # noqa: BLE001 — what is served must not depend on the learning
            with self._lock:
                self._failed = True
                self._forget_texts()
            self._training = PerModel()
            warnings.warn(f"a drafter stops learning: {error}", SpeculationWarning, stacklevel=2)
            return
        self.updates += 1

    def _forget_texts(self) -> None:
        self._buffer.clear()
        self._bytes = self._new = 0

    def _started(self, features: Features, model: HuggingFaceModel) -> Training:
        drafter, weights = self.drafter, self.drafter.weights
        embeddings, rows = frozen_rows(model, weights.token_ids, dtype=None)
        tensors = {name: tensor.float() for name, tensor in network_tensors(weights).items()}
        network = network_of(drafter.new_network, tensors, "the drafter's weights")
        return Training(
            network.to(embeddings.device),
            outputs_of(weights.kind),
            features,
            drafter.hidden_layers,
            embeddings,
            rows.to(torch.bfloat16),
            weights.token_ids,
            self._options,
        )

    def _features(self, texts: Sequence[_Seen], layer_count: int) -> Features:
        count = len(texts)
        return Features(
            self.hidden_layers(layer_count),
            np.concatenate([text.states for text in texts]),
            np.concatenate([text.tokens for text in texts]),
            np.concatenate([[0], np.cumsum([len(text.tokens) for text in texts])]),
            np.array([text.prompt for text in texts]),
            np.full(count, "served"),
            np.zeros(count),
            np.full(count, ""),  # their masks are known without a constraint
        )

    def __getstate__(self) -> dict[str, Any]:
        """Return what was learned; the buffer and the thread belong to this process."""
        options = ("drafter", "every", "steps", "most_bytes", "background", "updates")
        return {**{name: self.__dict__[name] for name in options}, "rate": self._options.learning_rate}

    def __setstate__(self, state: dict[str, Any]) -> None:
        updates = state.pop("updates")
        self.__init__(state.pop("drafter"), learning_rate=state.pop("rate"), **state)  # type: ignore[misc]
        self.updates = updates


def _release(training: Training) -> None:
    """Free what a training needs during its steps only: a copy of the texts' states, their masks, and gradients."""
    read, training.masks = training.features, None
    training.features = replace(read, states=read.states[:0].copy(), tokens=read.tokens[:0].copy())
    training.network.zero_grad()


class _OnlineRow(RowDrafter):
    """The drafter's row, and the last hidden states and masks that it saw."""

    def __init__(self, owner: OnlineDrafter, row: RowDrafter, start: Start, layers: tuple[int, ...]) -> None:
        self._owner, self._row, self._prompt = owner, row, len(start.prompt)
        self.computes, self.predicts_acceptance = row.computes, row.predicts_acceptance
        self._states = LastStates(layers, LONGEST)
        self._vocabulary_size, self._has_constraint = start.vocabulary.size, start.constraint is not None
        self._masks: ServedMasks | None = None
        """None as long as no token was drawn under a constraint."""

    @property
    def name(self) -> str:
        """See `RowDrafter`."""
        return self._row.name

    def propose(self, context: Context) -> Iterable[Proposal]:
        """See `RowDrafter`."""
        self._keep(context)
        return self._row.propose(context)

    def distribution(self, context: Context) -> NDArray[Any] | None:
        """See `RowDrafter`."""
        self._keep(context)  # verifiers that draw the drafts may never call `propose`
        return self._row.distribution(context)

    def acceptances(self, context: Context, tokens: Sequence[int]) -> Mapping[int, float]:
        """See `RowDrafter`."""
        return self._row.acceptances(context, tokens)

    def _keep(self, context: Context) -> None:
        if not context.drafted and context.hidden is not None:
            self._states.read(context.hidden, context.tokens)

    def observe(self, tokens: Sequence[int], start: int) -> None:
        """See `RowDrafter`."""
        self._states.cut(start)
        self._row.observe(tokens, start)

    def on_mask(self, tokens: Sequence[int], allowed: NDArray[np.int64]) -> None:
        """See `RowDrafter`."""
        if self._masks is None:
            ids = self._owner.drafter.weights.token_ids
            self._masks = ServedMasks(ids, self._vocabulary_size, LONGEST)
        self._masks.note(tokens, allowed)

    def finish(self, tokens: Sequence[int]) -> None:
        """See `RowDrafter`."""
        # The states of the last tokens are not known, since no draft was found after them.
        kept, prompt = self._states.end(tokens), self._prompt
        if kept is not None and (self._masks is not None or not self._has_constraint):
            first, states = kept
            end, masks = first + len(states), None
            if self._masks is not None:
                masks = self._masks.end(tokens[prompt:], max(0, first - prompt), max(0, end - prompt))
            self._owner.add(tokens[first:end], states, max(0, prompt - first), masks)
        self._row.finish(tokens)
