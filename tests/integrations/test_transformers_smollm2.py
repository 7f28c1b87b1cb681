"""The logits processor with the embedded model: drafts change the speed and never the text."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import BaseModel, Field

import structgen as sg

pytest.importorskip("torch")
pytest.importorskip("transformers")

from structgen.integrations.transformers import ConstraintProcessor
from tests.embedded import embedded_model

PROMPT = 'Copy this as JSON: {"name": "Ann Miller", "age": 31, "city": "Oslo"}'


class Person(BaseModel):
    name: str = Field(max_length=30)
    age: int = Field(ge=0, le=130)
    city: str = Field(max_length=30)


@pytest.fixture(scope="module")
def model() -> Any:
    return embedded_model()


def generate(model: Any, processor: Any, **options: Any) -> str:
    import torch

    ids = torch.tensor([model.encode(PROMPT)])
    output = model.model.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        logits_processor=[processor],
        max_new_tokens=80,
        do_sample=False,
        **options,
    )
    text: str = model.tokenizer.decode(output[0, ids.shape[1] :], skip_special_tokens=True)
    return text


def test_prompt_lookup_and_assistance_give_the_plain_text(model: Any) -> None:
    processor = ConstraintProcessor(Person, model)
    plain = generate(model, processor)
    assert set(json.loads(plain)) == {"name", "age", "city"}
    assert generate(model, processor, prompt_lookup_num_tokens=6) == plain
    # The model drafts for itself, and the processor is called for every draft token.
    assert generate(model, processor, assistant_model=model.model) == plain


def test_the_text_is_what_structgen_generates_itself(model: Any) -> None:
    plain = generate(model, ConstraintProcessor(Person, model))
    assert plain == sg.run(model, PROMPT, Person, max_tokens=80).text


def test_beams(model: Any) -> None:
    text = generate(model, ConstraintProcessor(Person, model), num_beams=2)
    assert set(json.loads(text)) == {"name", "age", "city"}
