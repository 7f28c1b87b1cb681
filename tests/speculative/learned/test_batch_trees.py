"""Learned drafters draft trees in a running batch: the texts stay the same, and drafts are accepted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

import structgen as sg  # noqa: E402
from structgen.draft_training.unrolling import unrolled  # noqa: E402
from structgen.generation import SamplingOptions, generate_tokens  # noqa: E402
from structgen.generation.continuous_batch import ContinuousBatch  # noqa: E402
from structgen.matcher import Matcher  # noqa: E402
from structgen.speculative import Fixed, Speculation  # noqa: E402
from structgen.speculative.learned import DraftWeights, Eagle  # noqa: E402
from structgen.speculative.learned.eagle import EagleNetwork  # noqa: E402
from tests.models.tiny import SIZE  # noqa: E402
from tests.speculative.test_batch_drafts import batch_of, row_of, run  # noqa: E402
from tests.speculative.tiny_sessions import VOCABULARY, Model  # noqa: E402

from . import test_eagle, test_heads  # noqa: E402

PROMPTS = [[5, 6, 7, 5, 6, 7, 5, 6], [9, 9, 9, 9], [3, 4, 5, 6, 3, 4], [7, 8], [9, 9, 9]]
CONSTRAINTS: list[Any] = [
    None,
    sg.regex("(abc|abd){3,12}"),
    sg.regex("[a-z]{5,40}"),
    sg.regex("(abcde|abdef|xyzab){3,12}"),
    None,
]


def matcher(constraint: Any) -> Any:
    return None if constraint is None else Matcher(constraint, VOCABULARY)


def random_drafter(kind: str) -> Any:
    if kind == "eagle":
        return Eagle(test_eagle.random_weights(), least=0.0, width=2)
    weights = test_heads.random_weights(test_heads.DESIGNS[kind])
    return test_heads.drafter_of(weights, least=0.0, width=2)


def rows_of(options: list[SamplingOptions]) -> list[Any]:
    rows = []
    for number, (prompt, constraint, one) in enumerate(zip(PROMPTS, CONSTRAINTS, options, strict=True)):
        rows.append(row_of(number, matcher(constraint), one, VOCABULARY))
        rows[-1].prompt = list(prompt)
    return rows


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize(
    ("name", "kind"),
    [("llama", "eagle"), ("gpt2", "eagle"), ("lfm2", "eagle"), ("llama", "medusa"), ("llama", "hydra++")],
)
def test_a_running_batch_draws_the_same_tokens(name: str, kind: str, temperature: float) -> None:
    model: Any = Model(name)
    options = [
        SamplingOptions(temperature=temperature, seed=row, max_tokens=30, exact_weight=row % 2 == 0)
        for row in range(len(PROMPTS))
    ]
    plain = [
        generate_tokens(model, [prompt], [matcher(constraint)], one)[0]
        for prompt, constraint, one in zip(PROMPTS, CONSTRAINTS, options, strict=True)
    ]
    speculation = Speculation([random_drafter(kind)], controller=Fixed(6), branching=True)
    rows = rows_of(options)
    model.trees = 0
    run(batch_of(model, speculation, 1, 0.2), rows, 2, None)
    for row, one in zip(rows, plain, strict=True):
        assert row.tokens == one.tokens
        if one.log_weight is not None:
            assert row.log_weight == pytest.approx(one.log_weight, rel=1e-4, abs=1e-3)
        assert row.drafted_tokens > len(row.tokens) // 2
    assert model.trees > 0


def test_threads_draw_the_same_tokens() -> None:
    """Rows find their drafts on threads of their own; with this little patience others go on before they have."""
    model: Any = Model("llama")
    options = [SamplingOptions(temperature=1.0, seed=row, max_tokens=40) for row in range(len(PROMPTS))]
    plain = [
        generate_tokens(model, [prompt], [matcher(constraint)], one)[0].tokens
        for prompt, constraint, one in zip(PROMPTS, CONSTRAINTS, options, strict=True)
    ]
    speculation = Speculation([random_drafter("eagle")], controller=Fixed(6), branching=True)
    for patience in (1e-4, 1e-3, 10.0):
        batch = ContinuousBatch(model, most_rows=4, patience=patience, drafting=speculation.start(model))
        rows = rows_of(options)
        for row in rows:
            batch.add([row])
        for _ in range(20_000):
            batch.step()
            if batch.is_idle:
                break
        batch.close()
        assert [row.tokens for row in rows] == plain


def trained_eagle(model: Model, texts: list[list[int]]) -> DraftWeights:
    """An EAGLE drafter that was trained on texts of one length, for two steps ahead."""
    torch.manual_seed(0)
    sizes, steps = test_eagle.SIZES, 2
    network = EagleNetwork(sizes)
    optimiser = torch.optim.Adam(network.parameters(), lr=0.01)
    ids = torch.tensor(texts)
    head = model.model.get_output_embeddings().weight.detach()
    with torch.no_grad():
        output = model.model(input_ids=ids, output_hidden_states=True)
        embeddings = model.model.get_input_embeddings()(ids[:, 1:-1])
    states = torch.stack([output.hidden_states[layer] for layer in sizes.hidden_layers], dim=2)
    states = states[:, : ids.shape[1] - steps - 1]
    for _ in range(120):
        loss = torch.zeros(())
        for step, outputs in enumerate(unrolled(network, states, embeddings, steps)):
            logits = network.predicted(outputs) @ head.T
            targets = ids[:, step + 2 :][:, : logits.shape[1]]
            loss = loss + torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return test_eagle.random_weights(token_ids=np.arange(SIZE), tensors=network.state_dict())


@pytest.mark.parametrize("kind", ["eagle", "hydra"])
def test_drafts_that_were_learned_are_accepted(kind: str) -> None:
    """The drafters know the texts by heart. With states of other tokens they would be wrong."""
    model: Any = Model("llama")
    prompts = [[5, 9, 3, 17, 8], [21, 4, 33, 6, 7]]
    options = SamplingOptions(temperature=1.0, seed=1, max_tokens=40)
    texts = [[*prompt, *generate_tokens(model, [prompt], [None], options)[0].tokens] for prompt in prompts]
    assert all(len(set(text[5:])) > 12 for text in texts)  # no repetitions
    if kind == "eagle":
        drafter: Any = Eagle(trained_eagle(model, texts), least=0.0, width=2)
    else:
        del prompts[1], texts[1]
        weights = test_heads.trained(model, test_heads.HYDRA, [*texts[0], *[2] * 5], len(prompts[0]))
        drafter = test_heads.drafter_of(weights, width=2)
    speculation = Speculation([drafter], controller=Fixed(6), branching=True)
    rows = []
    for number, prompt in enumerate([*prompts, *prompts]):
        rows.append(row_of(number, None, options, VOCABULARY))
        rows[-1].prompt = list(prompt)
    batch = batch_of(model, speculation, 0, 0.0)
    model.trees = 0
    run(batch, rows, 0, None)
    assert [row.tokens for row in rows] == [text[5:] for text in [*texts, *texts]]
    assert model.trees > 5
    assert batch.counts.accepted > 0.5 * sum(len(row.tokens) for row in rows)
