"""The loss of acceptance heads: values, gradients, and what a trained head learns."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from structgen.draft_training.acceptance import (  # noqa: E402
    Acceptances,
    acceptance_loss,
    acceptances,
    ranking,
    train_acceptance_head,
)
from structgen.draft_training.features import compute_features  # noqa: E402
from structgen.draft_training.guesses import Guesses, guesses_in_texts  # noqa: E402
from structgen.draft_training.recipes import layers_read  # noqa: E402
from structgen.draft_training.texts import Text  # noqa: E402
from structgen.errors import ModelError, OptionError  # noqa: E402
from structgen.speculative.learned.acceptance import AcceptanceHead  # noqa: E402
from tests.draft_training.finite_differences import slopes  # noqa: E402
from tests.draft_training.test_training import Tiny  # noqa: E402
from tests.speculative.learned.test_eagle import LAYERS, random_weights, wanted  # noqa: E402


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


def test_guesses_are_what_the_drafter_computes_when_it_drafts(tmp_path: Path) -> None:
    """Draft step j at a position reads the model's states up to it, and the text's own tokens after it."""
    model, weights = Tiny(), random_weights()
    texts = [Text([5, 9, 3], [17, 8, 4, 22, 6, 11], "x", 0.0), Text([7, 7], [2, 11, 3, 12, 9], "x", 0.0)]
    assert set(LAYERS) <= set(layers_read(model))
    features = compute_features(model, texts, tmp_path, layers_read(model), most_bytes=1 << 20)
    found = list(guesses_in_texts(weights, model, features))
    assert [(each.text, each.ahead) for each in found] == [
        (text, ahead) for text in (0, 1) for ahead in range(3)
    ]
    for each in found:
        tokens = [*texts[each.text].prompt, *texts[each.text].answer]
        first = max(len(texts[each.text].prompt), each.ahead + 2)
        assert each.positions.tolist() == list(range(first, len(tokens) - 2 + each.ahead))
        for logits, position in zip(each.logits, each.positions.tolist(), strict=True):
            expected = wanted(model, weights, tokens[:position], position - each.ahead - 1)
            np.testing.assert_allclose(logits, expected, rtol=2e-2, atol=2e-2)


def test_labels_count_only_guesses_that_drafts_reach(tmp_path: Path) -> None:
    model, weights = Tiny(), random_weights()
    letters = {model.vocabulary.token_bytes(i): i for i in range(2, 28)}
    answer = [letters[bytes([byte])] for byte in b"abcabcaabbcc"]
    texts = [Text([5, 9], answer, "x", 0.0), Text([5, 9], answer, "x", 0.0, {"regex": "[abc]{12}"})]
    features = compute_features(model, texts, tmp_path, layers_read(model), most_bytes=1 << 20)
    ids = weights.token_ids
    expected, right = [], {}
    for each in guesses_in_texts(weights, model, features):
        for row, position in enumerate(each.positions.tolist()):
            best = int(each.logits[row].argmax())
            start = position - each.ahead
            label = ids[best] == [5, 9, *answer][position]
            right[each.text, start, each.ahead] = label
            if all(right[each.text, start, earlier] for earlier in range(each.ahead)) and (
                each.allowed is None or (each.allowed[row, best] and each.allowed[row].sum() > 1)
            ):
                expected.append((each.text, float(label)))
    found = acceptances(guesses_in_texts(weights, model, features), features.tokens, features.offsets, ids)
    assert list(zip(found.texts.tolist(), found.labels.tolist(), strict=True)) == expected
    assert len(expected) > 12 and found.states.shape == (len(expected), 32)


@pytest.mark.parametrize("allowed", [1, 2, 3])
def test_positions_that_a_constraint_forces_are_left_out(allowed: int) -> None:
    """There the drafter's token is right in any case, which is no sign of a good drafter."""
    ids, tokens = np.array([3, 5, 8]), np.array([9, 5, 5, 8, 5], dtype=np.int32)
    logits = torch.tensor([[0.0, 2.0, 1.0]] * 3)  # the drafter's token is 5
    mask = torch.ones(3, 3, dtype=torch.bool)
    mask[1] = torch.tensor([allowed > 2, True, allowed > 1])
    guesses = Guesses(0, 0, np.array([1, 2, 3]), torch.eye(3), logits, mask)
    found = acceptances([guesses], tokens, np.array([0]), ids)
    assert found.labels.tolist() == ([1.0, 0.0] if allowed == 1 else [1.0, 1.0, 0.0])
    # A forced token is right. So what follows it in a draft is reached.
    ahead = Guesses(0, 1, np.array([2, 3, 4]), torch.eye(3), logits, torch.ones(3, 3, dtype=torch.bool))
    found = acceptances([guesses, ahead], tokens, np.array([0]), ids)
    assert found.labels.tolist()[-2:] == [1.0, 0.0]


def examples(count: int = 600) -> Acceptances:
    """Acceptance follows from the sign of the first number of a state; the drafter's own probability says nothing."""
    torch.manual_seed(0)
    states = torch.randn(count, 8)
    labels = (states[:, 0] + 0.3 * torch.randn(count) > 0).float()
    return Acceptances(states, labels, torch.rand(count), torch.arange(count) // 20)


def test_a_trained_head_ranks_better_than_chance_on_texts_that_were_set_apart() -> None:
    head, report = train_acceptance_head(examples(), epochs=40, learning_rate=1e-2)
    assert report.ranking > 0.9 > 0.65 > report.own_ranking
    assert report.guesses == 120 and 0.3 < report.accepted < 0.7
    again, same = train_acceptance_head(examples(), epochs=40, learning_rate=1e-2)
    assert same == report and torch.equal(again.output.weight, head.output.weight)


def test_examples_that_cannot_be_learned_from() -> None:
    few = Acceptances(torch.zeros(4, 8), torch.ones(4), torch.ones(4), torch.arange(4))
    with pytest.raises(OptionError, match="4 guesses in 4 texts are too few"):
        train_acceptance_head(few)
    given = examples()
    given.states[:] = float("nan")
    with pytest.raises(ModelError, match="not finite"):
        train_acceptance_head(given)
    with pytest.raises(OptionError, match="no position"):
        acceptances([], np.zeros(1, dtype=np.int32), np.zeros(1, dtype=np.int64), np.arange(3))


def test_ranking_is_the_share_of_pairs_in_order() -> None:
    scores, labels = [0.3, 0.1, 0.3, 0.9, 0.2], [1.0, 0.0, 0.0, 1.0, 0.0]
    pairs = [
        (a, b)
        for a, x in zip(scores, labels, strict=True)
        for b, y in zip(scores, labels, strict=True)
        if x > y
    ]
    expected = sum((a > b) + (a == b) / 2 for a, b in pairs) / len(pairs)
    assert ranking(torch.tensor(scores), torch.tensor(labels)) == pytest.approx(expected)
