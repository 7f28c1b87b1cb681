"""The drafter that comes with structgen: it is used for its model alone, by default, and changes no text."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import structgen as sg
from structgen.speculative import (
    Fixed,
    Speculation,
    SpeculationWarning,
    default_drafters,
    speculation_of,
)
from structgen.speculative.learned import Eagle, load_weights, shipped_weights
from tests.embedded import embedded_model, shallow_model
from tests.speculative.tiny_sessions import Model


@pytest.fixture
def model() -> Any:
    return embedded_model()


def test_it_is_used_by_default_for_its_model(model: Any) -> None:
    *others, learned = default_drafters(model)
    assert [type(each) for each in others] == [type(each) for each in Speculation().drafters]
    assert isinstance(learned, Eagle)
    assert any(isinstance(each, Eagle) for each in speculation_of(model).drafters)
    assert learned.weights.notes["base"] == shipped_weights.base_of(model)


def test_other_models_have_none(model: Any) -> None:
    shallow = shallow_model()  # the same tokenizer and embeddings
    assert len(default_drafters(shallow)) == len(Speculation().drafters)
    assert shipped_weights.shipped_drafter(shallow) is None
    assert shipped_weights.base_of(shallow) != shipped_weights.base_of(model)


def on_meta(whole: Any) -> Any:
    import torch

    return torch.nn.Embedding(8, 4, device="meta")


def without(whole: Any) -> Any:
    return None


def failing(whole: Any) -> Any:
    raise NotImplementedError


@pytest.mark.parametrize("embeddings", [on_meta, without, failing])
def test_models_whose_embeddings_cannot_be_read_have_none(
    embeddings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny: Any = Model("llama")
    monkeypatch.setattr(type(tiny.model), "get_input_embeddings", embeddings)
    assert shipped_weights.shipped_drafter(tiny) is None
    assert len(default_drafters(tiny)) == len(Speculation().drafters)


def test_a_drafter_that_does_not_fit_is_reported_and_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(model: Any) -> Any:
        raise RuntimeError("no room")

    monkeypatch.setattr(shipped_weights, "shipped_drafter", failing)
    with pytest.warns(SpeculationWarning, match="not used: no room"):
        assert len(default_drafters(Model("llama"))) == len(Speculation().drafters)


def test_its_files_are_small_and_complete() -> None:
    (path,) = shipped_weights._FOLDER.glob("*.safetensors")
    assert path.name in shipped_weights._FILES.values()
    assert path.stat().st_size <= 6_000_000
    notes = load_weights(path).notes
    assert {notes["base"]: path.name} == shipped_weights._FILES


def test_texts_are_the_same_and_half_of_the_first_tokens_are_right(model: Any) -> None:
    drafter = shipped_weights.shipped_drafter(model)
    assert drafter is not None
    speculation = Speculation([drafter], controller=Fixed(2))
    for prompt in ("Tell me about rivers.", "Why is the sky blue?"):
        options: dict[str, Any] = {"temperature": 0.0, "max_tokens": 40}
        plain = sg.generate(model, prompt, speculate=False, **options)
        assert sg.generate(model, prompt, speculate=speculation, **options) == plain
    assert speculation.right[0] > 0.4 * speculation.reached[0]


def test_a_damaged_file_is_reported_and_left_out(
    model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(shipped_weights._FOLDER, tmp_path / "shipped")
    (path,) = (tmp_path / "shipped").glob("*.safetensors")
    path.write_bytes(path.read_bytes()[:100_000])
    monkeypatch.setattr(shipped_weights, "_FOLDER", tmp_path / "shipped")
    with pytest.warns(SpeculationWarning, match="not a complete file"):
        assert len(default_drafters(model)) == len(Speculation().drafters)
