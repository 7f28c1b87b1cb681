"""Logits of the model's own output layer are those of the model: scaled, bounded and with a bias where these are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from transformers import (  # noqa: E402
    AutoModelForCausalLM,
    CohereConfig,
    Gemma2Config,
    GraniteConfig,
    PhiConfig,
)

from structgen.errors import ModelError  # noqa: E402
from structgen.generation import SamplingOptions, generate_tokens  # noqa: E402
from structgen.speculative.controllers import Fixed  # noqa: E402
from structgen.speculative.learned import DEL, Medusa  # noqa: E402
from structgen.speculative.learned.heads import HeadSizes, HeadsNetwork  # noqa: E402
from structgen.speculative.learned.output_layers import LogitMap, logit_map_of  # noqa: E402
from structgen.speculative.learned.trimmed_head import trimmed_head  # noqa: E402
from structgen.speculative.learned.weights import DraftWeights  # noqa: E402
from structgen.speculative.speculation import Speculation  # noqa: E402
from tests.models.tiny import _COMMON, _DECODER, CONFIGS, SIZE, tiny_model  # noqa: E402
from tests.speculative.tiny_sessions import VOCABULARY, Model  # noqa: E402

_HEADS = {name: value for name, value in _DECODER.items() if name != "head_dim"}
ARCHITECTURES: dict[str, Any] = {
    "cohere": lambda: CohereConfig(**_COMMON, **_HEADS, logit_scale=0.25),
    "gemma2": lambda: Gemma2Config(**_COMMON, **_DECODER, final_logit_softcapping=2.0),
    "granite": lambda: GraniteConfig(**_COMMON, **_HEADS, logits_scaling=8.0),
    "phi": lambda: PhiConfig(**_COMMON, **_HEADS),  # its output layer has a bias
}


def model_of(name: str, dtype: Any = torch.float32) -> Model:
    """A tiny model with other weights, so that logits are large and biases are not zero."""
    found = Model("llama")
    torch.manual_seed(3)
    found.model = AutoModelForCausalLM.from_config(ARCHITECTURES[name](), dtype=dtype).eval()
    with torch.no_grad():
        for parameter in found.model.parameters():
            parameter.mul_(4).add_(0.3 * torch.randn_like(parameter))
    return found


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", list(ARCHITECTURES))
def test_logits_are_those_of_the_model(name: str, dtype: Any) -> None:
    model, ids = model_of(name, dtype), np.arange(3, 20)
    with torch.inference_mode():
        output = model.model(input_ids=torch.tensor([[5, 9, 3, 17]]), output_hidden_states=True)
        states, wanted = output.hidden_states[-1][0], output.logits[0].float().numpy()
        plain = states.float() @ model.model.get_output_embeddings().weight.float().T
        found = np.array([one.logits for one in trimmed_head(model, ids).scores(states)])
    tolerance = 1e-4 if dtype == torch.float32 else 0.05
    np.testing.assert_allclose(found, wanted[:, ids], rtol=tolerance, atol=tolerance)
    assert np.abs(plain.numpy() - wanted).max() > 0.3  # the weights alone are not enough
    assert (logit_map_of(model.model).cap == 2) == (name == "gemma2")


@pytest.mark.parametrize("name", list(ARCHITECTURES))
def test_a_head_that_changes_nothing_has_the_models_distribution(name: str) -> None:
    sizes = HeadSizes(hidden=32, layer=2, count=2)
    network = HeadsNetwork(sizes)
    weights = DraftWeights(
        "medusa", sizes.as_dict(), VOCABULARY.fingerprint, np.arange(SIZE), network.state_dict()
    )
    model = model_of(name)
    with torch.inference_mode():
        output = model.model(input_ids=torch.tensor([[5, 9, 3, 17]]), output_hidden_states=True)
        (scores,) = Medusa(weights).prepare(model).head.scores(output.hidden_states[-1][0, -1:])
    np.testing.assert_allclose(scores.logits, output.logits[0, -1], rtol=1e-4, atol=1e-4)


def test_early_exits_use_it() -> None:
    model, drafter = model_of("granite"), DEL(exits=[1])
    parts = drafter._fit(model)
    with torch.inference_mode():
        output = model.model(input_ids=torch.tensor([[5, 9, 3]]), output_hidden_states=True)
        (scores,) = parts.head.scores(output.hidden_states[-1][0, -1:])
    np.testing.assert_allclose(scores.logits, output.logits[0, -1], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", [name for name in CONFIGS if name != "roberta"])
def test_other_architectures(name: str) -> None:
    found = logit_map_of(tiny_model(name))
    assert found.cap == (30.0 if name == "recurrent_gemma" else None)
    if name in ("llama", "gpt2", "mamba"):
        assert found == LogitMap()


def test_models_that_do_something_else_are_refused() -> None:
    with pytest.raises(ModelError, match="logits of RobertaForCausalLM do not follow"):
        logit_map_of(tiny_model("roberta"))


def test_texts_are_the_same() -> None:
    model, options = model_of("gemma2"), SamplingOptions(temperature=1.0, seed=3, max_tokens=12)
    sizes = HeadSizes(hidden=32, layer=2, count=2)
    tensors = HeadsNetwork(sizes).state_dict()
    weights = DraftWeights("medusa", sizes.as_dict(), VOCABULARY.fingerprint, np.arange(SIZE), tensors)
    speculation = Speculation([Medusa(weights)], controller=Fixed(2))
    found, plain = (
        generate_tokens(model, [[5, 6, 7]], [None], options, drafting=drafting)  # type: ignore[arg-type]
        for drafting in (speculation.start(model), None)  # type: ignore[arg-type]
    )
    assert found[0].tokens == plain[0].tokens and found[0].drafted_tokens > 0
