"""Losses of drafters: values against plain numpy, gradients against finite differences, identities."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from structgen.draft_training.losses import LOSS_NAMES, Loss, loss_named  # noqa: E402
from structgen.errors import OptionError  # noqa: E402
from tests.draft_training.finite_differences import slopes  # noqa: E402

NAMES = [*LOSS_NAMES, "jsd:0.1", "jsd:0.9"]
POSITIONS, TOKENS = 5, 7


def softmax(logits: np.ndarray, allowed: np.ndarray) -> np.ndarray:
    masses = np.where(allowed, np.exp(logits - logits[allowed].max()), 0.0)
    return masses / masses.sum()


def kl(p: np.ndarray, q: np.ndarray) -> float:
    return float(sum(a * np.log(a / b) for a, b in zip(p, q, strict=True) if a > 0))


def divergence(name: str, p: np.ndarray, q: np.ndarray, token: int) -> float:
    """One position. The value of TVD++ is that of TVD."""
    name, _, beta = name.partition(":")
    if name == "cross-entropy":
        return -float(np.log(q[token]))
    if name == "forward-kl":
        return kl(p, q)
    if name == "reverse-kl":
        return kl(q, p)
    if name == "jsd":
        share = float(beta or 0.5)
        m = share * p + (1 - share) * q
        return share * kl(p, m) + (1 - share) * kl(q, m)
    return float(np.abs(p - q).sum() / 2)


def naive(
    name: str,
    draft: np.ndarray,
    target: np.ndarray,
    token_ids: np.ndarray,
    allowed: np.ndarray,
    weights: np.ndarray,
) -> float:
    total = mass = 0.0
    for t in range(len(draft)):
        if weights[t] == 0 or allowed[t].sum() < 2:
            continue
        if name == "cross-entropy" and (token_ids[t] < 0 or not allowed[t, token_ids[t]]):
            continue
        p, q = softmax(target[t], allowed[t]), softmax(draft[t], allowed[t])
        total += weights[t] * divergence(name, p, q, token_ids[t])
        mass += weights[t]
    return total / mass


def policy_objective(
    draft: np.ndarray, target: np.ndarray, allowed: np.ndarray, weights: np.ndarray
) -> Callable[[np.ndarray], float]:
    """The objective of TVD++ for other logits of the draft: its advantages are those of `draft`, token by token."""
    counted = [t for t in range(len(draft)) if weights[t] > 0 and allowed[t].sum() > 1]
    shares = {t: weights[t] / sum(weights[i] for i in counted) for t in counted}
    rewards, mean, square = {}, 0.0, 0.0
    for t in counted:
        p, q = softmax(target[t], allowed[t]), softmax(draft[t], allowed[t])
        for x in np.flatnonzero(allowed[t]):
            rewards[t, x] = float(p[x] > q[x])
            mean += shares[t] * q[x] * rewards[t, x]
            square += shares[t] * q[x] * rewards[t, x] ** 2
    deviation = np.sqrt(square - mean**2)

    def objective(logits: np.ndarray) -> float:
        total = 0.0
        for (t, x), reward in rewards.items():
            total -= shares[t] * softmax(logits[t], allowed[t])[x] * (reward - mean) / deviation
        return total

    return objective


def problem(seed: int, masked: bool, weighted: bool) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    allowed = np.ones((POSITIONS, TOKENS), dtype=bool)
    weights = np.ones(POSITIONS)
    token_ids = rng.integers(0, TOKENS, size=POSITIONS)
    if masked:
        allowed = rng.random((POSITIONS, TOKENS)) < 0.6
        allowed[0], allowed[1], allowed[2] = True, False, np.arange(TOKENS) == 3  # all, nothing, one
        allowed[3, :2] = True
        token_ids[3] = 1
    if weighted:
        weights = np.array([0.5, 1.0, 2.0, 1.5, 0.0])
        token_ids[1] = -1
    draft, target = 2 * rng.normal(size=(2, POSITIONS, TOKENS))
    return {
        "draft": draft,
        "target": target,
        "token_ids": token_ids,
        "allowed": allowed,
        "weights": weights,
    }


def value(loss: Loss, given: dict[str, np.ndarray], draft: torch.Tensor) -> torch.Tensor:
    return loss(
        draft,
        torch.tensor(given["target"]),
        token_ids=torch.tensor(given["token_ids"]),
        allowed=torch.tensor(given["allowed"]),
        weights=torch.tensor(given["weights"]),
    )


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_value_and_gradient(name: str, masked: bool, weighted: bool, seed: int) -> None:
    given = problem(seed, masked, weighted)
    draft = torch.tensor(given["draft"], requires_grad=True)
    loss = value(loss_named(name), given, draft)
    loss.backward()
    others = {key: given[key] for key in ("target", "token_ids", "allowed", "weights")}
    assert loss.item() == pytest.approx(naive(name, given["draft"], **others), rel=1e-9)
    function: Callable[[np.ndarray], float] = lambda moved: naive(name, moved, **others)  # noqa: E731
    if name == "tvd++":
        function = policy_objective(given["draft"], given["target"], given["allowed"], given["weights"])
    np.testing.assert_allclose(draft.grad.numpy(), slopes(function, given["draft"]), atol=1e-8)


@pytest.mark.parametrize("name", NAMES)
def test_without_mask_and_weights_all_positions_and_tokens_count(name: str) -> None:
    given = problem(7, masked=False, weighted=False)
    draft, target = torch.tensor(given["draft"]), torch.tensor(given["target"])
    ids = torch.tensor(given["token_ids"])
    found = loss_named(name)(draft, target, token_ids=ids)
    torch.testing.assert_close(found, value(loss_named(name), given, draft))
    losses, _ = loss_named(name).per_position(draft, target, token_ids=ids)
    torch.testing.assert_close(losses.mean(), found)


@pytest.mark.parametrize("name", NAMES)
def test_masked_logits_have_no_influence(name: str) -> None:
    given = problem(3, masked=True, weighted=True)
    draft = torch.tensor(given["draft"], requires_grad=True)
    plain = value(loss_named(name), given, draft)
    plain.backward()
    silent = ~torch.tensor(given["allowed"])
    silent[[1, 2, 4]] = True  # nothing allowed, one allowed, weight 0
    assert torch.all(draft.grad[silent] == 0)
    wild = torch.where(silent, torch.nan, draft.detach()).requires_grad_()
    changed = {**given, "target": np.where(silent.numpy(), -np.inf, given["target"])}
    found = value(loss_named(name), changed, wild)
    found.backward()
    torch.testing.assert_close(found, plain)
    torch.testing.assert_close(wild.grad, draft.grad)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("left_out_by", ["weights", "mask", "no positions"])
def test_with_no_position_left_the_loss_and_its_gradient_are_zero(name: str, left_out_by: str) -> None:
    given = problem(1, masked=False, weighted=False)
    if left_out_by == "weights":
        given["weights"][:] = 0
    elif left_out_by == "mask":
        given["allowed"][:] = np.arange(TOKENS) == 2
    else:
        given = {key: array[:0] for key, array in given.items()}
    draft = torch.tensor(given["draft"], requires_grad=True)
    loss = value(loss_named(name), given, draft)
    loss.backward()
    assert loss.item() == 0.0 and torch.all(draft.grad == 0)


@pytest.mark.parametrize("name", NAMES)
def test_tokens_that_the_model_excludes(name: str) -> None:
    given = problem(2, masked=False, weighted=False)
    given["target"][:, 3] = -np.inf
    given["target"][1] = -np.inf  # the model gives these tokens nothing
    given["token_ids"][:] = 2
    draft = torch.tensor(given["draft"], dtype=torch.float32, requires_grad=True)
    loss = value(loss_named(name), given, draft)
    loss.backward()
    assert torch.isfinite(loss) and torch.isfinite(draft.grad).all()
    assert torch.all(draft.grad[1] == 0)
    if name in ("forward-kl", "jsd", "tvd"):
        expected = naive(
            name, given["draft"], **{**given_without_draft(given), "weights": np.array([1, 0, 1, 1, 1])}
        )
        assert loss.item() == pytest.approx(expected, rel=1e-5)


def given_without_draft(given: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {key: array for key, array in given.items() if key != "draft"}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("autocast", [False, True])
def test_float32_for_bfloat16_logits(name: str, autocast: bool) -> None:
    given = problem(4, masked=True, weighted=True)
    exact = value(loss_named(name), given, torch.tensor(given["draft"]).bfloat16().float())
    draft = torch.tensor(given["draft"]).bfloat16().requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
        loss = value(loss_named(name), given, draft)
    loss.backward()
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss, exact)
    assert draft.grad.dtype == torch.bfloat16 and torch.isfinite(draft.grad).all()


@pytest.mark.parametrize("seed", range(3))
def test_identities(seed: int) -> None:
    given = problem(seed, masked=False, weighted=False)
    draft, target = torch.tensor(given["draft"]), torch.tensor(given["target"])
    for name in ("forward-kl", "reverse-kl", "jsd", "jsd:0.2", "tvd", "tvd++"):
        loss = loss_named(name)
        assert loss(draft, draft + 3.0).item() == pytest.approx(0.0, abs=1e-12)  # the same distribution
        assert (loss.per_position(draft, target)[0] > 0.001).all()
    assert loss_named("jsd")(draft, target).item() == pytest.approx(loss_named("jsd")(target, draft).item())
    assert loss_named("jsd:0.2")(draft, target).item() == pytest.approx(
        loss_named("jsd:0.8")(target, draft).item()
    )
    assert loss_named("forward-kl")(draft, target) == loss_named("reverse-kl")(target, draft)
    q, p = draft.softmax(-1), target.softmax(-1)
    tvd, _ = loss_named("tvd").per_position(draft, target)
    assert ((tvd > 0) & (tvd < 1)).all()
    torch.testing.assert_close(1 - tvd, torch.minimum(p, q).sum(-1))  # the acceptance rate
    apart = torch.tensor([[50.0, 0.0, 0.0]], dtype=torch.float64)
    assert loss_named("tvd")(apart, apart.flip(1)).item() == pytest.approx(1.0)


@pytest.mark.parametrize("seed", range(3))
def test_the_mean_gradient_of_sampled_tvd_plus_plus_is_that_of_the_loss(seed: int) -> None:
    """The estimator of the paper, over all tokens that may be drawn: minus the advantage times grad log q."""
    rng = np.random.default_rng(seed)
    logits, target = rng.normal(size=(2, 4, 5))
    draft = torch.tensor(logits, requires_grad=True)
    loss_named("tvd++")(draft, torch.tensor(target)).backward()
    every = np.ones(5, dtype=bool)
    q = np.array([softmax(row, every) for row in logits])
    p = np.array([softmax(row, every) for row in target])
    rewards = (p > q).astype(float)
    draws = [(t, x) for t in range(4) for x in range(5)]
    mean = sum(q[t, x] / 4 * rewards[t, x] for t, x in draws)
    deviation = np.sqrt(sum(q[t, x] / 4 * (rewards[t, x] - mean) ** 2 for t, x in draws))
    expected = np.zeros((4, 5))
    for t, x in draws:
        grad_log_q = (np.arange(5) == x) - q[t]
        expected[t] -= q[t, x] / 4 * (rewards[t, x] - mean) / deviation * grad_log_q
    np.testing.assert_allclose(draft.grad.numpy(), expected, atol=1e-12)
    plain = torch.tensor(logits, requires_grad=True)
    loss_named("tvd")(plain, torch.tensor(target)).backward()
    np.testing.assert_allclose(draft.grad.numpy() * deviation, plain.grad.numpy(), atol=1e-12)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "cross-entropy"])
def test_descent_reaches_the_model(name: str) -> None:
    torch.manual_seed(0)
    target, draft = torch.randn(3, 6), torch.zeros(3, 6, requires_grad=True)
    allowed = torch.ones(3, 6, dtype=torch.bool)
    allowed[1, 2:4] = False
    optimizer = torch.optim.SGD([draft], 1.0)
    start = loss_named(name)(draft, target, allowed=allowed).item()
    for _ in range(600):
        optimizer.zero_grad()
        loss = loss_named(name)(draft, target, allowed=allowed)
        loss.backward()
        optimizer.step()
    assert loss.item() < (0.15 if name == "tvd++" else 0.02) * start + 0.01


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("kl", "unknown loss 'kl'"),
        ("TVD", "unknown loss 'TVD'"),
        ("", "unknown loss ''"),
        ("tvd:0.5", "the loss tvd has no number: 'tvd:0.5'"),
        ("jsd:", "the loss 'jsd:' needs a number between 0 and 1"),
        ("jsd:1", "the loss 'jsd:1' needs a number between 0 and 1"),
        ("jsd:nan", "the loss 'jsd:nan' needs a number between 0 and 1"),
        (None, "unknown loss None"),
    ],
)
def test_errors_of_names(name: str, message: str) -> None:
    with pytest.raises(OptionError) as caught:
        loss_named(name)
    assert message in str(caught.value)
    if message.startswith("unknown"):
        assert all(known in str(caught.value) for known in LOSS_NAMES)


def test_errors_of_arguments() -> None:
    logits = torch.zeros(2, 3)
    with pytest.raises(OptionError, match="the loss tvd needs target_logits"):
        loss_named("tvd")(logits, token_ids=torch.zeros(2))
    with pytest.raises(OptionError, match="the loss cross-entropy needs token_ids"):
        loss_named("cross-entropy")(logits, logits)
    with pytest.raises(
        OptionError, match=r"target_logits has the shape \[2, 4\]; the draft's logits have \[2, 3\]"
    ):
        loss_named("tvd")(logits, torch.zeros(2, 4))
    with pytest.raises(OptionError, match=r"weights has the shape \[3\]"):
        loss_named("tvd")(logits, logits, weights=torch.zeros(3))
