"""`DEL`: exit and length maximise tokens per time; logits and counts are those of a plain forward pass."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

import structgen as sg  # noqa: E402
from structgen.errors import ModelError, OptionError  # noqa: E402
from structgen.generation import SamplingOptions, generate_tokens  # noqa: E402
from structgen.generation.drafting import RowStates  # noqa: E402
from structgen.matcher import Matcher  # noqa: E402
from structgen.models import with_processors  # noqa: E402
from structgen.models.session import start_session  # noqa: E402
from structgen.speculative.controllers import Fixed  # noqa: E402
from structgen.speculative.drafters import Context, Start, TokenLookup  # noqa: E402
from structgen.speculative.guarded import SpeculationWarning, hidden_layers_of  # noqa: E402
from structgen.speculative.learned import DEL  # noqa: E402
from structgen.speculative.learned.dynamic_exit import Acceptances, ExitCosts, best_exit  # noqa: E402
from structgen.speculative.speculation import Speculation  # noqa: E402
from structgen.speculative.verifiers import Rejection  # noqa: E402
from tests.models.tiny import SIZE  # noqa: E402
from tests.speculative.deep_models import LAYERS, DeepModel  # noqa: E402
from tests.speculative.tiny_sessions import VOCABULARY, Model  # noqa: E402

PROMPTS = [[5, 6, 7, 5, 6, 7, 5, 6], [9, 9, 9, 9], [3, 4, 5, 6, 3, 4]]
CHEAP = ExitCosts(layer=0.1, head=0.01, token=0.0)
"""Times with which drafting pays at any exit that is right often enough."""


def tokens_per_time(rate: float, layers: int, length: int, costs: ExitCosts) -> float:
    """The expected number of tokens, summed over the number of accepted ones, per time."""
    tokens = (1 + length) * rate**length
    for accepted in range(length):
        tokens += (1 + accepted) * rate**accepted * (1 - rate)
    return tokens / (1 + length * (layers * costs.layer + costs.head + costs.token))


@pytest.mark.parametrize("seed", range(30))
def test_the_choice_against_all_others(seed: int) -> None:
    rng = np.random.default_rng(seed)
    exits = sorted(int(i) for i in rng.choice(np.arange(1, 30), size=5, replace=False))
    counts = Acceptances(np.full(5, 0.5), 0.9)
    counts.note(rng.random((40, 5)) < np.sort(rng.random(5)))
    rates = counts.rates()
    costs = ExitCosts(layer=rng.uniform(0.005, 0.03), head=rng.uniform(0, 0.2), token=rng.uniform(0, 0.05))
    most = int(rng.integers(1, 9))
    every = [
        (tokens_per_time(float(rates[index]), exits[index], length, costs), index, length)
        for index in range(5)
        for length in range(most + 1)
    ]
    index, length = best_exit(rates, exits, costs, most)
    assert tokens_per_time(float(rates[index]), exits[index], length, costs) == pytest.approx(max(every)[0])


def test_an_exit_that_is_always_or_never_right() -> None:
    costs = ExitCosts(layer=0.03, head=0.05)
    assert best_exit(np.array([0.0, 1.0, 1.0]), (5, 10, 20), costs, 6) == (1, 6)
    assert best_exit(np.array([0.0, 0.1, 0.2]), (5, 10, 20), costs, 6)[1] == 0


def test_counts_decay_and_start_from_those_of_all_rows() -> None:
    prior = np.array([0.2, 0.8])
    right = np.random.default_rng(0).random((12, 2)) < 0.5
    both = Acceptances(prior, 0.9)
    row = Acceptances(both, 0.9)
    row.note(right[:5])
    row.note(right[5:])
    weights = 0.9 ** np.arange(12)[::-1]
    shared = ((weights @ right) + 4 * prior) / (weights.sum() + 4)
    np.testing.assert_allclose(both.rates(), shared)
    np.testing.assert_allclose(row.rates(), ((weights @ right) + 4 * shared) / (weights.sum() + 4))
    np.testing.assert_allclose(Acceptances(both, 0.9).rates(), shared)


def logits_of(model: Model, tokens: list[int], layer: int, drafter: DEL) -> np.ndarray:
    """The logits at an exit after each token, from one forward pass."""
    with torch.inference_mode():
        states = model.model(input_ids=torch.tensor([tokens]), output_hidden_states=True).hidden_states[layer]
        logits = model.model.get_output_embeddings()(model.model.model.norm(states[0]))
    ids = np.arange(SIZE) if drafter.token_ids is None else drafter.token_ids
    return np.asarray(logits)[:, ids]


@pytest.mark.parametrize("trimmed", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_logits_and_counts_after_any_sequence_of_operations(seed: int, trimmed: bool) -> None:
    rng = np.random.default_rng(seed)
    ids = np.sort(rng.choice(SIZE, size=20, replace=False)) if trimmed else None
    model, drafter = DeepModel(), DEL(token_ids=ids, every=2, costs=CHEAP, least=0.0, width=2)
    tokens = [int(i) for i in rng.integers(2, SIZE, size=5)]
    exits = drafter.hidden_layers(LAYERS)
    session: Any = start_session(model.model, SIZE, [[3] * 9, tokens], exits)
    row: Any = drafter.start(Start(tuple(tokens), VOCABULARY, model=model))
    noted: list[np.ndarray] = []
    row._counts.note = noted.append
    seen, prompt, checked = len(tokens), len(tokens), 0
    for _ in range(16):
        if rng.random() < 0.25 and len(tokens) > prompt + 3:  # a step back
            n = int(rng.integers(1, 4))
            del tokens[len(tokens) - n :]
            session.rollback(1, max(0, len(session._tokens[1]) - len(tokens)))
            seen = min(seen, len(tokens))
        pending = [int(i) for i in rng.integers(2, SIZE, size=rng.integers(0, 4))]
        tokens += pending
        row.observe(tokens, seen)
        seen, read = len(tokens), max(len(tokens) - len(pending), len(session._tokens[1]))
        session.append([[4], tokens[len(session._tokens[1]) : read]])
        rates = rng.random(len(exits))
        row._counts.rates = lambda rates=rates: rates
        index, length = best_exit(rates, exits, CHEAP, drafter.most)
        for draft in ([], [7], [8], [7, 9], [7, 9, 2, 3]):
            context = Context([*tokens, *draft], None, VOCABULARY, drafted=len(draft), is_constrained=False)
            context.hidden = RowStates.of(session, 1, exits, read)
            found = row._known(context)
            assert (found is not None) == (len(draft) < length)
            if found is not None:
                wanted = logits_of(model, context.tokens, exits[index], drafter)[-1]
                np.testing.assert_allclose(found.logits, wanted, rtol=2e-3, atol=2e-3)
                assert next(iter(row.propose(context))).kind.startswith(f"exit {exits[index]} 0")
                checked += 1
        for right in noted:
            last = row._looked
            best = [logits_of(model, tokens, exit_, drafter).argmax(1) for exit_ in exits]
            drafted = np.arange(SIZE) if ids is None else ids
            for position, one in zip(range(last - len(right), last), right, strict=True):
                assert position >= prompt - 1
                assert [drafted[of[position]] == tokens[position + 1] for of in best] == list(one)
        noted.clear()
    assert checked > 10


@pytest.mark.parametrize("verifier", [None, Rejection()])
@pytest.mark.parametrize("temperature", [0, 0.7])
@pytest.mark.parametrize("idle", [2, LAYERS])
def test_the_same_tokens_with_and_without_drafts(temperature: float, idle: int, verifier: Any) -> None:
    model = DeepModel(idle=idle, quiet=1)
    options = SamplingOptions(temperature=temperature, seed=3, max_tokens=40)
    constraints = [sg.regex("[a-z]{5,60}"), None, sg.regex("(abc|abd){3,12}")]

    def drawn(drafting: Any) -> list[Any]:
        matchers = [None if one is None else Matcher(one, VOCABULARY) for one in constraints]
        return generate_tokens(model, PROMPTS, matchers, options, drafting=drafting)  # type: ignore[arg-type]

    drafter = DEL(every=2, least=0.0, costs=CHEAP)
    arguments = {} if verifier is None else {"verifier": verifier}
    speculation = Speculation((drafter, TokenLookup()), controller=Fixed(5), **arguments)
    found, plain = drawn(speculation.start(model)), drawn(None)
    assert not any(record.failed for record in speculation.records)
    accepted = dict.fromkeys("123", 0)
    for kind, counts in speculation.tallies.known.items():
        for exit_ in accepted:
            accepted[exit_] += counts[2] * (f"exit {exit_} " in kind)
    if idle < LAYERS and not temperature and verifier is None:
        assert (
            max(accepted, key=accepted.__getitem__) == "2"
        )  # layer 1 is right less often, layer 3 costs more
    if idle < LAYERS:
        assert speculation.counts["accepted"] > 20
    if verifier is None or not temperature:
        assert [one.tokens for one in found] == [one.tokens for one in plain]


def test_looks_become_rarer_while_no_exit_pays() -> None:
    model, drafter = DeepModel(), DEL(every=2, costs=ExitCosts(layer=1.0, head=1.0))
    speculation = Speculation((drafter,), controller=Fixed(5))
    assert hidden_layers_of((drafter,), model) == (1, 2, 3)  # type: ignore[arg-type]
    parts = drafter._fit(model)
    drafter._ready.set(model, parts)
    looks: list[int] = []
    parts.counts.note = lambda right: looks.append(len(right))  # type: ignore[method-assign]
    options = SamplingOptions(seed=3, max_tokens=40)
    drafting: Any = speculation.start(model)  # type: ignore[arg-type]
    (found,) = generate_tokens(model, PROMPTS[:1], [None], options, drafting=drafting)  # type: ignore[arg-type]
    assert len(found.tokens) == 40 and looks == [1, 4, 4, 4] and speculation.counts["drafted"] == 0


def test_costs_are_those_of_the_weights() -> None:
    model = DeepModel()
    layers = sum(parameter.numel() for parameter in model.model.model.layers[0].parameters())
    head = SIZE * 32
    for ids, drafted in ((None, SIZE), (range(2, 12), 10)):
        costs = DEL(token_ids=ids)._fit(model).costs
        assert costs.layer == pytest.approx(layers / (LAYERS * layers + head))
        assert costs.head == pytest.approx(drafted * 32 / (LAYERS * layers + head))


def test_models_whose_layers_cannot_run_alone() -> None:
    start = Start((5,), VOCABULARY, model=Model("gpt2"))
    with pytest.raises(ModelError, match="cannot run alone"):
        DEL().start(start)
    mistral = Model("mistral")  # its layers have the names, and a sliding window
    options = SamplingOptions(seed=3, max_tokens=8)
    plain = generate_tokens(mistral, PROMPTS[:1], [None], options)  # type: ignore[arg-type]
    drafting: Any = Speculation((DEL(every=1, costs=CHEAP),), controller=Fixed(5)).start(mistral)  # type: ignore[arg-type]
    with pytest.warns(SpeculationWarning, match="cannot run alone"):
        found = generate_tokens(mistral, PROMPTS[:1], [None], options, drafting=drafting)  # type: ignore[arg-type]
    assert found[0].tokens == plain[0].tokens


@pytest.mark.parametrize(
    "options",
    [
        {"exits": []},
        {"exits": [0]},
        {"most": 0},
        {"every": 0},
        {"decay": 2},
        {"width": 0},
        {"token_ids": []},
        {"token_ids": [-1]},
    ],
)
def test_options_out_of_range(options: dict[str, Any]) -> None:
    with pytest.raises(OptionError):
        DEL(**options)


@pytest.mark.parametrize(
    ("options", "text"),
    [({"exits": [1, LAYERS]}, "no exit after layer 4"), ({"token_ids": [3, SIZE]}, "token_ids")],
)
def test_options_that_do_not_fit_the_model(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ModelError, match=text):
        DEL(**options).start(Start((5,), VOCABULARY, model=DeepModel()))


def test_models_with_processors() -> None:
    model: Any = DeepModel(idle=2)
    processed = with_processors(model, lambda tokens, logits: logits)
    options = SamplingOptions(temperature=0.0, max_tokens=20)
    speculation = Speculation((DEL(every=1, least=0.0, costs=CHEAP),), controller=Fixed(5))
    (found,) = generate_tokens(processed, PROMPTS[:1], [None], options, drafting=speculation.start(processed))
    (plain,) = generate_tokens(processed, PROMPTS[:1], [None], options)
    assert found.tokens == plain.tokens and speculation.counts["accepted"]
    assert not any(record.failed for record in speculation.records)


def test_drafters_can_be_pickled() -> None:
    drafter = DEL(exits=[2, 1], token_ids=[4, 3])
    model = DeepModel()
    drafter.start(Start((5,), VOCABULARY, model=model))
    copied = pickle.loads(pickle.dumps(drafter))
    assert copied.exits == (1, 2) and copied.token_ids.tolist() == [3, 4] and copied._ready.get(model) is None
