"""The masks that a drafter learns with are those that the tokens of its texts were drawn with."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

import structgen as sg  # noqa: E402
from structgen.draft_training.masks import TextMasks  # noqa: E402
from structgen.draft_training.online import OnlineDrafter  # noqa: E402
from structgen.draft_training.recipes import Recipe, train_drafter  # noqa: E402
from structgen.draft_training.served_masks import AnswerMasks, ServedMasks  # noqa: E402
from structgen.generation import SamplingOptions, generate_tokens  # noqa: E402
from structgen.generation.drafting import RowStates  # noqa: E402
from structgen.speculative import Fixed, Speculation, Start  # noqa: E402
from structgen.speculative.drafters import Context  # noqa: E402
from structgen.speculative.guarded import DrafterRecord, Guarded  # noqa: E402
from structgen.speculative.learned import Eagle  # noqa: E402
from tests.draft_training.test_training import OPTIONS, Tiny, repeated  # noqa: E402

FORCED = {"regex": "uvwxyz[k-m]uvwxyz[a-d][a-d]zyxwvuzyx[s-v]{3}uvwxyzxyz"}
"""Most of its tokens are forced: each of the letters from u on is one token."""
IDS = np.array([2, 3, 5, 7, 8, 9, 11, 13, 14])
SIZE = 20


def rows_of(masks: AnswerMasks) -> list[list[int]]:
    """Return the tokens that each mask allows."""
    return [IDS[row].tolist() for row in masks.allowed(len(IDS))]


def drafted(allowed: Sequence[int]) -> list[int]:
    """Return the tokens of a mask that may be drafted; none if the mask is no choice."""
    found = [token for token in IDS.tolist() if token in allowed]
    return found if len(found) > 1 else []


@given(st.data(), st.sampled_from([2, 4, 1000]))
def test_masks_of_a_row_that_steps_back(data: st.DataObject, longest: int) -> None:
    """A slow twin keeps a mask for each token of the text, and cuts the list where the row steps back."""
    served = ServedMasks(IDS, SIZE, longest)
    tokens: list[int] = []
    wanted: list[list[int] | None] = []
    for _ in range(data.draw(st.integers(0, 14))):
        drawn = [place for place, mask in enumerate(wanted) if mask is not None]
        action = data.draw(st.sampled_from(["draw", "force", "step back", "draw again"]))
        if action == "draw":
            allowed = sorted(data.draw(st.sets(st.integers(0, SIZE - 1), min_size=1)))
            served.note(tokens, np.array(allowed))
            wanted.append(allowed)
            tokens.append(data.draw(st.sampled_from(allowed)))
        elif action == "force":
            wanted.append(None)
            tokens.append(data.draw(st.integers(0, 3)))
        elif drawn:
            place = data.draw(st.sampled_from(drawn))
            token, mask = tokens[place], wanted[place]
            assert mask is not None
            del tokens[place:], wanted[place:]
            if action == "draw again":  # the model reads the text once more
                served.note(tokens, np.array(mask))
            tokens.append(token + SIZE)  # another one than before
            wanted.append(mask)
    found = rows_of(served.end([*tokens, 1], 0, len(tokens)))
    assert len(served._masks) < 2 * longest
    expected = [[] if mask is None else drafted(mask) for mask in wanted]
    if longest == 1000:
        assert found == expected
    else:
        assert all(row in ([], wanted) for row, wanted in zip(found, expected, strict=True))


def test_equal_masks_share_their_memory_and_the_last_ones_are_kept() -> None:
    served, tokens = ServedMasks(IDS, SIZE, 10), []
    for number in range(57):
        served.note(tokens, np.array([2, 3] if number % 2 else [7, 8, 9, 10]))
        tokens.append(number)
    found = served.end(tokens, 47, 57)
    assert found.kinds.shape == (2, 2) and found.nbytes == 4 + 4 * 10
    assert rows_of(found) == [[2, 3] if number % 2 else [7, 8, 9] for number in range(47, 57)]
    assert rows_of(found.since(7)) == rows_of(found)[7:] and found.has_choice
    assert not served.end(tokens, 0, 5).has_choice, "they were dropped"
    assert not served.end(tokens, 5, 5).has_choice


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Tiny, Any]:
    model, features = repeated(tmp_path_factory.mktemp("states"))
    options = dataclasses.replace(OPTIONS, epochs=1)
    weights, _ = train_drafter(model, features, Recipe("eagle", 64, options=options))
    return model, dataclasses.replace(weights, token_ids=np.arange(2, 48))


def serve(
    model: Tiny, online: OnlineDrafter, source: dict[str, str] | None, seeds: int, **options: Any
) -> list[Any]:
    """Let texts end that obey a regular expression."""
    speculation = Speculation([online], controller=Fixed(3), branching=False)
    found = []
    for seed in range(seeds):
        matcher = None if source is None else sg.Matcher(sg.regex(source["regex"]), model.vocabulary)
        chosen = SamplingOptions(temperature=1.5, seed=seed, max_tokens=40, **options)
        drafting = speculation.start(model)
        found += generate_tokens(model, [[20, 9, 30]], [matcher], chosen, drafting=drafting)
    return found


def features_of(online: OnlineDrafter, model: Tiny, source: dict[str, str]) -> Any:
    """Return the texts of the buffer as those of a training that knows their constraint."""
    features = online._features(list(online._buffer), model.layer_count)
    return dataclasses.replace(features, constraints=np.full(len(features), json.dumps(source)))


def test_masks_of_replaced_tokens_are_dropped() -> None:
    ids = np.arange(64)
    served, kept = ServedMasks(ids, 64, 10), []
    for number in range(500):
        served.note([], np.array([number % 63, 63, (7 * number) % 61]))
        kept.append(len(served._known))
    assert max(kept) <= 21 and len(served._masks) == 1


def test_free_texts_have_no_masks(trained: tuple[Tiny, Any]) -> None:
    """Also where a budget allows nothing but an end at last."""
    model, weights = trained
    online = OnlineDrafter(Eagle(weights, least=0.0), every=1000)
    serve(model, online, None, 4, close_within_budget=True)
    assert len(online._buffer) == 4 and all(text.masks is None for text in online._buffer)


def test_texts_without_drafts_keep_no_masks(
    trained: tuple[Tiny, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, weights = trained
    noted = list[int]()
    monkeypatch.setattr(ServedMasks, "note", lambda self, tokens, allowed: noted.append(len(tokens)))
    online = OnlineDrafter(Eagle(weights, least=0.0), every=1000)
    monkeypatch.setattr(sg.Matcher, "can_draft", False)
    serve(model, online, {"regex": "[a-f]{12}"}, 1)
    assert not noted and not online._buffer
    monkeypatch.setattr(sg.Matcher, "can_draft", True)
    serve(model, online, {"regex": "[a-f]{12}"}, 1)
    assert noted


def choices_of(allowed: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return masks without those that are no choice."""
    return allowed & (allowed.sum(1, keepdims=True) > 1)


@pytest.mark.parametrize("forced", [False, True])
@pytest.mark.parametrize("regex", [FORCED["regex"], "[a-f]{12}xyz[k-z]{8}", "(uvw|uvx|xy[d-g]+z|q){9}"])
def test_served_masks_are_those_of_a_matcher_that_reads_the_text_again(
    regex: str, forced: bool, trained: tuple[Tiny, Any]
) -> None:
    model, weights = trained
    online = OnlineDrafter(Eagle(weights, least=0.0), every=1000)
    serve(model, online, {"regex": regex}, 4, forced=forced)
    texts = list(online._buffer)
    assert len(texts) >= 3
    oracle = TextMasks(features_of(online, model, {"regex": regex}), model.vocabulary, weights.token_ids)
    for number, text in enumerate(texts):
        wanted = oracle.of(number)
        assert text.masks is not None and wanted is not None and text.prompt == 3
        found = text.masks.allowed(len(weights.token_ids))
        np.testing.assert_array_equal(choices_of(found), choices_of(wanted[3:]))
        assert found.any()


def test_the_size_of_masks_counts_towards_the_bound(trained: tuple[Tiny, Any]) -> None:
    model, weights = trained
    online = OnlineDrafter(Eagle(weights, least=0.0), every=1000, most_bytes=12_000)
    serve(model, online, {"regex": "[a-f]{12}xyz[k-z]{8}"}, 6)
    assert 0 < len(online._buffer) < 6 and online._bytes <= 12_000
    for text in online._buffer:
        assert text.masks is not None
        assert text.size == text.tokens.nbytes + text.states.nbytes + text.masks.nbytes


class Recorded:
    """Compares as a loss does, and notes the masks and the weight of each position."""

    def __init__(self, loss: Any) -> None:
        self._loss = loss
        self.needs_target = loss.needs_target
        self.seen: list[tuple[Any, Any]] = []

    def __call__(self, logits: Any, **compared: Any) -> Any:
        losses, shares = self._loss._losses(
            logits,
            compared["target_logits"],
            compared["token_ids"],
            compared["allowed"],
            compared.get("weights"),
        )
        self.seen.append((compared["allowed"], shares.detach()))
        return (losses * shares).sum()


def test_forced_positions_have_no_weight_and_masked_distributions_are_compared(
    trained: tuple[Tiny, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is learned is what a training learns that reads each text with a matcher of its constraint."""
    model, weights = trained
    online, twin, unmasked = (OnlineDrafter(Eagle(weights, least=0.0), every=1000) for _ in range(3))
    serve(model, online, FORCED, 4, forced=False)
    texts = list(online._buffer)
    features = features_of(online, model, FORCED)
    losses: list[Recorded] = []

    def recorded(owner: OnlineDrafter) -> Any:
        training = owner._started(features, model)
        losses.append(Recorded(training._compare))
        training._compare = losses[-1]  # type: ignore[assignment]
        return training

    online._training.set(model, recorded(online))
    online._update(texts)
    assert online.updates == 1
    known = online._training.get(model)
    assert known is not None and known.masks is None, "they are in the buffer already"
    learned = known.network.state_dict()
    expected = recorded(twin)
    masks = TextMasks(features, model.vocabulary, weights.token_ids)
    expected.learn(features, twin.steps, masks)
    for name, tensor in expected.network.state_dict().items():
        assert torch.equal(learned[name], tensor)
    ours, theirs = losses
    assert len(ours.seen) == len(theirs.seen) > 0
    weighed = left_out = 0
    for (allowed, shares), (wanted, wanted_shares) in zip(ours.seen, theirs.seen, strict=True):
        assert torch.equal(shares, wanted_shares)
        is_choice = wanted.sum(1) > 1
        assert torch.equal(shares > 0, is_choice) and torch.equal(allowed[is_choice], wanted[is_choice])
        assert (allowed[~is_choice].sum(1) < 2).all()
        weighed, left_out = weighed + int(is_choice.sum()), left_out + int((~is_choice).sum())
    assert 0 < weighed < left_out
    plain = recorded(unmasked)
    plain.learn(features, unmasked.steps)
    assert not torch.equal(learned["fuse.weight"], plain.network.state_dict()["fuse.weight"])


def test_texts_without_a_choice_are_not_kept(trained: tuple[Tiny, Any]) -> None:
    model, weights = trained
    online = OnlineDrafter(Eagle(weights, least=0.0), every=2, background=False)
    for forced in (True, False):
        serve(model, online, {"regex": "(uvwxyz){3}"}, 3, forced=forced)
    assert not online._buffer and not online._new and not online.updates
    serve(model, online, None, 1)
    assert [text.masks for text in online._buffer] == [None]


def test_texts_whose_masks_are_not_reported_are_not_kept(trained: tuple[Tiny, Any]) -> None:
    model, weights = trained
    online = OnlineDrafter(Eagle(weights, least=0.0), every=1000)
    layers = online.hidden_layers(model.layer_count)
    tokens = list(range(2, 22))
    for constraint, kept in ((sg.regex("[a-z]+"), 0), (None, 1)):
        row = online.start(Start(tuple(tokens[:3]), model.vocabulary, constraint, model=model))
        row.observe(tokens, 3)
        hidden = RowStates(torch.ones(20, len(layers), 32), layers, 19)
        list(row.propose(Context(tokens, None, model.vocabulary, is_constrained=False, hidden=hidden)))
        row.finish(tokens)
        assert len(online._buffer) == kept


def test_masks_of_long_texts_are_cut_with_their_tokens(trained: tuple[Tiny, Any]) -> None:
    online = OnlineDrafter(Eagle(trained[1], least=0.0), every=1000)
    served, tokens = ServedMasks(online.drafter.weights.token_ids, 48, 1000), []
    for number in range(497):
        served.note(tokens, np.array([2, 3 + number % 40]))
        tokens.append(2)
    masks = served.end(tokens, 0, 497)
    online.add([5, 5, 5, *tokens], torch.ones(500, 2, 32), 3, masks)
    (text,) = online._buffer
    assert len(text.tokens) == 384 and text.prompt == 0 and text.masks is not None
    count = len(online.drafter.weights.token_ids)
    np.testing.assert_array_equal(text.masks.allowed(count), masks.allowed(count)[-384:])


class Reader:
    """Reads masks only."""

    reads_masks = True

    def __init__(self) -> None:
        self.seen: list[tuple[list[int], list[int]]] = []

    def start(self, start: Start) -> Reader:
        return self

    def propose(self, context: Context) -> list[Any]:
        return []

    def observe(self, tokens: Sequence[int], start: int) -> None:
        pass

    def on_mask(self, tokens: list[int], allowed: NDArray[np.int64]) -> None:
        self.seen.append((list(tokens), allowed.tolist()))
        tokens.clear()
        allowed[0] = 7  # which fails


def test_readers_cannot_change_a_row(trained: tuple[Tiny, Any]) -> None:
    model, reader = trained[0], Reader()
    matcher = sg.Matcher(sg.regex("[a-f]{5}"), model.vocabulary)
    options = SamplingOptions(temperature=1.0, seed=3)
    (plain,) = generate_tokens(model, [[5, 6]], [matcher.fork()], options)
    speculation = Speculation([reader])
    with pytest.warns(UserWarning, match="read-only"):
        (found,) = generate_tokens(model, [[5, 6]], [matcher], options, drafting=speculation.start(model))
    assert found.tokens == plain.tokens and len(reader.seen) == 1
    assert not Speculation([Eagle(trained[1])]).start(model).wants_masks


def test_masks_arrive_while_a_drafter_rests() -> None:
    class Patient(Reader):
        def on_mask(self, tokens: list[int], allowed: NDArray[np.int64]) -> None:
            self.seen.append((list(tokens), allowed.tolist()))

    reader: Any = Patient()
    record = DrafterRecord("Patient")
    record.resting = 5
    Guarded(record, reader, 48).on_mask([3], np.array([4, 5]))
    assert reader.seen == [([3], [4, 5])]
