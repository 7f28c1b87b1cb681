"""Drafters keep no model alive, and draft for the next one when it was freed."""

from __future__ import annotations

import gc
import pickle
import weakref
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from structgen.draft_training.online import OnlineDrafter  # noqa: E402
from structgen.generation import SamplingOptions, generate_tokens  # noqa: E402
from structgen.speculative import Fixed, LayerSkip, Speculation, defaults  # noqa: E402
from structgen.speculative.learned import DEL, Eagle  # noqa: E402
from structgen.speculative.per_model import PerModel  # noqa: E402
from tests.speculative.deep_models import DeepModel  # noqa: E402
from tests.speculative.learned.test_eagle import random_weights  # noqa: E402
from tests.speculative.tiny_sessions import Model  # noqa: E402


class Named:
    """An object with weak references."""


class Slotted:
    """An object without weak references."""

    __slots__ = ()


def test_a_value_is_that_of_the_last_model_while_it_lives() -> None:
    kept: PerModel[str] = PerModel()
    first, second = Named(), Named()
    assert kept.get(first) is None and kept.get(None) is None
    kept.set(first, "first")
    assert kept.get(first) == "first" and kept.get(second) is None
    kept.set(second, "second")
    del first  # the end of an earlier model changes nothing
    gc.collect()
    assert kept.get(second) == "second"
    copied = pickle.loads(pickle.dumps(kept))
    assert copied.get(second) is None
    del second
    gc.collect()
    assert kept._entry is None
    slotted = Slotted()
    kept.set(slotted, "third")
    assert kept.get(slotted) == "third"


def drafters() -> dict[str, Any]:
    return {
        "eagle": Eagle(random_weights(), least=0.0),
        "exits": DEL(every=1, least=0.0),
        "layers": LayerSkip(0.5, least=0.0, refresh=4),
        "online": OnlineDrafter(Eagle(random_weights(), least=0.0), every=2, steps=1, background=False),
    }


def drawn(model: Model, speculation: Speculation | None) -> list[int]:
    options = SamplingOptions(temperature=0.0, max_tokens=12)
    drafting = None if speculation is None else speculation.start(model)  # type: ignore[arg-type]
    (found,) = generate_tokens(model, [[5, 6, 7, 5, 6]], [None], options, drafting=drafting)  # type: ignore[arg-type]
    return list(found.tokens)


def made(name: str) -> Model:
    return DeepModel(idle=2) if name == "exits" else Model("llama")


@pytest.mark.parametrize("name", list(drafters()))
def test_a_model_is_freed_although_its_drafter_lives(name: str) -> None:
    speculation = Speculation([drafters()[name]], controller=Fixed(3))
    model = made(name)
    for _ in range(3):
        drawn(model, speculation)
    assert speculation.counts["drafted"]
    living = [weakref.ref(model), weakref.ref(model.model), weakref.ref(model.model.get_input_embeddings())]
    del model
    gc.collect()
    assert [each() for each in living] == [None] * 3
    again = made(name)
    before = speculation.counts["drafted"]
    assert drawn(again, speculation) == drawn(again, None)
    assert speculation.counts["drafted"] > before
    assert not any(record.failed for record in speculation.records)


def test_a_model_is_freed_although_it_has_a_speculation_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(defaults, "default_drafters", lambda model: (Eagle(random_weights(), least=0.0),))
    model = Model("llama")
    speculation = defaults.speculation_of(model)  # type: ignore[arg-type]
    drawn(model, speculation)
    assert defaults.speculation_of(model) is speculation and speculation.drafters[0]._ready.get(model)  # type: ignore[arg-type, attr-defined]
    living = [weakref.ref(model), weakref.ref(model.model), weakref.ref(speculation)]
    del model, speculation
    gc.collect()
    assert [each() for each in living] == [None] * 3
