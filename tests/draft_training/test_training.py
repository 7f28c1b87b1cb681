"""Training of drafters: texts and states on disk, a drafter that learns one text, and what may go wrong."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from structgen.cli.draft_inputs import outcome  # noqa: E402
from structgen.draft_training import texts as texts_module  # noqa: E402
from structgen.draft_training.eagle import EagleOptions  # noqa: E402
from structgen.draft_training.features import Features, compute_features, load_features  # noqa: E402
from structgen.draft_training.masks import TextMasks  # noqa: E402
from structgen.draft_training.recipes import Recipe, layers_read, train_drafter  # noqa: E402
from structgen.draft_training.selection import select  # noqa: E402
from structgen.draft_training.texts import Request, Text, collect_texts, read_texts  # noqa: E402
from structgen.draft_training.training import Training, TrainingOptions, most_frequent_tokens  # noqa: E402
from structgen.errors import ModelError, OptionError, VocabularyMismatch  # noqa: E402
from structgen.generation import SamplingOptions, generate_tokens  # noqa: E402
from structgen.models.hugging_face import HuggingFaceModel  # noqa: E402
from structgen.progress import ProgressBar  # noqa: E402
from structgen.speculative import Fixed, Speculation  # noqa: E402
from structgen.speculative.learned import (  # noqa: E402
    AcceptanceHead,
    load_drafter,
    load_weights,
    save_weights,
)
from tests.models.tiny import SIZE, tiny_model  # noqa: E402
from tests.speculative.tiny_sessions import VOCABULARY  # noqa: E402


class Tiny(HuggingFaceModel):
    """A tiny model without a tokenizer."""

    def __init__(self) -> None:
        self.model = tiny_model("llama")
        self.vocabulary = VOCABULARY
        self.context_length = 256


def requests(first: int) -> Iterator[Request]:
    for number in itertools.count(first):
        rng = np.random.default_rng(number)
        yield Request([int(i) for i in rng.integers(2, SIZE, size=6)], kind="text", most=12)


def some_texts(count: int = 8) -> list[Text]:
    rng = np.random.default_rng(1)
    return [
        Text([3, 4, int(index)], [int(i) for i in rng.integers(2, SIZE, size=10 + index)], "text", 0.0)
        for index in range(2, 2 + count)
    ]


def test_texts_are_the_models_own_and_a_collection_resumes(tmp_path: Path) -> None:
    model, path = Tiny(), tmp_path / "texts.jsonl"
    whole = collect_texts(model, requests, path, tokens=100, batch=4)
    assert sum(len(text.answer) for text in whole) >= 100
    assert read_texts(path) == whole
    greedy = next(text for text in whole if text.temperature == 0)
    (again,) = generate_tokens(
        model, [greedy.prompt], [None], SamplingOptions(temperature=0.0, max_tokens=12)
    )
    assert greedy.answer[: len(again.tokens)] == again.tokens
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:4]) + lines[4][:20])  # interrupted in the fifth line
    assert read_texts(path) == whole[:4]
    assert collect_texts(model, requests, path, tokens=100, batch=4) == whole
    path.write_text('{"prompt": [1]}\n')
    with pytest.raises(ModelError, match="line 1 is not a text"):
        read_texts(path)
    with pytest.raises(ModelError, match="another model, seed"):
        collect_texts(model, requests, path, tokens=100, batch=4, seed=1)
    with pytest.raises(OptionError, match="tokens is 0"):
        collect_texts(model, requests, path, tokens=0)


def test_the_bar_moves_while_answers_are_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    moves: list[int] = []

    class Bar(ProgressBar):
        def advance(self, count: int = 1) -> None:
            moves.append(count)

    monkeypatch.setattr(texts_module, "ProgressBar", Bar)
    found = collect_texts(Tiny(), requests, tmp_path / "texts.jsonl", tokens=100, batch=16)
    assert sum(moves) == sum(len(text.answer) for text in found)
    assert max(moves) <= 3 and len(moves) > 50  # a token, and perhaps others that need no draw or the end


def test_states_are_those_of_a_plain_pass(tmp_path: Path) -> None:
    model, texts = Tiny(), some_texts()
    features = compute_features(model, texts, tmp_path, (0, 1, 2), most_bytes=1 << 20)
    assert len(features) == len(texts) and features.layers == (0, 1, 2)
    for index, text in enumerate(texts):
        tokens = [*text.prompt, *text.answer]
        first, end = features.offsets[index], features.offsets[index + 1]
        assert features.tokens[first:end].tolist() == tokens
        assert features.answers[index] == len(text.prompt)
        with torch.inference_mode():
            output = model.model(input_ids=torch.tensor([tokens]), output_hidden_states=True)
        wanted = torch.stack([output.hidden_states[layer][0] for layer in (0, 1, 2)], dim=1)
        np.testing.assert_allclose(features.states[first:end], wanted, rtol=5e-3, atol=5e-3)


def test_states_are_kept_within_a_budget_and_not_mixed_up(tmp_path: Path) -> None:
    model, texts = Tiny(), some_texts()
    per_token = 2 * 2 * 32
    features = compute_features(model, texts, tmp_path / "few", (1, 2), most_bytes=40 * per_token)
    assert 1 <= len(features) < len(texts) and len(features.tokens) <= 40
    assert len(compute_features(model, texts, tmp_path / "few", (1, 2), most_bytes=40 * per_token)) == len(
        features
    )
    with pytest.raises(ModelError, match="other layers"):
        compute_features(model, texts, tmp_path / "few", (0, 2), most_bytes=40 * per_token)
    with pytest.raises(ModelError, match="other texts"):
        compute_features(model, texts[1:], tmp_path / "few", (1, 2), most_bytes=40 * per_token)
    fields: list[dict[str, Any]] = [
        {"constraint": {"regex": "a"}},
        {"prompt": [3, 4], "answer": [int(texts[0].prompt[2]), *texts[0].answer]},
        {"temperature": 0.7},
    ]
    for changed in fields:
        others = [dataclasses.replace(texts[0], **changed), *texts[1:]]
        with pytest.raises(ModelError, match="other texts"):
            compute_features(model, others, tmp_path / "few", (1, 2), most_bytes=40 * per_token)
    for token in (SIZE, 1 << 40):
        beyond = [*texts, dataclasses.replace(texts[0], answer=[5, token])]
        with pytest.raises(ModelError, match=f"text 9 has the token {token}, .* end at {SIZE - 1}"):
            compute_features(model, beyond, tmp_path / "beyond", (1, 2), most_bytes=1 << 20)
    with pytest.raises(OptionError, match="no text of at most"):
        compute_features(model, texts, tmp_path / "none", (1, 2), most_bytes=per_token)
    index = tmp_path / "few" / "index.npz"
    for content in (index.read_bytes()[:100], b"", None):
        if content is None:
            index.unlink()
        else:
            index.write_bytes(content)
        with pytest.raises(ModelError, match="no complete states"):
            load_features(tmp_path / "few")


OPTIONS = TrainingOptions(
    epochs=150,
    minutes=60,
    batch=3,
    held_out=0.1,
    patience=1000,
    validations=1,
    learning_rate=3e-3,
    loss="cross-entropy",
)


def repeated(tmp_path: Path) -> tuple[Tiny, Any]:
    """One text, several times: the share that is set apart is the text, too."""
    model = Tiny()
    (answer,) = generate_tokens(
        model, [[5, 6, 7]], [None], SamplingOptions(temperature=1.0, seed=3, max_tokens=40)
    )
    texts = [Text([5, 6, 7], answer.tokens, "text", 1.0)] * 10
    return model, compute_features(model, texts, tmp_path / "states", layers_read(model), most_bytes=1 << 20)


FSPAD = EagleOptions(feature_sampling=True, alignment="partial")


@pytest.mark.parametrize(
    ("kind", "eagle"),
    [
        *((kind, EagleOptions()) for kind in ("eagle", "medusa", "hydra", "kangaroo")),
        ("eagle", EagleOptions(alignment="full")),
        ("eagle", FSPAD),
        ("eagle", EagleOptions(tokens_a_pass=2)),
        ("eagle", EagleOptions(features="eagle-1")),
    ],
)
def test_a_drafter_learns_one_text_and_then_drafts_it(kind: str, eagle: EagleOptions, tmp_path: Path) -> None:
    model, features = repeated(tmp_path)
    weights, training = train_drafter(model, features, Recipe(kind, 64, options=OPTIONS, eagle=eagle))
    assert training.validations[0][1].right[0] < 0.5
    assert training.validations[-1][1].right[2] > 0.9
    save_weights(weights, tmp_path / "weights")
    drafter = load_drafter(tmp_path / "weights", least=0.0, most=3)
    speculation = Speculation([drafter], controller=Fixed(3), branching=False)
    options = SamplingOptions(temperature=1.0, seed=3, max_tokens=40)
    (plain,) = generate_tokens(model, [[5, 6, 7]], [None], options)
    (drafted,) = generate_tokens(model, [[5, 6, 7]], [None], options, drafting=speculation.start(model))
    assert drafted.tokens == plain.tokens
    assert drafted.accepted_tokens > 0.85 * drafted.drafted_tokens > 0


def assert_interruption_changes_nothing(
    model: Tiny, features: Any, recipe: Recipe, save: Path, at: int
) -> Training:
    """Interrupt a training at a step, and compare what its resumption returns with an uninterrupted one."""
    weights, whole = train_drafter(model, features, recipe)
    step = Training._train

    def interrupted(self: Training, batch: Any, done: float) -> float:
        if self._step == at:
            raise KeyboardInterrupt
        return step(self, batch, done)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Training, "_train", interrupted)
        with pytest.raises(KeyboardInterrupt):
            train_drafter(model, features, recipe, save=save)
    found, resumed = train_drafter(model, features, recipe, save=save, resume=True)
    assert 0 < resumed.validations[0][0] < at < resumed.validations[-1][0]
    assert resumed.validations == whole.validations
    assert found.tensors.keys() == weights.tensors.keys()
    assert all(torch.equal(tensor, weights.tensors[name]) for name, tensor in found.tensors.items())
    return resumed


def test_an_interrupted_training_goes_on(tmp_path: Path) -> None:
    model, features = repeated(tmp_path)
    save, short = tmp_path / "state", dataclasses.replace(OPTIONS, epochs=6)
    second = assert_interruption_changes_nothing(
        model, features, Recipe("eagle", 64, options=short), save, 10
    )
    _, ended = train_drafter(model, features, Recipe("eagle", 64, options=short), save=save, resume=True)
    assert ended.validations == second.validations  # nothing was left to do
    for other in ({"loss": "tvd"}, {"learning_rate": 1e-4}, {"seed": 1}):
        changed = dataclasses.replace(short, **other)
        with pytest.raises(ModelError, match="other options or other texts"):
            train_drafter(model, features, Recipe("eagle", 64, options=changed), save=save, resume=True)
    state = torch.load(save, weights_only=True)
    for name in ("best", "step", "validations", "network", "about"):
        torch.save({key: value for key, value in state.items() if key != name}, save)
        with pytest.raises(ModelError, match=f"not the state of this training: KeyError\\('{name}'\\)"):
            train_drafter(model, features, Recipe("eagle", 64, options=short), save=save, resume=True)
    save.write_bytes(b"no state")
    with pytest.raises(ModelError, match="not the state of this training"):
        train_drafter(model, features, Recipe("eagle", 64, options=short), save=save, resume=True)


def test_a_training_goes_on_without_the_device_that_it_was_saved_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, features = repeated(tmp_path)
    recipe, save = Recipe("eagle", 64, options=dataclasses.replace(OPTIONS, epochs=6)), tmp_path / "state"
    with monkeypatch.context() as patch:  # a state that says it is from such a device
        patch.setattr(torch.serialization, "location_tag", lambda storage: "cuda:7")
        assert_interruption_changes_nothing(model, features, recipe, save, 10)
    assert b"cuda:7" in save.read_bytes()
    weights, _ = train_drafter(model, features, recipe, save=save, resume=True)
    assert all(tensor.device.type == "cpu" for tensor in weights.tensors.values())


def test_a_training_starts_from_weights_of_another(tmp_path: Path) -> None:
    model, features = repeated(tmp_path)
    trained, first = train_drafter(model, features, Recipe("eagle", 64, options=OPTIONS))
    save_weights(trained, tmp_path / "weights")
    plain = load_weights(tmp_path / "weights")
    start = dataclasses.replace(plain, tensors={**plain.tensors, **AcceptanceHead(32).tensors()})
    short, save = dataclasses.replace(OPTIONS, epochs=1, learning_rate=1e-6), tmp_path / "state"
    _, second = train_drafter(model, features, Recipe("eagle", 64, options=short, start=start), save=save)
    assert second.validations[0][1].right[2] > 0.9 > first.validations[0][1].right[2]
    with pytest.raises(ModelError, match="other options or other texts"):  # it started from other weights
        train_drafter(model, features, Recipe("eagle", 64, options=short), save=save, resume=True)
    layer = {**start.sizes["layer"], "mlp": 8}
    other = dataclasses.replace(start, sizes={**start.sizes, "layer": layer})
    with pytest.raises(ModelError, match="shapes of their sizes: the tensor layer.gate.weight"):
        Recipe("eagle", 64, options=short, start=other)
    wider = EagleOptions(feature_sampling=True)
    with pytest.raises(OptionError, match="the start drafter has other sizes"):
        train_drafter(model, features, Recipe("eagle", 64, options=short, start=start, eagle=wider))
    other = dataclasses.replace(start, vocabulary="another")
    with pytest.raises(VocabularyMismatch, match="the start drafter"):
        train_drafter(model, features, Recipe("eagle", 64, options=short, start=other))


def test_numbers_that_are_not_finite_end_the_training(tmp_path: Path) -> None:
    model, features = repeated(tmp_path)
    states = np.array(features.states)
    states[:] = np.nan
    broken = dataclasses.replace(features, states=states)
    with pytest.raises(ModelError, match="the loss is nan"):
        train_drafter(model, broken, Recipe("eagle", 64, options=OPTIONS))


def test_weights_that_are_not_finite_are_neither_returned_nor_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last step may break them, after a finite loss."""
    model, features = repeated(tmp_path)
    whole = Training._train

    def broken(self: Training, batch: Any, done: float) -> float:
        loss = whole(self, batch, done)
        with torch.no_grad():
            next(self.network.parameters()).fill_(torch.nan)
        return loss

    one = Recipe("eagle", 64, options=dataclasses.replace(OPTIONS, epochs=0.1))
    weights, _ = train_drafter(model, features, one)
    monkeypatch.setattr(Training, "_train", broken)
    with pytest.raises(ModelError, match="the weights are not finite after 1 steps"):
        train_drafter(model, features, one)
    path = tmp_path / "weights"
    save_weights(weights, path)
    before, name = path.read_bytes(), next(iter(weights.tensors))
    spoilt = {**weights.tensors, name: torch.full_like(weights.tensors[name], torch.inf)}
    with pytest.raises(ModelError, match=f"the tensor {name} contains numbers that are not finite"):
        save_weights(dataclasses.replace(weights, tensors=spoilt), path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("length", [1, 2])
def test_texts_that_are_too_short_to_learn_from(length: int, tmp_path: Path) -> None:
    texts = [Text([5, 6, 7], [8, 9, 10][:length], "text", 0.0)] * 10
    texts.append(Text([5, 6, 7], [8, 9, 10, 11], "text", 0.0))
    features = compute_features(Tiny(), texts, tmp_path, layers_read(Tiny()), most_bytes=1 << 20)
    with pytest.raises(OptionError, match="too short: 1 of 11 have an answer from which 3 steps ahead"):
        train_drafter(Tiny(), features, Recipe("eagle", 64, options=OPTIONS))


def test_a_text_that_is_set_apart_measures_all_steps(tmp_path: Path) -> None:
    short, long = Text([5, 6, 7], [8, 9], "text", 0.0), Text([5], [6, 7, 8, 9], "text", 0.0)
    features = compute_features(
        Tiny(), [short] * 9 + [long] * 2, tmp_path, layers_read(Tiny()), most_bytes=1 << 20
    )
    for seed in range(4):
        options = dataclasses.replace(OPTIONS, epochs=0.1, seed=seed, held_out=0.3)
        _, training = train_drafter(Tiny(), features, Recipe("eagle", 64, options=options))
        assert training.held_out == 1 and set(training._apart) < {9, 10}
        _, hits = training._loss(training._read(training._apart), counts=True)
        assert hits.shape == (3, 1)


def test_the_tokens_that_may_be_drafted_are_the_most_frequent_of_answers(tmp_path: Path) -> None:
    texts = [Text([3] * 5, [7, 7, 8, 9, 9, 9, 10], "text", 0.0)] * 2
    features = compute_features(Tiny(), texts, tmp_path, (2,), most_bytes=1 << 20)
    assert most_frequent_tokens(features, 2).tolist() == [7, 9]
    assert most_frequent_tokens(features, 50).tolist() == [7, 8, 9, 10]


@pytest.mark.parametrize("field", ["epochs", "minutes", "batch", "learning_rate", "held_out"])
def test_options_are_checked(field: str) -> None:
    with pytest.raises(OptionError, match=field):
        TrainingOptions(**{field: 0})
    if field == "epochs":
        with pytest.raises(OptionError, match="epochs is inf"):
            TrainingOptions(epochs=float("inf"))


def letters_of(model: Tiny) -> dict[bytes | None, int]:
    """Return the token of each letter."""
    return {model.vocabulary.token_bytes(i): i for i in range(2, 28)}


def forced_and_free(model: Tiny, directory: Path, answer: bytes, regex: str) -> Features:
    """Return ten texts with one answer, whose tokens the expression forces or leaves open."""
    letters = letters_of(model)
    tokens = [letters[bytes([byte])] for byte in answer]
    texts = [Text([5, 6, 7], tokens, "x", 0.0, {"regex": regex})] * 10
    return compute_features(model, texts, directory, layers_read(model), most_bytes=1 << 20)


def test_masks_are_those_of_the_constraint(tmp_path: Path) -> None:
    model = Tiny()
    letters = letters_of(model)
    a, b, c = (letters[letter] for letter in (b"a", b"b", b"c"))
    end = model.vocabulary.eos_ids[0]
    source = {"regex": "ab[abc]{2}"}
    texts = [
        Text([a, c], [a, b, c, c, end], "x", 0.0, source),
        Text([a, c], [a, b, c], "x", 0.0),
        Text([a, c], [a, c, c], "x", 0.0, source),  # which the constraint refuses
    ]
    features = compute_features(model, texts, tmp_path, (2,), most_bytes=1 << 20)
    ids = np.array(sorted({a, b, c, end}))
    masks = TextMasks(features, model.vocabulary, ids)
    found = masks.of(0)
    assert found is not None and masks.of(1) is None
    allowed = [set(ids[row].tolist()) for row in found]
    # A letter may be the name of several tokens of this vocabulary, but only the first one is listed.
    assert allowed[:2] == [set(ids.tolist())] * 2
    assert allowed[2:] == [{a}, {b}, {a, b, c}, {a, b, c}, {end}]
    refused = masks.of(2)
    assert refused is not None and refused[2].any() and not refused[4].any()


def test_only_choices_under_a_constraint_are_learned(tmp_path: Path) -> None:
    """Where each token is forced there is nothing to learn, and nothing to measure."""
    model = Tiny()
    features = forced_and_free(model, tmp_path, b"abcdefgh", "abcdefgh")
    options = dataclasses.replace(OPTIONS, epochs=1, loss="forward-kl")
    _, training = train_drafter(model, features, Recipe("eagle", 64, options=options))
    assert training.best.right == [] and training.best.tokens_per_pass == 1.0
    assert outcome(training).startswith(
        "nothing could be measured: the constraints of the 1 texts that were set"
    )
    gradients = [parameter.grad for parameter in training.network.parameters()]
    assert not any(gradient is not None and gradient.any() for gradient in gradients)


def test_selection_passes_over_forced_positions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Tiny()
    features = forced_and_free(model, tmp_path, b"abcdefghijklmnabcab", "abcdefghijklmn[a-c]{5}")
    options = dataclasses.replace(OPTIONS, epochs=1, loss="forward-kl")
    reference, _ = train_drafter(model, features, Recipe("eagle", 64, options=options))
    chosen = list[tuple[int, int, int]]()

    def counted(now: torch.Tensor, before: torch.Tensor, **given: Any) -> torch.Tensor:
        weights = select(now, before, **given)
        chosen.append((len(now), int((given["weights"] > 0).sum()), int((weights > 0).sum())))
        return weights

    monkeypatch.setattr("structgen.draft_training.training.select", counted)
    train_drafter(model, features, Recipe("eagle", 64, reference, options))
    assert chosen
    for positions, free, selected in chosen:
        assert 0 < free < positions / 2
        assert selected == int(0.4 * free + 0.5)


def slow_validation(training: Training) -> tuple[int, list[float]]:
    """Return the number of positions with a choice in the texts set apart, and how often guesses are right there."""
    steps, compared, right = training.options.steps_ahead, 0, [0] * training.options.steps_ahead
    assert training.masks is not None
    for text in training._apart:
        batch = training._read([text])
        tokens, mask = batch.tokens[0].tolist(), training.masks.of(int(text))
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
            embedded = training.embeddings[batch.tokens[:, :-1]].to(torch.bfloat16)
            states = batch.states[:, :-1, training._columns]
            outputs = training.outputs(training.network, states, embedded, steps)
            logits = [training._rows(output[0]) for output in outputs]
        for position in range(len(tokens) - steps - 1):
            first = position + 2
            if first < training.features.answers[text] or (mask is not None and mask[first].sum() < 2):
                continue
            compared += 1
            for step in range(steps):
                scores = [float(each) for each in logits[step][position]]
                allowed = range(len(scores)) if mask is None else np.flatnonzero(mask[first + step]).tolist()
                if int(training.token_ids[max(allowed, key=lambda i: scores[i])]) != tokens[first + step]:
                    break
                right[step] += 1
    return compared, [each / compared for each in right]


@pytest.mark.parametrize("kind", ["eagle", "medusa", "layers"])
def test_validations_count_positions_with_a_choice(kind: str, tmp_path: Path) -> None:
    model, rng = Tiny(), np.random.default_rng(5)
    letters = letters_of(model)
    texts = []
    for number in range(24):
        chosen = bytes(rng.choice(list(b"ab"), 6).tolist())
        written = b"xyz" + chosen[:3] + b"xyxyz" + chosen[3:] + b"zz"
        source = {"regex": "xyz[ab]{3}xyxyz[ab]{3}zz"} if number % 4 else None
        texts.append(Text([5, 6], [letters[bytes([byte])] for byte in written], "x", 0.0, source))
    features = compute_features(model, texts, tmp_path, layers_read(model), most_bytes=1 << 20)
    options = dataclasses.replace(OPTIONS, epochs=3, held_out=0.4, loss="forward-kl")
    recipe = Recipe(kind, 64, options=options, exits=(1,))
    _, training = train_drafter(model, features, recipe)
    constrained = sum(bool(features.constraints[text]) for text in training._apart)
    assert 0 < constrained < training.held_out
    compared, right = slow_validation(training)
    # Six choices in a text with a constraint, all but the two last tokens in one without.
    assert compared == 6 * constrained + (len(texts[0].answer) - 2) * (training.held_out - constrained)
    assert training.validations[-1][1].right == pytest.approx(right)
    assert 0 < right[0] < 1


def test_what_was_forced_does_not_choose_the_best_weights(tmp_path: Path) -> None:
    """Forced tokens after and before choices change no share of the first guesses."""
    model = Tiny()
    letters = letters_of(model)
    found = []
    for number, tail in enumerate((b"", b"xyxyxyxyxyxyxyxy")):
        rng = np.random.default_rng(1)
        texts = []
        for _ in range(12):
            written = bytes(rng.choice(list(b"ab"), 6).tolist()) + b"xyz" + tail
            source = {"regex": "[ab]{6}xyz" + tail.decode()}
            texts.append(Text([5, 6], [letters[bytes([byte])] for byte in written], "x", 0.0, source))
        folder = tmp_path / str(number)
        features = compute_features(model, texts, folder, layers_read(model), most_bytes=1 << 20)
        options = dataclasses.replace(OPTIONS, epochs=0.1, held_out=0.4)
        _, training = train_drafter(model, features, Recipe("eagle", 64, options=options))
        _, hits = training._loss(training._read(training._apart), counts=True)
        assert hits.shape == (3, 6 * training.held_out)
        found.append(training.best.right)
    assert found[0] == found[1]


def test_without_a_choice_to_measure_the_last_weights_are_returned(tmp_path: Path) -> None:
    model = Tiny()
    letters = letters_of(model)
    answer = [letters[bytes([byte])] for byte in b"abcdefgh"]
    forced, free = Text([5, 6, 7], answer, "x", 0.0, {"regex": "abcdefgh"}), Text([5, 6, 7], answer, "x", 0.0)
    features = compute_features(
        model, [*[free] * 3, *[forced] * 9], tmp_path, layers_read(model), most_bytes=1 << 20
    )
    options = dataclasses.replace(OPTIONS, epochs=4, patience=1, held_out=0.01)
    for seed in range(8):  # until the text that is set apart is one of the forced ones
        _, training = train_drafter(
            model, features, Recipe("eagle", 64, options=dataclasses.replace(options, seed=seed))
        )
        if training._apart[0] >= 3:
            break
    weights, training = train_drafter(model, features, Recipe("eagle", 64, options=training.options))
    assert len(training.validations) == 4 and all(found.right == [] for _, found in training.validations)
    state = training.network.state_dict()
    assert all(torch.equal(tensor, state[name]) for name, tensor in weights.tensors.items())


def test_a_save_that_measured_forced_tokens_is_not_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its best weights were measured otherwise, and would never be replaced."""
    model, save = Tiny(), tmp_path / "state"
    free = compute_features(model, some_texts(), tmp_path / "a", layers_read(model), most_bytes=1 << 20)
    bound = [dataclasses.replace(text, constraint={"regex": "[^0]*"}) for text in some_texts()]
    under = compute_features(model, bound, tmp_path / "b", layers_read(model), most_bytes=1 << 20)
    recipe = Recipe("eagle", 64, options=dataclasses.replace(OPTIONS, epochs=1))
    for features, is_same in ((free, True), (under, False)):
        train_drafter(model, features, recipe, save=save)
        state = torch.load(save, weights_only=True)
        state["about"]["options"].pop("validated", None)
        torch.save(state, save)
        if is_same:
            train_drafter(model, features, recipe, save=save, resume=True)
            continue
        with pytest.raises(ModelError, match="or of another version"):
            train_drafter(model, features, recipe, save=save, resume=True)


def test_a_reference_selects_what_is_learned(tmp_path: Path) -> None:
    model, features = repeated(tmp_path)
    short = dataclasses.replace(OPTIONS, epochs=2)
    reference, _ = train_drafter(model, features, Recipe("eagle", 64, options=OPTIONS))
    chosen, _ = train_drafter(model, features, Recipe("eagle", 64, reference, short))
    every, _ = train_drafter(model, features, Recipe("eagle", 64, options=short))
    all_chosen, _ = train_drafter(
        model, features, Recipe("eagle", 64, reference, dataclasses.replace(short, selected=1.0))
    )
    name = "fuse.weight"
    assert not torch.equal(chosen.tensors[name], every.tensors[name])
    assert torch.allclose(all_chosen.tensors[name], every.tensors[name], atol=1e-4)
    other, _ = train_drafter(model, features, Recipe("medusa", 64, options=short))
    with pytest.raises(OptionError, match="kind 'medusa'"):
        Recipe("eagle", 64, other, short)
