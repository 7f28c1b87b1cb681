"""Options of the training of EAGLE drafters: the distance of states, and what it changes."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from structgen.draft_training.eagle import EagleOptions, alignment_loss  # noqa: E402
from structgen.draft_training.recipes import Recipe, train_drafter  # noqa: E402
from structgen.draft_training.unrolling import unrolled  # noqa: E402
from structgen.errors import ModelError, OptionError  # noqa: E402
from structgen.speculative.learned.eagle import EagleNetwork  # noqa: E402
from tests.draft_training.finite_differences import slopes  # noqa: E402
from tests.draft_training.test_training import FSPAD, OPTIONS, Tiny, repeated  # noqa: E402


def distance(states: np.ndarray, wanted: np.ndarray, weights: np.ndarray) -> float:
    """The weighted mean over positions of the mean over numbers of Huber's function."""
    total = 0.0
    for state, other, weight in zip(states, wanted, weights, strict=True):
        steps = np.abs(state - other)
        total += weight * np.where(steps < 1, steps**2 / 2, steps - 0.5).mean()
    return float(total / weights.sum())


@pytest.mark.parametrize("seed", range(3))
def test_the_distance_of_states_and_its_gradient(seed: int) -> None:
    rng = np.random.default_rng(seed)
    states, wanted = 2 * rng.normal(size=(2, 5, 7))
    for weights in (None, np.array([1.0, 0.0, 0.5, 2.0, 1.0])):
        counted = np.ones(5) if weights is None else weights
        given = torch.tensor(states, requires_grad=True)
        other = torch.tensor(wanted, requires_grad=True)
        loss = alignment_loss(given, other, None if weights is None else torch.tensor(weights))
        loss.backward()
        assert float(loss.detach()) == pytest.approx(distance(states, wanted, counted))
        expected = slopes(lambda moved, counted=counted: distance(moved, wanted, counted), states)
        np.testing.assert_allclose(given.grad, expected, atol=1e-8)
        assert other.grad is None  # what the drafter should resemble does not move


def test_no_position_has_no_distance() -> None:
    states = torch.zeros((0, 4), requires_grad=True)
    alignment_loss(states, torch.zeros((0, 4))).backward()
    none = torch.ones((3, 4), requires_grad=True)
    loss = alignment_loss(none, torch.zeros((3, 4)), torch.zeros(3))
    loss.backward()
    assert float(loss.detach()) == 0 and not none.grad.any()


def first_text(model: Tiny, features: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """The model's states of the first text, and the embeddings of its tokens."""
    end = int(features.offsets[1])
    tokens = torch.from_numpy(np.array(features.tokens[:end], dtype=np.int64))
    states = torch.from_numpy(np.array(features.states[:end])).float()
    return states[None], model.model.get_input_embeddings()(tokens).detach()[None]


def first_step(model: Tiny, features: Any, network: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """What the layer returns after the model's own states, and the fused states that it should resemble."""
    states, embedded = first_text(model, features)
    with torch.no_grad():
        (output,) = unrolled(network, states[:, :-1], embedded[:, 1:], 1)
        return output[0], network.fused(states)[0, 1:]


def test_the_weight_of_states_is_added_to_the_loss(tmp_path: Path) -> None:
    """At the first step the loss with alignment is the one without, plus the distance of each step."""
    model, features = repeated(tmp_path)
    short = dataclasses.replace(OPTIONS, epochs=1, steps_ahead=2)

    def first_loss(eagle: EagleOptions) -> tuple[float, EagleNetwork]:
        _, training = train_drafter(model, features, Recipe("eagle", 64, options=short, eagle=eagle))
        torch.manual_seed(0)
        for parameter in training.network.parameters():
            torch.nn.init.normal_(parameter, std=0.1)
        loss, _ = training._loss(training._read([0, 1]), counts=False)
        assert isinstance(training.network, EagleNetwork)
        return float(loss.detach()), training.network

    plain, network = first_loss(EagleOptions())
    aligned, same = first_loss(EagleOptions(alignment="full", alignment_weight=300.0))
    assert all(torch.equal(a, b) for a, b in zip(network.parameters(), same.parameters(), strict=True))
    states, embedded = first_text(model, features)
    count, answer = states.shape[1] - 1 - 2, int(features.answers[0])
    with torch.no_grad():
        outputs = unrolled(network, states[:, :count], embedded[:, 1:-1], 2)
        fused = network.fused(states)
        expected = plain
        for step, output in enumerate(outputs):
            first = max(0, answer - step - 2)  # the first position that predicts a token of the answer
            wanted = fused[0, step + 1 + first : step + 1 + count]
            expected += 0.8**step * 300.0 * float(alignment_loss(output[0, first:], wanted))
    assert aligned == pytest.approx(expected, rel=2e-2)  # the training computes in bfloat16
    assert aligned > 1.1 * plain


def test_aligned_states_resemble_those_of_the_model(tmp_path: Path) -> None:
    model, features = repeated(tmp_path)

    def distance_after(weight: float) -> float:
        eagle = EagleOptions(alignment="partial", alignment_weight=weight)
        options = dataclasses.replace(OPTIONS, epochs=25, steps_ahead=1)
        _, training = train_drafter(model, features, Recipe("eagle", 64, options=options, eagle=eagle))
        network, (output, wanted) = training.network, first_step(model, features, training.network)
        assert isinstance(network, EagleNetwork)
        return float(alignment_loss(network.continued(output), wanted))

    assert distance_after(10.0) < 0.6 * distance_after(0.0)


def test_options_of_eagle_are_checked(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="unknown alignment 'partail'") as caught:
        EagleOptions(alignment="partail")
    assert "partial" in str(caught.value)
    with pytest.raises(OptionError, match="alignment_weight"):
        EagleOptions(alignment_weight=-1.0)
    with pytest.raises(OptionError, match="options of eagle, not of medusa"):
        Recipe("medusa", eagle=FSPAD)
    model, features = repeated(tmp_path)
    save, short = tmp_path / "state", dataclasses.replace(OPTIONS, epochs=1)
    train_drafter(model, features, Recipe("eagle", 64, options=short), save=save)
    other = Recipe("eagle", 64, options=short, eagle=EagleOptions(alignment="full"))
    with pytest.raises(ModelError, match="other options or other texts"):
        train_drafter(model, features, other, save=save, resume=True)


def test_a_reference_of_before_the_options_existed_is_one_of_the_same_sizes(tmp_path: Path) -> None:
    model, features = repeated(tmp_path)
    short = dataclasses.replace(OPTIONS, epochs=1)
    weights, _ = train_drafter(model, features, Recipe("eagle", 64, options=short))
    new = ("sampler", "second_output")
    older = {name: size for name, size in weights.sizes.items() if name not in new}
    train_drafter(model, features, Recipe("eagle", 64, dataclasses.replace(weights, sizes=older), short))
    with pytest.raises(OptionError, match="other sizes"):
        train_drafter(model, features, Recipe("eagle", 64, weights, short, FSPAD))
    broken = dataclasses.replace(weights, sizes={"layer": {}})
    with pytest.raises(OptionError, match="other sizes"):
        train_drafter(model, features, Recipe("eagle", 64, broken, short))
