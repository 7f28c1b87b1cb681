"""The dialect and the model of a server are detected; no list of models crashes the client."""

from __future__ import annotations

import warnings
from typing import Any, Literal

import pytest

import structgen as sg
from structgen import errors

from .answers import ALL, Person
from .http_server import Handler, Start

pytest.importorskip("httpx2")


@pytest.mark.parametrize(
    ("enforces", "found"),
    [
        (ALL, "structured_outputs"),
        (ALL - {"structured_outputs"}, "json_schema"),
        (frozenset({"json_object"}), "json_object"),
        (frozenset(), "none"),
    ],
)
def test_the_dialect_of_a_server_is_detected(start: Start, enforces: frozenset[str], found: str) -> None:
    world = start(enforces=enforces)
    with sg.connect(world.url) as model:
        assert model.dialect == found
        sent = len(world.requests)
        assert sent <= 3
        assert model.dialect == found and len(world.requests) == sent


def test_the_dialect_of_a_server_that_refuses_unknown_fields_is_detected(start: Start) -> None:
    def strict(body: dict[str, Any]) -> str:
        return "unknown field" if "structured_outputs" in body else ""

    world = start(enforces=ALL, refuses=strict)
    with sg.connect(world.url) as model:
        assert model.dialect == "json_schema"


def test_the_model_must_be_named_where_there_are_several(start: Start) -> None:
    world = start(models=("one", "two"))
    with sg.connect(world.url, dialect="none") as model, pytest.raises(errors.RemoteError, match="one, two"):
        sg.generate(model, "?", Person)


def test_the_error_names_the_missing_end_of_an_address(start: Start) -> None:
    world = start(models=())
    for url, is_named in ((world.url.removesuffix("/v1"), True), (world.url, False)):
        with sg.connect(url, dialect="none") as model, pytest.raises(errors.RemoteError) as caught:
            sg.generate(model, "?", Person)
        assert ("does not contain it" in str(caught.value)) == is_named


@pytest.mark.parametrize(
    "listed",
    [None, [], {"data": 3}, {"data": [1, {}, {"id": 2}]}, {"data": [{"id": "a", "owned_by": []}]}],
    ids=str,
)
def test_no_list_of_models_crashes_the_client(
    start: Start, monkeypatch: pytest.MonkeyPatch, listed: Any
) -> None:
    world = start(says=["yes"] * 9)
    monkeypatch.setattr(Handler, "do_GET", lambda handler: handler.send(200, listed))
    with sg.connect(world.url) as model, warnings.catch_warnings():
        warnings.simplefilter("ignore", errors.ConstraintNotSent)  # the server enforces nothing
        result = sg.run(model, "?", Literal["yes"])
        assert result.error is None or "model" in str(result.error)
