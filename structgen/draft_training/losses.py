"""Losses of drafters: how far a drafter's distribution q is from the model's distribution p, position by position.

    cross-entropy   -log q(x) of the text's token x
    forward-kl      KL(p, q): q covers all that p may give
    reverse-kl      KL(q, p): q keeps to what p gives often
    jsd, jsd:0.9    b KL(p, m) + (1 - b) KL(q, m) with m = b p + (1 - b) q: between the two; b is 0.5 by default
    tvd             half the sum of |p - q|: 1 minus the acceptance rate of rejection sampling
    tvd++           the policy gradient of tvd with normalised advantages

Why: a drafter learns for acceptance. Which divergence serves that best depends on the task and on the temperature.
What: both distributions cover the N tokens that the drafter may draft. Under a constraint both are normalised over
the tokens that its mask allows, since the drafter need only be right among these.
Invariant: positions without a choice change nothing: the loss of a batch without any other is 0, and so is its
gradient. All is computed in float32 (float64 if the drafter's logits are), also under autocast.
Cost: a few tensors ``[positions, N]`` in float32.
Source: Zhou et al. 2024 (DistillSpec) compare the divergences; JSD as in Agarwal et al. 2024 (on-policy distillation);
TVD++: Goel et al. 2024 (Direct Alignment of Draft Model for Speculative Decoding with Chat-Fine-Tuned LLMs),
https://arxiv.org/abs/2403.00858.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import torch

from structgen.errors import OptionError, did_you_mean, with_kind

__all__ = ["LOSS_NAMES", "Loss", "loss_named"]

LOSS_NAMES = ("cross-entropy", "forward-kl", "reverse-kl", "jsd", "tvd", "tvd++")
"""The names that `loss_named` knows. ``jsd:0.9`` sets the share of the model in the mixture."""
_LEAST_LOG = -100.0
"""Log-probabilities of the model below this count as this: where it is minus infinity, reverse KL stays finite."""


@dataclass(frozen=True)
class _Pair:
    """Both distributions at the counted positions. Tokens that are not allowed have probability and logarithm 0."""

    q: torch.Tensor
    log_q: torch.Tensor
    p: torch.Tensor
    log_p: torch.Tensor
    shares: torch.Tensor
    """The weight of each position, divided by the sum of all."""


class _Divergence(Protocol):
    def __call__(self, pair: _Pair) -> torch.Tensor:
        """Return the loss of each position, ``[positions]``."""
        ...


@dataclass(frozen=True)
class Loss:
    """A loss that `loss_named` returned."""

    name: str
    _divergence: _Divergence | None = None
    """None for the cross-entropy with the text's tokens."""

    @property
    def needs_target(self) -> bool:
        """Whether it reads the model's logits; otherwise it reads the text's tokens."""
        return self._divergence is not None

    def __call__(
        self,
        draft_logits: torch.Tensor,
        target_logits: torch.Tensor | None = None,
        *,
        token_ids: torch.Tensor | None = None,
        allowed: torch.Tensor | None = None,
        weights: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Return the weighted mean over the positions, a scalar.

        Args:
            draft_logits: The drafter's finite logits of its N tokens, ``[positions, N]``.
            target_logits: The model's logits of the same tokens, ``[positions, N]``.
            token_ids: The text's tokens as indices of these, ``[positions]``; -1 where the drafter has no such token.
                The cross-entropy leaves out such positions, and those whose token is not allowed.
            allowed: The tokens that the constraint allows, ``[positions, N]``, boolean. Positions where it allows
                fewer than two are left out.
            weights: The weight of each position, ``[positions]``; by default 1. Positions of weight 0 are left out,
                such as those whose token is forced.

        Raises:
            OptionError: An argument that the loss needs is missing, or shapes do not match.
        """
        losses, shares = self._losses(draft_logits, target_logits, token_ids, allowed, weights)
        return (losses * shares).sum()

    def per_position(
        self,
        draft_logits: torch.Tensor,
        target_logits: torch.Tensor | None = None,
        *,
        token_ids: torch.Tensor | None = None,
        allowed: torch.Tensor | None = None,
        weights: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the loss of each position and its share in the mean, both ``[positions]``; see `__call__`.

        Both are 0 for positions that are left out.
        """
        return self._losses(draft_logits, target_logits, token_ids, allowed, weights)

    def _losses(
        self,
        draft_logits: torch.Tensor,
        target_logits: torch.Tensor | None,
        token_ids: torch.Tensor | None,
        allowed: torch.Tensor | None,
        weights: torch.Tensor | None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the loss of each position, and the share of each in the mean."""
        compared = target_logits if self.needs_target else token_ids
        if compared is None:
            needed = "target_logits" if self.needs_target else "token_ids"
            raise OptionError(f"the loss {self.name} needs {needed}")
        for name, tensor, dimensions in (
            ("target_logits", target_logits, 2),
            ("allowed", allowed, 2),
            ("token_ids", token_ids, 1),
            ("weights", weights, 1),
        ):
            if tensor is not None and tensor.shape != draft_logits.shape[:dimensions]:
                raise OptionError(
                    f"{name} has the shape {list(tensor.shape)}; the draft's logits have {list(draft_logits.shape)}"
                )
        with torch.autocast(draft_logits.device.type, enabled=False):
            draft_logits = draft_logits.to(torch.promote_types(draft_logits.dtype, torch.float32))
            if allowed is None:
                allowed = torch.ones_like(draft_logits, dtype=torch.bool)
            positions = draft_logits.new_ones(len(draft_logits)) if weights is None else weights
            counted = (positions > 0) & (allowed.sum(-1) > 1)
            if not self.needs_target:
                assert token_ids is not None
                chosen = token_ids.long().clamp(min=0)[:, None]
                counted &= (token_ids >= 0) & allowed.gather(1, chosen)[:, 0]
            if (
                target_logits is not None
            ):  # nothing to learn where the model gives no token of these a probability
                counted &= (allowed & (target_logits != -torch.inf)).any(-1)
            shares = positions.to(draft_logits.dtype).masked_fill(~counted, 0.0)
            shares = shares / shares.sum().clamp(min=torch.finfo(shares.dtype).tiny)
            # Positions that are left out get some valid distribution: no NaN may pass through them.
            allowed = allowed | ~counted[:, None]
            log_q = _log_softmax(draft_logits, allowed, counted)
            if self._divergence is None:
                losses = -log_q.gather(1, chosen)[:, 0]
            else:
                assert target_logits is not None
                target = target_logits.detach().to(draft_logits.dtype)
                log_p = _log_softmax(target, allowed, counted).clamp(min=_LEAST_LOG)
                q, p = (log.exp().masked_fill(~allowed, 0.0) for log in (log_q, log_p))
                losses = self._divergence(_Pair(q, log_q, p, log_p, shares))
            return losses.masked_fill(~counted, 0.0), shares


def loss_named(name: str) -> Loss:
    """Return the loss with this name, one of `LOSS_NAMES`, or ``jsd:`` and a number between 0 and 1.

    Raises:
        OptionError: There is no such loss.

    Example:
        >>> loss_named("jsd:0.1").name
        'jsd:0.1'
    """
    divergences: dict[str, _Divergence] = {
        "forward-kl": _forward_kl,
        "reverse-kl": _reverse_kl,
        "jsd": _JSD(0.5),
        "tvd": _tvd,
        "tvd++": _tvd_plus_plus,
    }
    if not isinstance(name, str) or name.partition(":")[0] not in LOSS_NAMES:
        suggestion = did_you_mean(name, LOSS_NAMES)
        hint = f"The losses are {', '.join(LOSS_NAMES)}."
        raise OptionError(
            f"unknown loss {with_kind(name) if not isinstance(name, str) else repr(name[:40])}",
            hint=f"{suggestion} {hint}" if suggestion else hint,
        )
    bare, colon, given = name.partition(":")
    if not colon:
        return Loss(name, divergences.get(name))
    if bare != "jsd":
        raise OptionError(f"the loss {bare} has no number: {name[:40]!r}", hint=f"Write {bare}.")
    try:
        beta = float(given)
    except ValueError:
        beta = math.nan
    if not 0 < beta < 1:
        raise OptionError(
            f"the loss {name[:40]!r} needs a number between 0 and 1",
            hint="The number is the share of the model in the mixture, for example jsd:0.9.",
        )
    return Loss(name, _JSD(beta))


def _log_softmax(logits: torch.Tensor, allowed: torch.Tensor, counted: torch.Tensor) -> torch.Tensor:
    """Return the logarithms over the allowed tokens; 0 for others, and uniform where the position does not count."""
    logits = logits.masked_fill(~counted[:, None], 0.0).masked_fill(~allowed, -torch.inf)
    return logits.log_softmax(-1).masked_fill(~allowed, 0.0)


def _forward_kl(pair: _Pair) -> torch.Tensor:
    return (pair.p * (pair.log_p - pair.log_q)).sum(-1)


def _reverse_kl(pair: _Pair) -> torch.Tensor:
    return (pair.q * (pair.log_q - pair.log_p)).sum(-1)


@dataclass(frozen=True)
class _JSD:
    beta: float

    def __call__(self, pair: _Pair) -> torch.Tensor:
        log_m = torch.logaddexp(pair.log_p + math.log(self.beta), pair.log_q + math.log1p(-self.beta))
        from_p = (pair.p * (pair.log_p - log_m)).sum(-1)
        from_q = (pair.q * (pair.log_q - log_m)).sum(-1)
        return self.beta * from_p + (1 - self.beta) * from_q


def _tvd(pair: _Pair) -> torch.Tensor:
    return (pair.p - pair.q).abs().sum(-1) / 2


def _tvd_plus_plus(pair: _Pair) -> torch.Tensor:
    """Return the total variation distance, with the gradient of TVD++.

    The gradient of the distance is a policy gradient: minus the mean of ``r(x) * grad log q(x)`` over tokens x of the
    drafter, where the reward r(x) is 1 if p(x) > q(x), else 0. TVD++ replaces the reward by the advantage
    ``(r(x) - mean) / deviation``. A policy gradient estimates all three from drawn tokens. Here the drafter's
    whole distribution is known: the mean over x is exact at each position, and mean and deviation of the rewards are
    exact over all positions, each with its share. Exact, the gradient has the direction of that of `tvd` in each batch.
    What remains of the normalisation is its length, which does not vanish as rewards become rare.
    """
    rewards = (pair.p > pair.q).to(pair.q.dtype)
    q = pair.q.detach()
    mean = ((q * rewards).sum(-1) * pair.shares).sum()
    deviation = (mean * (1 - mean)).clamp(min=torch.finfo(q.dtype).eps).sqrt()
    objective = -(pair.q * (rewards - mean) / deviation).sum(-1)
    return objective - objective.detach() + _tvd(pair).detach()
