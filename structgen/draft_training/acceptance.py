"""Training of an acceptance head: cross-entropy over "accepted", with a larger weight for rejections.

What: a label is 1 where the drafter's first-ranked token is the next token of a text that the model wrote, else 0. At
temperature 0 this is what verification decides. At other temperatures the text's token is a draw from the model, so the
mean of the labels is the probability of the acceptance.
Why: most draft tokens are accepted. Without a larger weight for the others, the head hardly learns to stop. With weight
w it learns ``a / (a + w * (1 - a))`` in place of the probability a, and so errs towards short drafts. The counts that
`Speculation` keeps for each tenth of the probability correct this while it runs.
Where the constraint forbids the first-ranked token, the head is not used, so there is no label. Positions at which the
constraint allows fewer than two of the drafter's tokens are left out, too, as in the other trainings: a forced token is
always right, says nothing about the drafter, and would make the head too hopeful.
Limits: on texts that the drafter was trained on, it is right more often than on others. So the texts should be others.
Source: Huang et al. 2024 (SpecDec++), https://arxiv.org/abs/2405.19715: weight 6, divided by the sum of the weights.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from structgen.errors import ModelError, OptionError
from structgen.speculative.learned.acceptance import AcceptanceHead

from .guesses import Guesses

__all__ = [
    "Acceptances",
    "HeadReport",
    "acceptance_loss",
    "acceptances",
    "ranking",
    "train_acceptance_head",
]


@dataclass(frozen=True)
class Acceptances:
    """Guesses of a drafter, each with its label."""

    states: torch.Tensor
    """The drafter's states that the head reads, ``[guesses, hidden size]``."""
    labels: torch.Tensor
    """1 where the first-ranked token was right, else 0, ``[guesses]``."""
    chances: torch.Tensor
    """The probability that the drafter gave that token, ``[guesses]``."""
    texts: torch.Tensor
    """The number of the text of each guess, ``[guesses]``."""


@dataclass(frozen=True)
class HeadReport:
    """How well a head does on texts that were set apart."""

    guesses: int
    """The number of guesses there."""
    accepted: float
    """The share of them that was right."""
    ranking: float
    """The probability that the head gives a right guess a larger number than a wrong one; 0.5 by chance."""
    own_ranking: float
    """The same for the probability that the drafter gives its token."""


def acceptances(
    guesses: Iterable[Guesses],
    tokens: NDArray[np.int32],
    offsets: NDArray[np.int64],
    token_ids: NDArray[np.int64],
) -> Acceptances:
    """Return labelled guesses, where all guesses before them in the draft are right and the constraint leaves a choice.

    Args:
        guesses: The guesses, text by text.
        tokens: The tokens of all texts, see `Features`.
        offsets: The number of the first token of each text.
        token_ids: The tokens that the drafter may propose.
    """
    ids = torch.from_numpy(token_ids)
    found: list[list[torch.Tensor]] = []
    alive: set[int] = set()
    for each in guesses:
        starts = (each.positions - each.ahead).tolist()
        written = torch.from_numpy(tokens[offsets[each.text] + each.positions].astype(np.int64))
        best = each.logits.argmax(-1).cpu()
        labels = (ids[best] == written).float()
        reached = np.array([not each.ahead or start in alive for start in starts], dtype=bool)
        alive = {
            start for start, right, was in zip(starts, labels.tolist(), reached, strict=True) if right and was
        }
        kept = torch.from_numpy(reached)
        if each.allowed is not None:
            allowed = each.allowed.cpu()
            kept &= allowed[torch.arange(len(best)), best] & (allowed.sum(-1) > 1)
        chances = each.logits.float().softmax(-1).amax(-1).cpu()
        texts = torch.full((len(best),), each.text)
        found.append([part[kept] for part in (each.states.cpu(), labels, chances, texts)])
    if not found:
        raise OptionError(
            "the texts have no position at which the drafter guesses", hint="Give longer texts."
        )
    return Acceptances(*(torch.cat(parts) for parts in zip(*found, strict=True)))


def train_acceptance_head(
    given: Acceptances,
    *,
    blocks: int = 1,
    rejection_weight: float = 6.0,
    epochs: int = 20,
    patience: int = 3,
    batch: int = 256,
    learning_rate: float = 1e-3,
    held_out: float = 0.2,
    seed: int = 0,
) -> tuple[AcceptanceHead, HeadReport]:
    """Train a head, and measure it on texts that are set apart. The best weights on them are returned.

    Args:
        given: The labelled guesses.
        blocks: The number of residual blocks.
        rejection_weight: See `acceptance_loss`.
        epochs: The largest number of times that each guess is read.
        patience: The training ends after so many epochs without a gain.
        batch: The number of guesses of a step.
        learning_rate: Of all steps.
        held_out: The share of texts that are set apart.
        seed: Of the first weights and the order.

    Raises:
        OptionError: There are too few texts, or all guesses are right, or all are wrong.
        ModelError: The loss is not finite.
    """
    rng = np.random.default_rng(seed)
    texts = rng.permutation(np.unique(given.texts.numpy()))
    apart = torch.isin(given.texts, torch.from_numpy(texts[: max(1, round(held_out * len(texts)))]))
    for part in (apart, ~apart):
        if len(set(given.labels[part].tolist())) < 2:
            raise OptionError(
                f"{len(given.labels)} guesses in {len(texts)} texts are too few to train on and to set some apart: "
                "both need right and wrong ones",
                hint="Give more texts.",
            )
    torch.manual_seed(seed)
    head = AcceptanceHead(given.states.shape[1], blocks)
    optimizer = torch.optim.AdamW(head.parameters(), lr=learning_rate, weight_decay=0.01)
    states, labels = given.states.float(), given.labels
    train = (~apart).nonzero()[:, 0].numpy()
    best, kept, since = np.inf, {}, 0
    for _ in range(epochs):
        for rows in np.array_split(rng.permutation(train), max(1, len(train) // batch)):
            chosen = torch.from_numpy(rows)
            loss = acceptance_loss(head(states[chosen]), labels[chosen], rejection_weight=rejection_weight)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        with torch.no_grad():
            found = float(
                acceptance_loss(head(states[apart]), labels[apart], rejection_weight=rejection_weight)
            )
        if not np.isfinite(found):
            raise ModelError("the loss of the acceptance head is not finite", hint="Look for such states.")
        since += 1
        if found < best:
            best, since = found, 0
            kept = {name: tensor.clone() for name, tensor in head.state_dict().items()}
        if since >= patience:
            break
    head.load_state_dict(kept)
    with torch.no_grad():
        logits = head(states[apart])
    return head, HeadReport(
        int(apart.sum()),
        float(labels[apart].mean()),
        ranking(logits, labels[apart]),
        ranking(given.chances[apart], labels[apart]),
    )


def ranking(scores: torch.Tensor, labels: torch.Tensor) -> float:
    """Return the probability that a random positive has a larger score than a random negative; ties count half."""
    values, places = np.unique(scores.double().numpy(), return_inverse=True)
    positive = labels.numpy() > 0
    right, wrong = (np.bincount(places[part], minlength=len(values)) for part in (positive, ~positive))
    below = np.cumsum(wrong) - wrong / 2
    return float((right * below).sum() / (right.sum() * wrong.sum()))


def acceptance_loss(
    logits: torch.Tensor,
    accepted: torch.Tensor,
    *,
    rejection_weight: float = 6.0,
    weights: torch.Tensor | None = None,
) -> torch.Tensor:
    """Return the weighted mean of the cross-entropy, a scalar; computed in float32.

    Args:
        logits: Outputs of the head, ``[positions]``.
        accepted: Labels, or probabilities of the acceptance, ``[positions]``, from 0 to 1.
        rejection_weight: The weight of a rejection; an acceptance has 1.
        weights: The weight of each position, ``[positions]``. Positions of weight 0 are left out. If none remains, the
            loss is 0, and so is its gradient.
    """
    with torch.autocast(logits.device.type, enabled=False):
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        accepted = accepted.to(logits.dtype)
        positions = torch.ones_like(accepted) if weights is None else weights.to(logits.dtype)
        counted = positions > 0
        logits = logits.masked_fill(~counted, 0.0)
        right = positions * accepted
        wrong = rejection_weight * positions * (1 - accepted)
        losses = right * functional.softplus(-logits) + wrong * functional.softplus(logits)
        total = (right + wrong).masked_fill(~counted, 0.0).sum()
        return losses.masked_fill(~counted, 0.0).sum() / total.clamp(min=torch.finfo(total.dtype).tiny)
