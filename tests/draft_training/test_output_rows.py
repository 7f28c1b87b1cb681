"""Trainings compare distributions of the model itself: its logits scaled, bounded and with a bias, where it does so."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from transformers import AutoModelForCausalLM  # noqa: E402

from structgen.draft_training.features import compute_features  # noqa: E402
from structgen.draft_training.guesses import guesses_in_texts  # noqa: E402
from structgen.draft_training.prompt_tokens import (  # noqa: E402
    PromptTokenTraining,
    prompt_token_states,
)
from structgen.draft_training.recipes import frozen_rows, outputs_of  # noqa: E402
from structgen.draft_training.texts import Text  # noqa: E402
from structgen.draft_training.training import Training, TrainingOptions  # noqa: E402
from structgen.speculative.learned import DraftWeights  # noqa: E402
from structgen.speculative.learned.heads import HeadSizes, HeadsNetwork  # noqa: E402
from structgen.speculative.learned.output_layers import logit_map_of  # noqa: E402
from structgen.speculative.learned.prompt_tokens import PromptTokenSizes, PromptTokensNetwork  # noqa: E402
from tests.draft_training.test_training import Tiny  # noqa: E402
from tests.models.tiny import SIZE  # noqa: E402
from tests.speculative.learned.test_output_layers import ARCHITECTURES  # noqa: E402
from tests.speculative.tiny_sessions import VOCABULARY  # noqa: E402

IDS = np.arange(3, 40, 2)
TEXT = Text([5, 9, 3], [17, 8, 40, 22, 6, 11, 30], "x", 0.0)
TOKENS = [*TEXT.prompt, *TEXT.answer]


class Scaled(Tiny):
    """A tiny model with large logits and a bias that is not zero."""

    def __init__(self, name: str) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.model = AutoModelForCausalLM.from_config(ARCHITECTURES[name](), dtype=torch.float32).eval()
        with torch.no_grad():
            for parameter in self.model.parameters():
                parameter.mul_(4).add_(0.3 * torch.randn_like(parameter))


def own_logits(model: Scaled) -> torch.Tensor:
    """The model's logits of the tokens that are drafted, after each token of the text."""
    with torch.inference_mode():
        return model.model(input_ids=torch.tensor([TOKENS])).logits[0][:, IDS].float()


def read(model: Scaled, folder: Path) -> Any:
    """Two copies of the text with their states, and the rows."""
    features = compute_features(model, [TEXT] * 2, folder, (2,), most_bytes=1 << 20)
    return features, *frozen_rows(model, IDS)


def assert_same(found: torch.Tensor, expected: torch.Tensor, atol: float = 0.02) -> None:
    """Compare distributions of logits; states and rows of a training are in bfloat16, and some logits are 40."""
    largest = float(expected.abs().max())
    found, expected = found.detach().log_softmax(-1), expected.log_softmax(-1)
    torch.testing.assert_close(found, expected, rtol=0, atol=atol + 0.015 * largest)


def comparing(compare: Any) -> Any:
    """A function in the place of a loss that reads the model's logits."""
    compare.needs_target = True
    return compare


@pytest.mark.parametrize("name", list(ARCHITECTURES))
def test_both_distributions_of_a_training_are_those_of_the_models_logits(name: str, tmp_path: Path) -> None:
    """A new head returns the state that it reads, so the drafter's distribution is the model's, one token before."""
    model = Scaled(name)
    features, embeddings, rows = read(model, tmp_path)
    options = TrainingOptions(steps_ahead=1, held_out=0.5)
    network = HeadsNetwork(HeadSizes(hidden=32, layer=2, count=1))
    training = Training(network, outputs_of("medusa"), features, (2,), embeddings, rows, IDS, options)
    compared: list[tuple[torch.Tensor, torch.Tensor]] = []

    def compare(logits: torch.Tensor, *, target_logits: torch.Tensor, **others: Any) -> torch.Tensor:
        compared.append((logits, target_logits))
        return logits.sum()

    training._compare = comparing(compare)
    expected = own_logits(model)
    for counts in (False, True):
        training._loss(training._read([0]), counts=counts)
        drafted, target = compared.pop()
        places = torch.arange(1, len(TOKENS) - 2)  # token t + 2 is one of the answer
        assert_same(target, expected[places + 1])
        assert_same(drafted, expected[places])
    states = torch.from_numpy(np.array(features.states[: len(TOKENS), 0])).float()
    plain = (states @ rows.weight.T).softmax(-1)
    assert (plain - expected.softmax(-1)).abs().max() > 0.1  # the weights alone are not enough


@pytest.mark.parametrize("name", list(ARCHITECTURES))
def test_guesses_are_scored_as_in_drafting(name: str, tmp_path: Path) -> None:
    model = Scaled(name)
    features, *_ = read(model, tmp_path)
    sizes = HeadSizes(hidden=32, layer=2, count=1)
    weights = DraftWeights(
        "medusa", sizes.as_dict(), VOCABULARY.fingerprint, IDS, HeadsNetwork(sizes).state_dict()
    )
    found = next(guesses_in_texts(weights, model, features))
    expected = own_logits(model)[torch.from_numpy(found.positions - 2)]
    torch.testing.assert_close(found.logits, expected, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("name", ["granite", "cohere"])
def test_prompt_tokens_learn_the_logits_that_they_draft_with(name: str, tmp_path: Path) -> None:
    model, positions = Scaled(name), [2, 4]
    given = torch.randn((1, 32), generator=torch.Generator().manual_seed(0))
    own = model.model.get_input_embeddings()(torch.tensor(TOKENS))
    expected = []
    with torch.no_grad():
        states = prompt_token_states(
            model.model, torch.tensor(TOKENS)[None], torch.tensor(positions)[None], given
        )
        found = logit_map_of(model.model)(model.model.get_output_embeddings()(states[0]))
        for position in positions:
            inputs = torch.cat([own[: position + 1], given])[None]
            expected.append(model.model(inputs_embeds=inputs, use_cache=False).logits[0, -1])
    torch.testing.assert_close(found[:, 0], torch.stack(expected), rtol=1e-3, atol=1e-3)
    features, embeddings, rows = read(model, tmp_path)
    network = PromptTokensNetwork(PromptTokenSizes(32, 1), torch.zeros(32))
    with torch.no_grad():
        network.embeddings.copy_(given)
    options = TrainingOptions(steps_ahead=1, held_out=0.5)
    training = PromptTokenTraining(model.model, network, features, (), embeddings, rows, IDS, options)
    compared: list[torch.Tensor] = []

    def compare(logits: torch.Tensor, **others: Any) -> torch.Tensor:
        compared.append(logits)
        return logits.sum()

    training._compare = comparing(compare)
    training._loss(training._read([0]), counts=True)
    # Position t is before token t + 2 of the answer, and t from 1 on. The whole model computes in bfloat16 here.
    expected_here = torch.stack(expected)[:, IDS]
    assert_same(compared[0][[1, 3]], expected_here, atol=0.6)
    plain = expected_here / rows.logit_map.scale
    assert (plain.log_softmax(-1) - expected_here.log_softmax(-1)).abs().max() > 3


def test_rows_are_those_at_the_places() -> None:
    model = Scaled("phi")
    _, rows = frozen_rows(model, np.arange(SIZE))
    rows = dataclasses.replace(rows, logit_map=dataclasses.replace(rows.logit_map, scale=0.5, cap=3.0))
    states = torch.randn(2, 5, 32)
    torch.testing.assert_close(rows.select(torch.from_numpy(IDS))(states), rows(states)[..., IDS])
    assert len(rows.select(torch.from_numpy(IDS))) == len(IDS)
    layer = model.model.get_output_embeddings()
    wanted = 3 * torch.tanh(0.5 * (states @ layer.weight.T + layer.bias) / 3)
    torch.testing.assert_close(rows(states), wanted)
