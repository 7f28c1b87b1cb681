"""Training of a drafter's network on the features of texts.

What: each step reads a batch of texts, lets the network predict one, two, three, ... tokens ahead of every position of
an answer (`outputs`), and compares its distributions with those of the model, which follow from the model's own states.
A bias, a scale and a bound of the model's logits apply to both, as they do when the drafter is used. The
distributions cover a sample of the trimmed vocabulary, another one for each step: the tokens of the batch and random
ones. The output rows are the model's own and do not change, so what is learned holds for all tokens, and a step takes
half the time. A part of the texts is set apart: the best weights on them are returned. They are measured where the
drafter learns, at positions whose next token a constraint leaves open.
Invariant: the result depends on the seed, the texts and the options only (up to the rounding of the machine), unless
the minutes end first: the learning rate falls with the larger share of steps and minutes. State is saved at each
validation, and a resumed training goes on from there. Numbers that are not finite end it with an error, and
the weights of the last save are kept.
Source: Zhou et al. 2024 (DistillSpec); Li et al. 2025 (EAGLE-3).
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from structgen.errors import ModelError, OptionError
from structgen.progress import ProgressBar
from structgen.speculative.checks import check_number
from structgen.speculative.learned.nested_layers import NestedNetwork
from structgen.speculative.trimmed_vocabulary import most_frequent
from structgen.speculative.whole_files import replacing

from .batches import Batch, padded_batch
from .features import Features
from .losses import loss_named
from .masks import Masks
from .on_policy import OnPolicy
from .output_rows import OutputRows
from .selection import select

__all__ = ["Outputs", "Training", "TrainingOptions", "Validation", "most_frequent_tokens"]

_MAY_CHANGE = ("epochs", "minutes", "patience", "validations")
"""Options that say how long a training goes on."""

Outputs = Callable[[nn.Module, torch.Tensor, torch.Tensor, int], Sequence[torch.Tensor]]
"""From a network, states at positions 0 to T - 1 + steps, ``[texts, T + steps, layers, hidden]``, embeddings of the
tokens there, and a number of steps to the output states of each step, ``[texts, T, hidden]``. Output t of step j
predicts token t + j + 2. Further outputs, as those of earlier exits, predict what the first step's do."""


@dataclass(frozen=True)
class TrainingOptions:
    """How a drafter is trained."""

    epochs: float = 6.0
    minutes: float = 60.0
    """The training ends after so many minutes, if it has not ended before."""
    steps_ahead: int = 3
    decay: float = 0.8
    """The weight of the loss of each step ahead, as a fraction of that of the step before."""
    batch: int = 8
    learning_rate: float = 1e-3
    held_out: float = 0.05
    """The share of texts that are set apart."""
    loss: str = "forward-kl"
    """What is minimised, see `losses`."""
    selected: float = 0.4
    """With a reference network: the share of positions that are learned from."""
    sampled_tokens: int = 2048
    """The tokens that distributions are compared over, for each step."""
    patience: int = 5
    """The training ends after so many validations without a gain."""
    validations: int = 4
    """For each epoch."""
    seed: int = 0
    on_policy: float = 0.0
    """The share of batches with texts that the network draws itself, see `on_policy`."""

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if name not in ("seed", "loss", "on_policy") and not value > 0:
                raise OptionError(f"{name} is {value!r:.40}; it must be above 0")
        check_number("epochs", self.epochs, high=1e6)
        loss_named(self.loss)
        check_number("selected", self.selected)
        check_number("on_policy", self.on_policy)
        if self.on_policy and not loss_named(self.loss).needs_target:
            raise OptionError(
                f"the loss {self.loss} learns the tokens of texts, and on-policy texts are the drafter's own",
                hint="Use a divergence, such as forward-kl.",
            )
        if not self.held_out < 1:
            raise OptionError(f"held_out is {self.held_out}; it must be below 1")


@dataclass
class Validation:
    """How well the network guesses the texts that are set apart."""

    loss: float
    right: list[float]
    """The share of positions at which the first, the first two, ... tokens are all guessed right, of those at which a
    constraint leaves the first one open. Empty if there is no such position."""

    @property
    def tokens_per_pass(self) -> float:
        """Return the expected tokens of a pass with one greedy draft of that length."""
        return 1 + sum(self.right)


def most_frequent_tokens(features: Features, most: int) -> NDArray[np.int64]:
    """Return the tokens that answers have most often, ascending (VocabTrim): those that a drafter may draft."""
    counts = np.zeros(int(features.tokens.max()) + 1, dtype=np.int64)
    for text in range(len(features)):
        start, end = features.offsets[text] + features.answers[text], features.offsets[text + 1]
        counts += np.bincount(features.tokens[start:end], minlength=len(counts))
    return most_frequent(counts, most)


@dataclass
class Training:
    """The training of one network.

    Args:
        network: The network, whose parameters change.
        outputs: Its outputs for whole texts.
        features: The texts. Their last layer is the one that the model's output layer reads. A loss that compares with
            the tokens of texts alone needs no layers.
        used: The layers that the network reads.
        embeddings: The model's embeddings, ``[vocabulary.size, hidden]``.
        output_rows: The rows of the model's output layer for `token_ids`.
        token_ids: The tokens that may be drafted.
        options: How it is trained.
        masks: The masks of texts that obey a constraint.
        reference: A network of the same kind that was trained before. The loss then counts only the positions from
            which `network` can still learn most (AdaSPEC, see `selection`).
        save: Where its state is saved; None for nowhere.
        on_policy: Makes the batches whose share is `TrainingOptions.on_policy`.
    """

    network: nn.Module
    outputs: Outputs
    features: Features
    used: Sequence[int]
    embeddings: torch.Tensor
    output_rows: OutputRows
    token_ids: NDArray[np.int64]
    options: TrainingOptions = field(default_factory=TrainingOptions)
    masks: Masks | None = None
    reference: nn.Module | None = None
    save: Path | None = None
    on_policy: OnPolicy | None = None
    validations: list[tuple[int, Validation]] = field(default_factory=list, init=False)
    """With the number of steps before each of them."""
    seconds: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        rng = np.random.default_rng(self.options.seed)
        texts = rng.permutation(len(self.features))
        apart = max(1, round(self.options.held_out * len(texts)))
        if apart >= len(texts):
            raise OptionError(f"{len(texts)} texts are too few to set some apart")
        measurable = texts[[self._is_long_enough(text) for text in texts]]
        if len(measurable) < 2:
            raise OptionError(
                f"the texts are too short: {len(measurable)} of {len(texts)} have an answer from which "
                f"{self.options.steps_ahead} steps ahead can be learned, and one must be set apart",
                hint="Collect texts with longer answers, or lower steps_ahead.",
            )
        self._apart = measurable[: min(apart, len(measurable) - 1)]
        self._texts = texts[~np.isin(texts, self._apart)]
        self._columns = [self.features.layers.index(layer) for layer in self.used]
        self._rows = self.output_rows.to(torch.bfloat16)
        self._drafted = torch.from_numpy(self.token_ids)
        self._optimizer = torch.optim.AdamW(
            self.network.parameters(), lr=self.options.learning_rate, betas=(0.9, 0.95), weight_decay=0.01
        )
        self._compare = loss_named(self.options.loss)
        self._started = _hash(self.network)
        self._step = self._since_best = 0
        self._best: tuple[float, dict[str, torch.Tensor]] | None = None
        self._device = self.embeddings.device
        if self.options.on_policy and self.on_policy is None:
            raise OptionError("nothing is given that makes on-policy batches")

    def run(self, *, progress: bool = False, resume: bool = False) -> dict[str, torch.Tensor]:
        """Train; return the best weights.

        Raises:
            ModelError: A number is not finite, or the state cannot be written or is not one of this training.
        """
        if resume:
            self._resume()
        per_epoch = len(self._batches(0))
        steps = math.ceil(self.options.epochs * per_epoch)
        every = max(1, per_epoch // self.options.validations)
        if self._best is not None and (
            self._since_best >= self.options.patience or self.seconds >= 60 * self.options.minutes
        ):
            return self._best[1]
        started = time.monotonic() - self.seconds
        with ProgressBar(steps, "training", progress) as bar:
            bar.advance(self._step)
            while self._step < steps:
                batches = self._batches(self._step // per_epoch)
                for batch in batches[self._step % per_epoch :]:
                    self.seconds = time.monotonic() - started
                    done = max(self._step / steps, self.seconds / (60 * self.options.minutes))
                    loss = self._train(batch, done)
                    self._step += 1
                    bar.advance()
                    ends = self._step >= steps or done >= 1
                    if ends or self._step % every == 0:
                        self._validate()
                        found = self.validations[-1][1]
                        bar.say(loss=f"{loss:.2f}", tokens_a_pass=f"{found.tokens_per_pass:.2f}")
                        self._save()
                        ends = ends or self._since_best >= self.options.patience
                    if ends:
                        assert self._best is not None
                        return self._best[1]
        assert self._best is not None
        return self._best[1]

    def learn(self, features: Features, steps: int, masks: Masks | None = None) -> None:
        """Train for some steps on other texts, all of them, without validations.

        Args:
            features: The texts.
            steps: The number of steps.
            masks: The masks of those that obey a constraint.
        """
        self.features, self.masks, self._texts = features, masks, np.arange(len(features))
        batches = self._batches(self._step)
        for step in range(steps):
            self._train(batches[step % len(batches)], 0.0)
            self._step += 1

    @property
    def held_out(self) -> int:
        """The number of texts that are set apart."""
        return len(self._apart)

    @property
    def best(self) -> Validation:
        """The validation of the weights that `run` returns."""
        return max((found for _, found in self.validations), key=lambda found: found.tokens_per_pass)

    def _batches(self, epoch: int) -> list[NDArray[np.int64]]:
        """Return the batches of an epoch: texts of about one length, in random order."""
        rng = np.random.default_rng((self.options.seed, epoch))
        texts, size = rng.permutation(self._texts), self.options.batch
        batches = []
        for start in range(0, len(texts), 50 * size):
            part = sorted(texts[start : start + 50 * size], key=self.features.length)
            batches += [np.array(part[first : first + size]) for first in range(0, len(part), size)]
        return [batches[index] for index in rng.permutation(len(batches))]

    def _train(self, batch: NDArray[np.int64], done: float) -> float:
        warm = min(1.0, (self._step + 1) / 50)
        rate = self.options.learning_rate * warm * (0.05 + 0.475 * (1 + math.cos(math.pi * min(1.0, done))))
        for group in self._optimizer.param_groups:
            group["lr"] = rate
        loss, _ = self._loss(self._own_or_read(batch), counts=False)
        if not loss.requires_grad:  # no position is left to learn from
            return 0.0
        if not torch.isfinite(loss):
            raise ModelError(
                f"the loss is {float(loss.detach())} after {self._step} steps of training",
                hint="Use a smaller learning rate, or look for states that are not finite.",
            )
        self._optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
        self._optimizer.step()
        return float(loss.detach())

    def _validate(self) -> None:
        """Measure the texts that are set apart; keep the weights if they are the best so far."""
        if not all(bool(torch.isfinite(tensor).all()) for tensor in self.network.state_dict().values()):
            raise ModelError(
                f"the weights are not finite after {self._step} steps of training",
                hint="Use a smaller learning rate.",
            )
        size = self.options.batch
        order = sorted(self._apart, key=self.features.length)
        total, count, right = 0.0, 0, np.zeros(self.options.steps_ahead)
        with torch.no_grad():
            for start in range(0, len(order), size):
                loss, hits = self._loss(self._read(order[start : start + size]), counts=True)
                alive = np.logical_and.accumulate(hits, axis=0)
                total += float(loss) * hits.shape[1]
                count += hits.shape[1]
                right += alive.sum(axis=1)
        found = Validation(total / max(1, count), (right / count).tolist() if count else [])
        self.validations.append((self._step, found))
        self._since_best += 1
        # Where nothing can be measured, nothing speaks against the last weights.
        if self._best is None or not count or found.tokens_per_pass > self._best[0]:
            weights = {name: tensor.detach().clone() for name, tensor in self.network.state_dict().items()}
            self._best, self._since_best = (found.tokens_per_pass, weights), 0

    def _loss(self, batch: Batch, *, counts: bool) -> tuple[torch.Tensor, NDArray[np.bool_]]:
        """Return the loss of a batch and, if `counts`, which guesses are right, ``[steps, positions]``."""
        steps = self.options.steps_ahead
        states, tokens, answers, allowed = batch.states, batch.tokens, batch.answers, batch.allowed
        count = tokens.shape[1] - 1 - steps
        hits: list[torch.Tensor] = []
        loss = torch.zeros((), device=self._device)
        if count < 1:
            return loss, np.zeros((steps, 0), dtype=bool)
        positions = self._positions(tokens, answers, count, is_validation=counts)
        if counts and allowed is not None:
            is_open = allowed[:, 2 : 2 + count].sum(-1) > 1
            positions = [each & is_open for each in positions]
        sampled = torch.arange(len(self._rows)) if counts else self._sampled(tokens)
        rows, places = self._rows.select(sampled), torch.full((len(self.embeddings),), -1)
        places[self._drafted[sampled]] = torch.arange(len(sampled))
        places = places.to(self._device)
        with torch.autocast(self._device.type, torch.bfloat16):
            # Only the rows of the batch are converted: the table is large.
            embedded = self.embeddings[tokens[:, :-1]].to(torch.bfloat16)
            inputs = states[:, :-1, self._columns], embedded, steps
            outputs = self.outputs(self.network, *inputs)
            known: Sequence[torch.Tensor] = ()
            if self.reference is not None and not counts:
                with torch.no_grad():
                    known = self.outputs(self.reference, *inputs)
            for index, output in enumerate(outputs):
                step = index if index < steps else 0
                chosen = positions[step].nonzero(as_tuple=True)
                logits = rows(output[chosen])
                text = tokens[:, step + 2 : step + 2 + count][chosen]
                target = None
                if self._compare.needs_target:
                    with torch.no_grad():
                        target = rows(states[:, step + 1 : step + 1 + count, -1][chosen])
                mask = None
                if allowed is not None:
                    mask = allowed[:, step + 2 : step + 2 + count][chosen][:, sampled]
                compared: dict[str, Any] = {
                    "target_logits": target,
                    "token_ids": places[text],
                    "allowed": mask,
                }
                if known:
                    with torch.no_grad():
                        before, _ = self._compare.per_position(rows(known[index][chosen]), **compared)
                        now, shares = self._compare.per_position(logits, **compared)
                    compared["weights"] = select(now, before, share=self.options.selected, weights=shares)
                weight = self.options.decay**step
                loss = loss + weight * self._compare(logits, **compared)
                if not counts:
                    loss = loss + weight * self._further_loss(step, chosen, states, compared.get("weights"))
                elif index < steps:
                    if mask is not None:
                        logits = logits.masked_fill(~mask, -torch.inf)
                    guessed = self._drafted[logits.argmax(-1).cpu()]
                    hits.append(guessed == text.cpu())
        return loss, np.stack([hit.numpy() for hit in hits]) if counts else np.zeros((0, 0), dtype=bool)

    def _positions(
        self, tokens: torch.Tensor, answers: torch.Tensor, count: int, *, is_validation: bool
    ) -> list[torch.Tensor]:
        """Return at which positions each step is compared, ``[texts, count]``.

        These are the positions before a token of the answer. In validations they are the same for each step, and those
        without a choice of the first token are left out afterwards.
        """
        steps = self.options.steps_ahead
        if is_validation:
            return [answers[:, steps + 1 : steps + 1 + count] & answers[:, 2 : 2 + count]] * steps
        return [answers[:, step + 2 : step + 2 + count] for step in range(steps)]

    def _further_loss(
        self,
        step: int,
        chosen: tuple[torch.Tensor, ...],
        states: torch.Tensor,
        weights: torch.Tensor | None,
    ) -> torch.Tensor | float:
        """Return what is added to the loss of a step.

        Args:
            step: The number of the step.
            chosen: The texts and the positions that are compared.
            states: The states of the batch, ``[texts, tokens, layers, hidden]``.
            weights: The weight of each of these positions; None if all weigh the same.
        """
        return 0.0

    def _is_long_enough(self, text: int) -> bool:
        """Return whether a text has a position at which validations compare all steps."""
        length, answer = self.features.length(text), int(self.features.answers[text])
        return length - max(2, answer) >= self.options.steps_ahead

    def _sampled(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return the places in `token_ids` over which distributions are compared: those of the batch, and others."""
        most = self.options.sampled_tokens
        if most >= len(self.token_ids):
            return torch.arange(len(self.token_ids))
        rng = np.random.default_rng((self.options.seed, 1, self._step))
        there = np.isin(self.token_ids, np.unique(tokens.cpu().numpy()))
        own, others = np.flatnonzero(there), rng.permutation(np.flatnonzero(~there))
        return torch.from_numpy(np.concatenate([own, others])[:most])

    def _own_or_read(self, batch: NDArray[np.int64]) -> Batch:
        """Return an on-policy batch with the prompts of these texts, or the texts themselves."""
        share = self.options.on_policy
        if share and np.random.default_rng((self.options.seed, 4, self._step)).random() < share:
            assert self.on_policy is not None and isinstance(self.network, NestedNetwork)
            return self.on_policy.batch(self.network, batch.tolist(), self._step)
        return self._read(batch)

    def _read(self, batch: Sequence[int] | NDArray[np.int64]) -> Batch:
        """Return texts with their states and masks."""
        features = self.features
        texts = [slice(features.offsets[text], features.offsets[text + 1]) for text in batch]
        return padded_batch(
            [features.states[text] for text in texts],
            [features.tokens[text] for text in texts],
            [int(features.answers[text]) for text in batch],
            [None if self.masks is None else self.masks.of(int(text)) for text in batch],
            self._device,
        )

    def _save(self) -> None:
        if self.save is None:
            return
        state = {
            "network": self.network.state_dict(),
            "optimizer": self._optimizer.state_dict(),
            "best": self._best,
            "step": self._step,
            "since_best": self._since_best,
            "seconds": self.seconds,
            "validations": [(step, asdict(found)) for step, found in self.validations],
            "about": self._about(),
        }
        with replacing(self.save, "the state of the training") as file:
            torch.save(state, file)  # subtle: given a name, torch ignores errors of the last bytes.

    def _about(self) -> dict[str, Any]:
        """Return what must be the same for a training to go on."""
        given = {name: value for name, value in asdict(self.options).items() if name not in _MAY_CHANGE}
        if not given["on_policy"]:  # saves of versions without it are as good
            del given["on_policy"]
        if self.masks is not None and (self.features.constraints != "").any():
            given["validated"] = "choices"  # earlier versions measured forced tokens, too
        read = hashlib.sha256(self.features.tokens.tobytes() + self.token_ids.tobytes())
        shapes = {name: list(tensor.shape) for name, tensor in self.network.state_dict().items()}
        return {
            "options": given,
            "read": read.hexdigest(),
            "start": self._started,
            "reference": None if self.reference is None else _hash(self.reference),
            "shapes": shapes,
            "used": list(self.used),
        }

    def _resume(self) -> None:
        """Go on from the last save, if there is one."""
        if self.save is None or not self.save.exists():
            return
        try:
            # subtle: it may be from a machine with another device; what is loaded moves to this one below.
            state: dict[str, Any] = torch.load(self.save, map_location="cpu", weights_only=True)
            about = state["about"]
            if about == self._about():
                self.network.load_state_dict(state["network"])
                self._optimizer.load_state_dict(state["optimizer"])
            best, step, since_best, seconds = (
                state[name] for name in ("best", "step", "since_best", "seconds")
            )
            best = best[0], {name: tensor.to(self._device) for name, tensor in best[1].items()}
            validations = [(number, Validation(**found)) for number, found in state["validations"]]
        except Exception as error:
            raise ModelError(
                f"{self.save} is not the state of this training: {error!r:.300}",
                hint="Remove it to start again.",
            ) from error
        if about != self._about():
            raise ModelError(
                f"{self.save} is the state of a training with other options or other texts, or of another version",
                hint="Remove it to start again, or name another file for the weights.",
            )
        self._best, self._step, self._since_best = best, step, since_best
        self.seconds, self.validations = seconds, validations


def _hash(network: nn.Module) -> str:
    found = hashlib.sha256()
    for tensor in network.state_dict().values():
        found.update(tensor.float().cpu().numpy().tobytes())
    return found.hexdigest()
