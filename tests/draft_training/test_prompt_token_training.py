"""Training of prompt tokens: the states that it reads, its gradients, and what the embeddings learn."""

from __future__ import annotations

import copy
import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from structgen.draft_training.features import compute_features  # noqa: E402
from structgen.draft_training.prompt_tokens import prompt_token_states  # noqa: E402
from structgen.draft_training.recipes import Recipe, layers_read, train_drafter  # noqa: E402
from structgen.draft_training.texts import Text  # noqa: E402
from structgen.draft_training.training import TrainingOptions  # noqa: E402
from structgen.errors import ModelError  # noqa: E402
from structgen.generation import SamplingOptions, generate_tokens  # noqa: E402
from structgen.models.packed import pack_linear  # noqa: E402
from structgen.speculative import Fixed, Speculation  # noqa: E402
from structgen.speculative.learned import load_drafter, save_weights  # noqa: E402
from tests.draft_training.test_training import Tiny, assert_interruption_changes_nothing  # noqa: E402
from tests.models.test_session_embeddings import plain  # noqa: E402
from tests.models.tiny import tiny_model  # noqa: E402

OPTIONS = TrainingOptions(
    epochs=150,
    minutes=2,
    batch=3,
    steps_ahead=2,
    held_out=0.1,
    patience=1000,
    validations=1,
    learning_rate=5e-2,
    loss="cross-entropy",
)


def some_embeddings(count: int = 3) -> Any:
    return torch.randn((count, 32), generator=torch.Generator().manual_seed(0)) * 0.5


@pytest.mark.parametrize("name", ["llama", "gpt2"])
def test_states_are_those_after_the_text_and_the_embeddings(name: str) -> None:
    model, embeddings = tiny_model(name), some_embeddings()
    texts = [[5, 9, 3, 17, 8, 4, 22], [7, 7, 2, 11, 3]]
    padded = torch.tensor([texts[0], [*texts[1], 0, 0]])
    positions = torch.tensor([[0, 3, 6], [4, 1, 0]])
    with torch.no_grad():
        states = prompt_token_states(model, padded, positions, embeddings)
        logits = model.get_output_embeddings()(states)
    assert states.shape == (2, 3, 3, 32)
    for row, tokens in enumerate(texts):
        for place, position in enumerate(positions[row].tolist()):
            expected = plain(name, tokens[: position + 1], embeddings)
            np.testing.assert_allclose(logits[row, place], expected, rtol=1e-3, atol=1e-3)


def test_gradients_are_those_of_one_pass_over_text_and_embeddings() -> None:
    model, tokens, direction = tiny_model("llama").requires_grad_(False), [5, 9, 3, 17], some_embeddings(2)
    found, expected = (some_embeddings(2).requires_grad_() for _ in range(2))
    states = prompt_token_states(model, torch.tensor([tokens]), torch.tensor([[3]]), found)
    (states[0, 0] * direction).sum().backward()
    own = model.get_input_embeddings()(torch.tensor(tokens))
    whole = model.base_model(inputs_embeds=torch.cat([own, expected])[None]).last_hidden_state
    (whole[0, 4:] * direction).sum().backward()
    torch.testing.assert_close(found.grad, expected.grad, rtol=1e-3, atol=1e-5)


def repeated(folder: Path) -> tuple[Tiny, Any]:
    """One text, several times: the share that is set apart is the text, too."""
    model = Tiny()
    (answer,) = generate_tokens(
        model, [[5, 6, 7]], [None], SamplingOptions(temperature=1.0, seed=3, max_tokens=10)
    )
    texts = [Text([5, 6, 7], answer.tokens, "text", 1.0)] * 6
    return model, compute_features(model, texts, folder / "states", layers_read(model), most_bytes=1 << 20)


def test_embeddings_learn_one_text_and_then_draft_it(tmp_path: Path) -> None:
    model, features = repeated(tmp_path)
    before = copy.deepcopy(model.model.state_dict())
    weights, training = train_drafter(model, features, Recipe("prompt-tokens", 64, options=OPTIONS))
    assert training.validations[-1][1].right[0] > max(0.7, training.validations[0][1].right[0])
    assert weights.tensors["embeddings"].shape == (2, 32)
    for name, tensor in model.model.state_dict().items():
        assert torch.equal(tensor, before[name])
    assert all(weight.requires_grad and weight.grad is None for weight in model.model.parameters())
    save_weights(weights, tmp_path / "weights")
    assert (tmp_path / "weights").stat().st_size < 100_000
    speculation = Speculation([load_drafter(tmp_path / "weights", width=1)], controller=Fixed(2))
    options = SamplingOptions(temperature=1.0, seed=3, max_tokens=10)
    (plainly,) = generate_tokens(model, [[5, 6, 7]], [None], options)
    (drafted,) = generate_tokens(model, [[5, 6, 7]], [None], options, drafting=speculation.start(model))
    assert drafted.tokens == plainly.tokens
    assert drafted.accepted_tokens > 0


def test_an_interrupted_training_goes_on(tmp_path: Path) -> None:
    model, features = repeated(tmp_path)
    options = dataclasses.replace(OPTIONS, epochs=2)
    recipe = Recipe("prompt-tokens", 64, options=options)
    resumed = assert_interruption_changes_nothing(model, features, recipe, tmp_path / "state", 3)
    assert [step for step, _ in resumed.validations] == [2, 4]
    other = Recipe("prompt-tokens", 64, options=dataclasses.replace(options, steps_ahead=3))
    with pytest.raises(ModelError, match="other options or other texts"):
        train_drafter(model, features, other, save=tmp_path / "state", resume=True)


def test_models_that_cannot_be_trained_through(tmp_path: Path) -> None:
    model, features = repeated(tmp_path)
    pack_linear(model.model)
    with pytest.raises(ModelError, match="packed for inference"):
        train_drafter(model, features, Recipe("prompt-tokens", 64, options=OPTIONS))
    recurrent = tiny_model("mamba")
    with pytest.raises(ModelError, match="MambaForCausalLM cannot read"):
        prompt_token_states(recurrent, torch.tensor([[5, 6]]), torch.tensor([[1]]), some_embeddings())
