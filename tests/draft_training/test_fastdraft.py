"""FastDraft: a draft model learns corpora first, and then the model's own texts."""

from __future__ import annotations

import dataclasses
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from structgen.draft_training import fastdraft  # noqa: E402
from structgen.draft_training.corpus import Corpus, read_corpus  # noqa: E402
from structgen.draft_training.fastdraft import stage_recipes, train_in_stages  # noqa: E402
from structgen.draft_training.features import Features, compute_features  # noqa: E402
from structgen.draft_training.recipes import Recipe, layers_read, train_drafter  # noqa: E402
from structgen.draft_training.training import Training, TrainingOptions, _hash  # noqa: E402
from structgen.errors import ModelError, OptionError  # noqa: E402
from structgen.speculative.learned import load_weights, save_weights  # noqa: E402
from structgen.speculative.learned.nested_layers import NestedNetwork  # noqa: E402
from tests.draft_training.test_corpus import model_with  # noqa: E402
from tests.draft_training.test_training import OPTIONS, some_texts  # noqa: E402
from tests.speculative.learned.test_nested_layers import random_weights  # noqa: E402

RECIPE = Recipe("layers", 64, options=dataclasses.replace(OPTIONS, epochs=6, loss="forward-kl"))


def some_corpora(model: Any, folder: Path) -> list[Corpus]:
    """Texts of a few words each, in another order in each document."""
    made = []
    for number, words in enumerate((["river", "sea", "long"], ["def", "return", "if"])):
        path, rng = folder / f"{number}.jsonl", np.random.default_rng(number)
        lines = [{"text": "".join(rng.choice(words, size=12))} for _ in range(16)]
        path.write_text("\n".join(map(json.dumps, lines)))
        made.append(read_corpus(model, path, most_tokens=10_000, shortest=5))
    return made


def own_texts(model: Any, folder: Path) -> Features:
    return compute_features(model, some_texts(12), folder / "states", layers_read(model), most_bytes=1 << 20)


def test_the_stages_of_a_recipe() -> None:
    options = TrainingOptions(minutes=30, on_policy=0.5, loss="tvd", seed=3)
    reference = random_weights()
    recipe = Recipe("layers", 100, reference, options, exits=(2,))
    *first, last = stage_recipes(recipe, 2)
    on_corpus = dataclasses.replace(options, minutes=10, on_policy=0.0, loss="cross-entropy")
    assert first == [Recipe("layers", 100, None, on_corpus, exits=(2,))] * 2
    assert last == dataclasses.replace(recipe, options=dataclasses.replace(options, minutes=10))
    assert stage_recipes(recipe, 0) == [recipe]
    with pytest.raises(OptionError, match="the recipe is for the kind 'eagle'"):
        stage_recipes(Recipe(), 1)


def test_each_stage_lowers_the_loss_and_starts_from_the_stage_before(tmp_path: Path) -> None:
    model = model_with()
    corpora, own = some_corpora(model, tmp_path), own_texts(model, tmp_path)
    done: list[Training] = []
    weights, last = train_in_stages(
        model, corpora, own, RECIPE, on_stage=lambda number, training: done.append(training)
    )
    assert len(done) == 2 and last.features is own
    for training, corpus in zip(done, corpora, strict=True):
        assert training.features is corpus.features
        losses = [found.loss for _, found in training.validations]
        assert losses[-1] < 0.8 * losses[0]
        assert training.options.loss == "cross-entropy"
    assert last.options.loss == "forward-kl"
    chain = [*done, last]
    for before, after in pairwise(chain):
        network = NestedNetwork(before.network.sizes)  # type: ignore[arg-type]
        assert before._best is not None
        network.load_state_dict(before._best[1])
        assert after._started == _hash(network)
    assert weights.notes["preset"] == "fastdraft"
    assert weights.notes["corpus_tokens"] == [len(corpus.features.tokens) for corpus in corpora]
    save_weights(weights, tmp_path / "weights")
    assert load_weights(tmp_path / "weights").notes == weights.notes


def test_notes_state_all_tokens_that_were_learned_from(tmp_path: Path) -> None:
    model = model_with()
    corpora, own = some_corpora(model, tmp_path), own_texts(model, tmp_path)
    recipe = dataclasses.replace(RECIPE, options=dataclasses.replace(RECIPE.options, epochs=0.1))
    first, _ = train_drafter(model, own, recipe)
    started = dataclasses.replace(recipe, start=first)
    for count in range(3):
        read = [*(corpus.features for corpus in corpora[:count]), own]
        learned = sum(len(features.tokens) for features in read)
        for given, before in ((recipe, 0), (started, len(own.tokens))):
            weights, _ = train_in_stages(model, corpora[:count], own, given)
            assert weights.notes["all_tokens"] == before + learned
            assert weights.notes["tokens"] == len(own.tokens)
    once_more = dataclasses.replace(recipe, reference=first)  # which only selects what is learned
    assert train_drafter(model, own, once_more)[0].notes["all_tokens"] == len(own.tokens)
    for unknown in ({}, {"tokens": 5}, {"all_tokens": None}, {"all_tokens": "5"}):
        earlier = dataclasses.replace(recipe, start=dataclasses.replace(first, notes=unknown))
        weights, _ = train_in_stages(model, corpora, own, earlier)
        assert "all_tokens" not in weights.notes and weights.notes["tokens"] == len(own.tokens)


def test_without_a_corpus_it_is_the_training_on_own_texts(tmp_path: Path) -> None:
    model = model_with()
    own = own_texts(model, tmp_path)
    weights, _ = train_in_stages(model, [], own, RECIPE)
    plain, _ = train_drafter(model, own, RECIPE)
    assert all(torch.equal(tensor, weights.tensors[name]) for name, tensor in plain.tensors.items())


def test_the_first_stage_starts_from_the_weights_of_the_recipe(tmp_path: Path) -> None:
    model = model_with()
    corpora, own = some_corpora(model, tmp_path), own_texts(model, tmp_path)
    start, _ = train_drafter(model, own, RECIPE)
    short = dataclasses.replace(RECIPE.options, epochs=1)
    done: list[Training] = []
    train_in_stages(
        model,
        corpora[:1],
        own,
        dataclasses.replace(RECIPE, start=start, options=short),
        on_stage=lambda number, training: done.append(training),
    )
    network = NestedNetwork(done[0].network.sizes)  # type: ignore[arg-type]
    network.load_state_dict(start.tensors)
    assert done[0]._started == _hash(network)


@pytest.mark.parametrize("stage", [0, 1, 2])
def test_an_interrupted_training_goes_on_in_its_stage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stage: int
) -> None:
    model = model_with()
    corpora, own = some_corpora(model, tmp_path), own_texts(model, tmp_path)
    whole, _ = train_in_stages(model, corpora, own, RECIPE)
    texts = [*(corpus.features for corpus in corpora), own][stage]
    plain, steps = Training._train, 0

    def interrupted(self: Training, batch: Any, done: float) -> float:
        nonlocal steps
        steps += self.features is texts
        if steps == 12:
            raise KeyboardInterrupt
        return plain(self, batch, done)

    save, started = tmp_path / "x.training.pt", []
    with monkeypatch.context() as patched:
        patched.setattr(Training, "_train", interrupted)
        with pytest.raises(KeyboardInterrupt):
            train_in_stages(model, corpora, own, RECIPE, save=save, resume=True)
    saves = {"corpus-1.x.training.pt", "corpus-2.x.training.pt", "x.training.pt"}
    assert {path.name for path in tmp_path.glob("*.pt")} == set(sorted(saves)[: stage + 1])

    def counted(self: Training, batch: Any, done: float) -> float:
        started.append(self.features)
        return plain(self, batch, done)

    monkeypatch.setattr(Training, "_train", counted)
    again, _ = train_in_stages(model, corpora, own, RECIPE, save=save, resume=True)
    names = [*(corpus.features for corpus in corpora), own]
    per_stage = [sum(each is features for each in started) for features in names]
    assert per_stage[:stage] == [0] * stage and per_stage[stage] > 0  # what had ended is not trained again
    for name, tensor in whole.tensors.items():
        assert torch.equal(again.tensors[name], tensor)


def test_a_stage_with_another_corpus_is_an_error(tmp_path: Path) -> None:
    model = model_with()
    corpora, own = some_corpora(model, tmp_path), own_texts(model, tmp_path)
    short = dataclasses.replace(RECIPE, options=dataclasses.replace(RECIPE.options, epochs=1))
    save = tmp_path / "x.training.pt"
    train_in_stages(model, corpora[:1], own, short, save=save, resume=True)
    with pytest.raises(ModelError, match=r"corpus-1.x.training.pt is the state of a training with other"):
        train_in_stages(model, corpora[1:], own, short, save=save, resume=True)
    with pytest.raises(ModelError, match=r"/x.training.pt is the state of a training with other"):
        train_in_stages(model, [], own, short, save=save, resume=True)


def test_the_kind_is_one_that_reads_tokens_only() -> None:
    assert Recipe(fastdraft.KIND).kind == "layers"
