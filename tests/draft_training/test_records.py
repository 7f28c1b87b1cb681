"""Requests for records as JSON, which the model writes itself."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from structgen.draft_training.records import record_requests
from structgen.draft_training.requests import constraint_of, written_requests
from structgen.errors import ModelError, OptionError
from tests.embedded import shallow_model


@pytest.fixture(scope="module")
def model() -> Any:
    return shallow_model()


def test_each_request_shows_a_text_of_the_model_and_has_a_schema_of_its_own(model: Any) -> None:
    first = record_requests(model, 6, (3, 0))
    assert [request.prompt for request in record_requests(model, 6, (3, 0))] == [
        request.prompt for request in first
    ]
    assert {tuple(request.prompt) for request in record_requests(model, 6, (3, 1))}.isdisjoint(
        tuple(request.prompt) for request in first
    )
    assert len({str(request.source) for request in first}) > 3
    for request in first:
        assert request.source is not None and request.constraint is not None
        schema = request.source["schema"]
        assert schema["required"] == list(schema["properties"]) and 4 <= len(schema["required"]) <= 8
        prompt = model.vocabulary.decode(request.prompt)
        assert b"JSON" in prompt or b"record" in prompt
        assert b"b'" not in prompt and b'b"' not in prompt
        again = constraint_of(request.source)
        assert again is not None and again.lower() == request.constraint.lower()


def test_all_requests_may_request_records(model: Any) -> None:
    """The first layers alone never end a prompt of their own, so nothing else can be requested."""
    asked = list(itertools.islice(written_requests(model, seed=5, batch=2, records=1.0), 4))
    assert [request.kind for request in asked] == ["JSON"] * 4
    assert asked[0].prompt != asked[2].prompt
    with pytest.raises(ModelError, match="has written no prompt"):
        next(written_requests(model, seed=5, batch=2, records=0.25))
    with pytest.raises(OptionError, match="records is 1.5"):
        next(written_requests(model, records=1.5))
