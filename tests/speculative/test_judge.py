"""Judge's probe: it reads the model's own states after draft tokens, and logistic regression separates what can be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

import structgen as sg  # noqa: E402
from structgen.draft_training.probes import train_judge  # noqa: E402
from structgen.errors import OptionError  # noqa: E402
from structgen.generation import SamplingOptions, generate_tokens  # noqa: E402
from structgen.matcher import Matcher  # noqa: E402
from structgen.speculative import Fixed, Judge, Proposal, Speculation  # noqa: E402
from structgen.speculative.drafters import Context  # noqa: E402

from .letters import SilentDrafter  # noqa: E402
from .tiny_sessions import VOCABULARY, Model  # noqa: E402


class Counting(SilentDrafter):
    """Proposes the token after the last one."""

    hidden_layers = (1,)

    def propose(self, context: Context) -> Any:
        return [Proposal(((context.tokens[-1] + 1) % 20 + 2,), "next", 0.9)]


class Comparing:
    """Refuses every token, and compares the states with those of a plain pass."""

    is_lossy, drafted = True, "any"

    def __init__(self, accepts: bool) -> None:
        self.seen: list[tuple[int, Any]] = []
        self.accepts = accepts

    def hidden_layers(self, count: int) -> tuple[int, ...]:
        return (count,)

    def accept(self, target: Any, children: Sequence[int], states: Any) -> int | None:
        assert states.shape[:2] == (len(children), 1)
        self.seen.append((children[0], states[0, 0].clone()))
        return children[0] if self.accepts else None


def run(model: Model, verifier: Any, constraint: Any = None, **options: Any) -> list[Any]:
    speculation = Speculation([Counting()], verifier, Fixed(3), allow_lossy=True)
    chosen = SamplingOptions(max_tokens=12, seed=3, **options)
    prompts = [[2, 3, 4, 5], [7, 8]]
    matchers = [None if constraint is None else Matcher(constraint, VOCABULARY) for _ in prompts]
    drafting: Any = speculation.start(model)
    return generate_tokens(model, prompts, matchers, chosen, drafting=drafting)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["llama", "gpt2"])
@pytest.mark.parametrize("accepts", [False, True])
def test_states_are_those_of_a_plain_pass(name: str, accepts: bool) -> None:
    model = Model(name)
    verifier = Comparing(accepts)
    rows = run(model, verifier, temperature=1.0)
    assert all(row.error is None for row in rows)
    states: list[Any] = []
    for prompt, row in zip([[2, 3, 4, 5], [7, 8]], rows, strict=True):
        for end in range(len(row.tokens)):
            before = [*prompt, *row.tokens[:end]]
            child = (before[-1] + 1) % 20 + 2
            with torch.inference_mode():
                output = model.model(input_ids=torch.tensor([[*before, child]]), output_hidden_states=True)
            states.append((child, output.hidden_states[-1][0, -1]))
    assert len(verifier.seen) > 10
    for token, seen in verifier.seen:
        assert any(
            token == child and torch.allclose(seen, state, rtol=1e-3, atol=2e-4) for child, state in states
        )


def test_a_judge_decides_and_the_constraint_holds() -> None:
    model = Model("llama")
    size = model.model.config.hidden_size
    everything, nothing = Judge(np.zeros(size), 5.0), Judge(np.zeros(size), -5.0)
    constraint = sg.regex("[a-k]{12}")
    plain = [row.tokens for row in run(model, nothing, constraint, temperature=0.0)]
    rows = run(model, everything, constraint, temperature=0.0)
    assert [row.tokens for row in rows] != plain
    for row in rows:
        assert row.finish == "complete" and len(row.text) == 12 and set(row.text) <= set("abcdefghijk")
        assert row.is_lossy and row.log_weight is None
    speculation = Speculation([Counting()], controller=Fixed(3))
    chosen = SamplingOptions(max_tokens=12, seed=3, temperature=0.0)
    drafting: Any = speculation.start(model)
    matcher = Matcher(constraint, VOCABULARY)
    exact = generate_tokens(model, [[2, 3, 4, 5]], [matcher], chosen, drafting=drafting)  # type: ignore[arg-type]
    assert plain[0] == exact[0].tokens


def test_a_probe_of_another_size_fails_clearly() -> None:
    rows = run(Model("llama"), Judge([1.0, 2.0]))
    assert all("the probe has 2 weights" in str(row.error) for row in rows)


@pytest.mark.parametrize("offset", [0.0, 40.0])
def test_training_separates_separable_positions(offset: float) -> None:
    random = np.random.default_rng(0)
    direction = random.normal(size=16)
    states = random.normal(size=(400, 16)) * random.uniform(0.1, 10, size=16) + offset
    scores = (states - offset) @ direction
    kept = np.abs(scores) > 3
    states, labels = states[kept].astype(np.float32), scores[kept] > 0
    judge = train_judge(states[::2], labels[::2], penalty=1e-4)
    assert ((judge.probabilities(states[1::2]) > 0.5) == labels[1::2]).mean() > 0.97
    assert ((judge.probabilities(torch.from_numpy(states[::2])) > 0.5) == labels[::2]).all()


def test_training_solves_logistic_regression() -> None:
    """At the optimum the gradient of the penalised loss is zero; with one feature of variance 1."""
    states = np.array([[-1.0], [-1.0], [1.0], [1.0]])
    labels = np.array([0, 1, 1, 1])
    judge = train_judge(states, labels, penalty=0.1, rejection_weight=2.0)
    errors = np.array([2, 1, 1, 1]) / 5 * (judge.probabilities(states) - labels)
    assert errors.sum() == pytest.approx(0, abs=1e-5)
    assert (errors * states[:, 0]).sum() + 0.1 * judge.weight[0] == pytest.approx(0, abs=1e-5)


@pytest.mark.parametrize(
    ("states", "labels", "message"),
    [
        (np.zeros((2, 3)), [1, 1], "both must occur"),
        (np.zeros((2, 3)), [0, 1, 1], "positions"),
        (np.full((2, 3), np.nan), [0, 1], "not finite"),
        (np.zeros((2, 3)), [0, 0.5], "labels are 0 and 1"),
    ],
)
def test_bad_training_data(states: Any, labels: Any, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        train_judge(states, labels)
