"""AdaSPEC's selective tokens."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from structgen.draft_training.losses import loss_named  # noqa: E402
from structgen.draft_training.selection import select  # noqa: E402
from structgen.errors import OptionError  # noqa: E402


def naive(draft: np.ndarray, reference: np.ndarray, share: float, weights: np.ndarray) -> np.ndarray:
    counted = [t for t in range(len(draft)) if weights[t] > 0]
    ordered = sorted(counted, key=lambda t: (-(draft[t] - reference[t]), t))
    number = max(1, int(share * len(counted) + 0.5))
    selected = np.zeros(len(draft))
    for t in ordered[:number]:
        selected[t] = weights[t]
    return selected


@pytest.mark.parametrize("share", [0.0, 0.1, 0.4, 0.5, 1.0])
@pytest.mark.parametrize("seed", range(4))
def test_the_largest_differences_are_selected(share: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    draft, reference = rng.integers(0, 4, size=(2, 30)).astype(np.float32)  # with many ties
    weights = rng.choice([0.0, 0.5, 1.0], size=30).astype(np.float32)
    given = torch.tensor(draft), torch.tensor(reference)
    found = select(*given, share=share, weights=torch.tensor(weights))
    np.testing.assert_array_equal(found.numpy(), naive(draft, reference, share, weights))
    unweighted = select(*given, share=share)
    np.testing.assert_array_equal(unweighted.numpy(), naive(draft, reference, share, np.ones(30)))


def test_ties_select_the_earlier_positions_every_time() -> None:
    for _ in range(5):
        found = select(torch.ones(5000), torch.zeros(5000))
        assert found[:2000].eq(1).all() and found[2000:].eq(0).all()


def test_two_fifths_are_the_default() -> None:
    assert select(torch.arange(10.0), torch.zeros(10)).tolist() == [0.0] * 6 + [1.0] * 4


def test_without_positions() -> None:
    assert select(torch.ones(3), torch.ones(3), weights=torch.zeros(3)).tolist() == [0.0] * 3
    assert select(torch.ones(0), torch.ones(0)).tolist() == []


@pytest.mark.parametrize("name", ["forward-kl", "cross-entropy"])
def test_forced_positions_do_not_count_towards_the_share(name: str) -> None:
    torch.manual_seed(0)
    target, reference, draft = torch.randn(3, 100, 6)
    allowed = torch.ones(100, 6, dtype=torch.bool)
    allowed[:70, 1:] = False
    loss = loss_named(name)
    read = {"token_ids": torch.zeros(100, dtype=torch.long), "allowed": allowed}
    (now, shares), (before, _) = (loss.per_position(one, target, **read) for one in (draft, reference))
    weights = select(now, before, weights=shares)
    assert weights[:70].eq(0).all() and int((weights > 0).sum()) == 12


def test_the_drafter_learns_from_selected_positions_only() -> None:
    torch.manual_seed(0)
    target, reference = torch.randn(2, 10, 6)
    draft = torch.randn(10, 6, requires_grad=True)
    loss = loss_named("forward-kl")
    weights = select(loss.per_position(draft, target)[0], loss.per_position(reference, target)[0])
    assert not weights.requires_grad
    value = loss(draft, target, weights=weights)
    value.backward()
    np.testing.assert_array_equal(draft.grad.abs().sum(-1).numpy() > 0, weights.numpy() > 0)
    torch.testing.assert_close(value, loss.per_position(draft, target)[0][weights > 0].mean())


def test_errors() -> None:
    with pytest.raises(OptionError, match="share is 1.5; it must be a probability"):
        select(torch.ones(2), torch.ones(2), share=1.5)
    with pytest.raises(OptionError, match=r"reference_losses has the shape \[3\]; draft_losses has \[2\]"):
        select(torch.ones(2), torch.ones(3))
