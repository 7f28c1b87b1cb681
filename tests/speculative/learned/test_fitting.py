"""Weights that do not fit a model are refused, with an error that says why."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from structgen.errors import ModelError, VocabularyMismatch
from structgen.speculative.learned import DraftWeights, Eagle
from tests.models.tiny import SIZE
from tests.speculative.tiny_sessions import Model

from .test_eagle import SIZES, random_weights


def with_sizes(**changes: Any) -> Callable[[DraftWeights], DraftWeights]:
    return lambda weights: replace(weights, sizes={**weights.sizes, **changes})


WIDER = {**SIZES.as_dict()["layer"], "hidden": 64}
REFUSED: list[tuple[Callable[[DraftWeights], DraftWeights], type[Exception], str]] = [
    (lambda weights: replace(weights, kind="medusa"), ModelError, "kind 'medusa', not 'eagle'"),
    (lambda weights: replace(weights, sizes={}), ModelError, "do not have the sizes"),
    (with_sizes(layer={"heads": "many"}), ModelError, "do not have the sizes"),
    (with_sizes(layer={**WIDER, "hidden": "8"}), ModelError, "do not have the sizes"),
    (with_sizes(layer={**WIDER, "hidden": -8}), ModelError, "do not have the sizes"),
    (with_sizes(layer={**WIDER, "hidden": 1 << 40}), ModelError, "do not have the sizes"),
    (with_sizes(layer=WIDER), ModelError, "states of 64 numbers; this model's have 32"),
    (with_sizes(hidden_layers=(1, 7)), ModelError, "states of layer 7; this model has 2 layers"),
    (with_sizes(hidden_layers=(1,)), ModelError, "shapes of their sizes"),
    (lambda weights: replace(weights, vocabulary="another"), VocabularyMismatch, "another tokenizer"),
    (lambda weights: replace(weights, token_ids=np.array([3, SIZE])), ModelError, f"list token {SIZE}"),
]


@pytest.mark.parametrize(("change", "error", "text"), REFUSED)
def test_weights_that_do_not_fit_are_refused(
    change: Callable[[DraftWeights], DraftWeights], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        Eagle(change(random_weights())).prepare(Model("llama"))


def test_models_without_weights_are_refused() -> None:
    with pytest.raises(ModelError, match="an object has none"):
        Eagle(random_weights()).prepare(object())
