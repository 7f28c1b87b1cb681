"""The loss of acceptance heads: values, gradients, and what a trained head learns."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from structgen.draft_training.acceptance import acceptance_labels, acceptance_loss  # noqa: E402
from structgen.speculative.learned.acceptance import AcceptanceHead  # noqa: E402
from tests.draft_training.finite_differences import slopes  # noqa: E402


def naive(logits: np.ndarray, accepted: np.ndarray, weight: float, weights: np.ndarray) -> float:
    total = mass = 0.0
    for logit, label, own in zip(logits, accepted, weights, strict=True):
        probability = 1 / (1 + np.exp(-logit))
        total -= own * (label * np.log(probability) + weight * (1 - label) * np.log(1 - probability))
        mass += own * (label + weight * (1 - label))
    return total / mass


@pytest.mark.parametrize("seed", range(3))
def test_value_and_gradient(seed: int) -> None:
    rng = np.random.default_rng(seed)
    logits, accepted = rng.normal(size=6) * 2, rng.random(6)
    weights = np.array([1.0, 0.0, 0.5, 2.0, 1.0, 0.0])
    given = torch.tensor(logits, requires_grad=True)
    loss = acceptance_loss(given, torch.tensor(accepted), rejection_weight=6.0, weights=torch.tensor(weights))
    loss.backward()
    assert loss.item() == pytest.approx(naive(logits, accepted, 6.0, weights), rel=1e-12)
    expected = slopes(lambda moved: naive(moved, accepted, 6.0, weights), logits)
    np.testing.assert_allclose(given.grad.numpy(), expected, atol=1e-8)


def test_without_positions_the_loss_is_zero_and_so_is_its_gradient() -> None:
    given = torch.tensor([float("nan"), 3.0], requires_grad=True)
    loss = acceptance_loss(given, torch.ones(2), weights=torch.zeros(2))
    loss.backward()
    assert loss.item() == 0.0 and given.grad.tolist() == [0.0, 0.0]


def test_float32_under_autocast() -> None:
    logits = torch.tensor([300.0, -300.0, 0.5], dtype=torch.bfloat16, requires_grad=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = acceptance_loss(logits, torch.tensor([0.0, 1.0, 1.0]))
    loss.backward()
    assert loss.dtype == torch.float32 and torch.isfinite(loss) and torch.isfinite(logits.grad).all()


def test_labels_compare_the_first_ranked_token() -> None:
    logits = torch.tensor([[0.0, 2.0, 1.0], [3.0, 0.0, 1.0], [0.0, 0.0, 1.0]])
    assert acceptance_labels(logits, torch.tensor([1, 2, -1])).tolist() == [1.0, 0.0, 0.0]


@pytest.mark.parametrize("rejection_weight", [1.0, 6.0])
def test_a_head_learns_the_weighted_acceptance_rate_of_each_state(rejection_weight: float) -> None:
    torch.manual_seed(0)
    states, rates = torch.eye(3, 8), torch.tensor([0.9, 0.5, 0.2])
    head = AcceptanceHead(8, blocks=2)
    optimizer = torch.optim.Adam(head.parameters(), 0.02)
    for _ in range(400):
        optimizer.zero_grad()
        acceptance_loss(head(states), rates, rejection_weight=rejection_weight).backward()
        optimizer.step()
    learned = head(states).sigmoid().detach()
    expected = rates / (rates + rejection_weight * (1 - rates))
    torch.testing.assert_close(learned, expected, atol=0.01, rtol=0)
