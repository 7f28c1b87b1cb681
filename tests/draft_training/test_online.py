"""Drafters that learn while they serve: they get better on a shifted stream, stay within bounds, and fail softly."""

from __future__ import annotations

import dataclasses
import pickle
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from structgen.draft_training.features import LONGEST  # noqa: E402
from structgen.draft_training.online import OnlineDrafter  # noqa: E402
from structgen.draft_training.output_rows import OutputRows  # noqa: E402
from structgen.draft_training.recipes import Recipe, train_drafter  # noqa: E402
from structgen.errors import ModelError, OptionError  # noqa: E402
from structgen.generation import SamplingOptions, generate_tokens  # noqa: E402
from structgen.generation.continuous_batch import ContinuousBatch  # noqa: E402
from structgen.generation.distributions import allowed_ids  # noqa: E402
from structgen.generation.drafting import RowStates  # noqa: E402
from structgen.speculative import (  # noqa: E402
    Fixed,
    Rejection,
    Speculation,
    SpeculationWarning,
    Start,
    TokenLookup,
)
from structgen.speculative.drafters import Context  # noqa: E402
from structgen.speculative.learned import AcceptanceHead, Eagle, Hydra, learned_drafter  # noqa: E402
from tests.draft_training.test_training import OPTIONS, Tiny, repeated  # noqa: E402
from tests.oracles.naive_matcher import NaiveMatcher  # noqa: E402
from tests.speculative.test_batch_drafts import LateThreads, row_of, run  # noqa: E402
from tests.speculative.tiny_sessions import DEAD, NAIVE, VOCABULARY  # noqa: E402

PROMPTS = [[20 + index, 9, 30] for index in range(3)]


def answer(model: Tiny, number: int, speculation: Speculation | None) -> Any:
    options = SamplingOptions(temperature=0.0, max_tokens=30)
    drafting = None if speculation is None else speculation.start(model)
    (found,) = generate_tokens(model, [PROMPTS[number % len(PROMPTS)]], [None], options, drafting=drafting)
    return found


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Tiny, Any]:
    model, features = repeated(tmp_path_factory.mktemp("states"))
    weights, _ = train_drafter(
        model, features, Recipe("eagle", 64, options=dataclasses.replace(OPTIONS, epochs=3))
    )
    return model, dataclasses.replace(weights, token_ids=np.arange(2, 48))


def acceptance(model: Tiny, online: OnlineDrafter, texts: int) -> float:
    speculation = Speculation([online], controller=Fixed(3))
    drafted = accepted = 0
    for number in range(texts):
        found = answer(model, number, speculation)
        assert found.tokens == answer(model, number, None).tokens
        drafted, accepted = drafted + found.drafted_tokens, accepted + found.accepted_tokens
    return accepted / drafted


@pytest.mark.parametrize("background", [False, True])
def test_acceptance_grows_on_a_shifted_stream(trained: tuple[Tiny, Any], background: bool) -> None:
    model, weights = trained
    online = OnlineDrafter(
        Eagle(weights, least=0.0), every=3, steps=30, learning_rate=3e-3, background=background
    )
    before = acceptance(model, online, 3)
    for _ in range(4):
        acceptance(model, online, 6)
        online.wait()
    updates = online.updates
    assert updates >= 3
    assert acceptance(model, online, 3) > before + 0.1
    online.wait()
    assert not torch.equal(online.drafter.weights.tensors["fuse.weight"], weights.tensors["fuse.weight"])
    again = pickle.loads(pickle.dumps(online))
    assert again.updates >= updates and again.every == 3
    assert acceptance(model, again, 3) > before + 0.1


def test_the_buffer_is_bounded(trained: tuple[Tiny, Any]) -> None:
    model, weights = trained
    online = OnlineDrafter(Eagle(weights, least=0.0), every=1000, most_bytes=20_000)
    for number in range(9):
        answer(model, number, Speculation([online], controller=Fixed(3)))
    assert 0 < online._bytes <= 20_000
    assert online._bytes == sum(seen.size for seen in online._buffer)
    assert len(online._buffer) < 9


def test_numbers_that_are_not_finite_end_the_learning_only(trained: tuple[Tiny, Any]) -> None:
    model, weights = trained
    online = OnlineDrafter(Eagle(weights, least=0.0), every=2, background=False)
    acceptance(model, online, 1)
    states = torch.full((30, 2, 32), torch.nan)
    with pytest.warns(SpeculationWarning, match="stops learning"):
        online.add(list(range(2, 32)), states, 2)
    assert online.updates == 0
    assert all(torch.isfinite(tensor).all() for tensor in online.drafter.weights.tensors.values())
    acceptance(model, online, 4)


def test_what_was_learned_is_about_the_text_that_was_kept(trained: tuple[Tiny, Any], tmp_path: Path) -> None:
    """The states in the buffer are those of a plain pass over the tokens there."""
    model, weights = trained
    online = OnlineDrafter(Eagle(weights, least=0.0), every=1000)
    answer(model, 0, Speculation([online], controller=Fixed(3)))
    (text,) = online._buffer
    assert text.tokens[:3].tolist() == PROMPTS[0] and len(text.tokens) > 20
    check_states(model, online)


def check_states(model: Tiny, online: OnlineDrafter) -> None:
    """Compare the states in the buffer with those of a plain pass; texts there start with their prompts."""
    layers = online.hidden_layers(model.layer_count)
    for text in online._buffer:
        np.testing.assert_allclose(
            text.states, plain_states(model, text.tokens.tolist(), layers), rtol=5e-3, atol=5e-3
        )


def plain_states(model: Tiny, tokens: list[int], layers: tuple[int, ...]) -> torch.Tensor:
    with torch.inference_mode():
        output = model.model(input_ids=torch.tensor([tokens]), output_hidden_states=True)
    return torch.stack([output.hidden_states[layer][0] for layer in layers], dim=1)


@pytest.mark.parametrize("branching", [False, True])
def test_states_of_rows_that_step_back_in_a_running_batch(trained: tuple[Tiny, Any], branching: bool) -> None:
    model, weights = trained
    online = OnlineDrafter(Eagle(weights, least=0.0), every=1000)
    speculation = Speculation([online], controller=Fixed(6), branching=branching)
    batch: Any = ContinuousBatch(
        model, most_rows=3, patience=1e6, prompt_tokens=5, drafting=speculation.start(model)
    )
    batch.close()
    batch._threads = LateThreads(3, 0.3)
    rows = []
    for number in range(6):
        matcher = NaiveMatcher([b"ab", b"abc", b"ba"], NAIVE, DEAD) if number % 2 else None
        options = SamplingOptions(temperature=1.5, seed=(4, number), max_tokens=14, forced=bool(number % 2))
        rows.append(row_of(number, matcher, options, VOCABULARY))
        rows[-1].prompt = list(PROMPTS[number % 3])
    run(batch, rows, 1, None)
    assert sum(row.retries for row in rows) > 0 and batch.counts.accepted > 0
    assert len(online._buffer) >= 4
    check_states(model, online)
    check_masks(online)


def check_masks(online: OnlineDrafter) -> None:
    """Compare the masks in the buffer with those of a matcher that reads the texts again; prompts have three tokens."""
    choices, constrained = 0, [text for text in online._buffer if text.masks is not None]
    for text in constrained:
        matcher = NaiveMatcher([b"ab", b"abc", b"ba"], NAIVE, DEAD)
        assert text.masks is not None
        ids = online.drafter.weights.token_ids
        for number, row in enumerate(text.masks.allowed(len(ids))):
            wanted = set(allowed_ids(matcher.mask(), NAIVE.size).tolist())
            is_known = number > 0 and len(wanted) > 1  # the first token is drawn before the drafter starts
            assert set(ids[row].tolist()) == (wanted & set(ids.tolist()) if is_known else set())
            assert matcher.advance(int(text.tokens[3 + number]))
            choices += is_known
    assert choices > 0 and len(constrained) < len(online._buffer)


@pytest.mark.parametrize("count", [20, LONGEST + 20])
def test_tokens_that_were_replaced_after_the_last_draft_are_left_out(
    count: int, trained: tuple[Tiny, Any]
) -> None:
    model, weights = trained
    online = OnlineDrafter(Eagle(weights, least=0.0), every=1000)
    layers = online.hidden_layers(model.layer_count)
    tokens = [2 + place * place % 30 for place in range(count)]
    states = plain_states(model, tokens, layers)
    row = online.start(Start(tuple(tokens[:5]), model.vocabulary, model=model))
    row.observe(tokens, 5)
    hidden = RowStates(states, layers, count - 1)
    list(row.propose(Context(tokens, None, model.vocabulary, is_constrained=False, hidden=hidden)))
    ended = [*tokens[:-5], 40, 41, 42, 43, 44, 45]
    row.finish(ended)
    (text,) = online._buffer
    end = count - 5
    first = max(0, count - 1 - LONGEST)
    assert text.tokens.tolist() == ended[first:end] and text.prompt == max(0, 5 - first)
    np.testing.assert_allclose(text.states, states[first:end], rtol=5e-3, atol=5e-3)


def test_texts_whose_drafts_the_verifier_draws_are_kept(trained: tuple[Tiny, Any]) -> None:
    """Such a verifier calls `distribution` and not `propose`."""
    model, weights = trained
    online = OnlineDrafter(Eagle(weights, least=0.0), every=1000)
    answer(model, 0, Speculation([online], controller=Fixed(3), verifier=Rejection()))
    assert len(online._buffer) == 1
    check_states(model, online)


def test_long_texts_and_texts_beyond_the_bound(trained: tuple[Tiny, Any]) -> None:
    model, weights = trained
    online = OnlineDrafter(Eagle(weights, least=0.0), every=1000, most_bytes=100_000)
    acceptance(model, online, 1)
    count = len(online._buffer)
    online.add([5] * 3000, torch.ones(3000, 2, 32), 10)  # cut to its last tokens
    assert len(online._buffer) == count + 1 and len(online._buffer[-1].tokens) < 1000
    kept = list(online._buffer)
    online.add([5] * 400, torch.ones(400, 2, 4096), 10)  # larger than the whole buffer
    assert list(online._buffer) == kept


@pytest.mark.parametrize("heads", [2, 4])
def test_heads_of_any_number_learn(heads: int, trained: tuple[Tiny, Any], tmp_path: Path) -> None:
    model, features = repeated(tmp_path)
    options = dataclasses.replace(OPTIONS, epochs=1, steps_ahead=heads)
    weights, _ = train_drafter(model, features, Recipe("hydra", 64, options=options))
    online = OnlineDrafter(Hydra(weights, least=0.0), every=2, steps=2, background=False)
    acceptance(model, online, 4)
    assert online.updates >= 1


def test_its_rows_take_as_much_time_as_those_of_the_drafter(trained: tuple[Tiny, Any]) -> None:
    model, weights = trained
    start = Start(tuple(PROMPTS[0]), model.vocabulary, model=model)
    row = OnlineDrafter(Eagle(weights)).start(start)
    assert row.computes and row.name == "eagle"


def test_the_number_of_an_acceptance_head_counts_while_it_learns(trained: tuple[Tiny, Any]) -> None:
    model, weights = trained
    drafter = Eagle(weights, least=0.0, acceptance=AcceptanceHead(32))
    speculation = Speculation([OnlineDrafter(drafter, every=1000)], Rejection(), Fixed(3))
    answer(model, 0, speculation)
    assert any(kind.startswith("OnlineDrafter head drawn, ") for kind in speculation.tallies.known)


def test_only_learned_drafters_go_on_learning(trained: tuple[Tiny, Any]) -> None:
    with pytest.raises(OptionError, match="goes on training a learned drafter, and this is"):
        OnlineDrafter(TokenLookup())  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="it is an acceptance head or None"):
        Eagle(trained[1], acceptance=True)  # type: ignore[arg-type]


def test_texts_of_another_model_are_forgotten(trained: tuple[Tiny, Any]) -> None:
    """Their states would train the drafter for a model that has others."""
    model, weights = trained
    other = Tiny()
    online = OnlineDrafter(Eagle(weights), every=3, steps=2, background=False)
    online.start(Start(tuple(PROMPTS[0]), model.vocabulary, model=model))
    seen(online, 2)
    assert len(online._buffer) == 2
    online.start(Start(tuple(PROMPTS[0]), model.vocabulary, model=model))
    assert len(online._buffer) == 2
    online.start(Start(tuple(PROMPTS[0]), other.vocabulary, model=other))
    assert not online._buffer and not online._bytes
    seen(online, 3)
    assert online.updates == 1 and online._training.get(model) is None
    assert online._training.get(other) is not None


def seen(online: OnlineDrafter, texts: int) -> None:
    """Let texts end that are as long as those of `answer`."""
    for number in range(texts):
        online.add([2 + (number + place) % 30 for place in range(30)], torch.ones(30, 2, 32), 2)


@pytest.mark.parametrize("background", [False, True])
def test_new_weights_are_ready_before_a_text_uses_them(
    trained: tuple[Tiny, Any], background: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Texts that start meanwhile use the former weights at once, and no text makes anything of new ones."""
    model, weights = trained
    online = OnlineDrafter(Eagle(weights, least=0.0), every=3, steps=2, background=background)
    start = Start(tuple(PROMPTS[0]), model.vocabulary, model=model)
    online.start(start)
    former, fit, threads = online.drafter.prepare(model), learned_drafter.fit, []

    def watched(*given: Any, **options: Any) -> Any:
        threads.append(threading.current_thread())
        assert online.drafter.prepare(model) is former and online.drafter.weights is weights
        found = fit(*given, **options)
        assert online.drafter.prepare(model) is former and online.drafter.weights is weights
        return found

    monkeypatch.setattr(learned_drafter, "fit", watched)
    seen(online, 3)
    online.wait()
    assert online.updates == 1 and len(threads) == 1
    assert (threads[0] is threading.current_thread()) == (not background)
    online.start(start)
    ready = online.drafter.prepare(model)
    assert ready is not former and len(threads) == 1
    assert torch.equal(ready.network.output_norm.weight, online.drafter.weights.tensors["output_norm.weight"])
    assert not torch.equal(ready.network.output_norm.weight, former.network.output_norm.weight)


def test_weights_that_cannot_get_ready_are_not_used(
    trained: tuple[Tiny, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, weights = trained
    online = OnlineDrafter(Eagle(weights, least=0.0), every=3, steps=2, background=False)
    acceptance(model, online, 1)
    former = online.drafter.prepare(model)

    def failing(*given: Any, **options: Any) -> Any:
        raise ModelError("no memory is left")

    monkeypatch.setattr(learned_drafter, "fit", failing)
    with pytest.warns(SpeculationWarning, match="stops learning: no memory is left"):
        seen(online, 3)
    assert online.updates == 0
    assert online.drafter.prepare(model) is former and online.drafter.weights is weights


def test_little_is_kept_between_trainings(trained: tuple[Tiny, Any]) -> None:
    """No copy of the embeddings, no second copy of the texts, and no gradients."""
    model, weights = trained
    online = OnlineDrafter(Eagle(weights, least=0.0), every=3, steps=2, background=False)
    acceptance(model, online, 1)
    seen(online, 3)
    training = online._training.get(model)
    assert training is not None and online.updates == 1
    table = model.model.get_input_embeddings().weight
    tensors = [held for held in vars(training).values() if isinstance(held, torch.Tensor)]
    large = {held.data_ptr() for held in tensors if held.shape == table.shape}
    assert large == {table.data_ptr()}
    rows = {held.weight.data_ptr() for held in vars(training).values() if isinstance(held, OutputRows)}
    assert len(rows) == 1
    assert not training.features.states.nbytes and not training.features.tokens.nbytes
    assert training.features.states.base is None
    assert all(parameter.grad is None for parameter in training.network.parameters())
    seen(online, 3)
    assert online.updates == 2
