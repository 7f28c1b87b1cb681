"""What a server enforces: types, patterns and grammars, each in the dialects that can express it."""

from __future__ import annotations

import datetime
import enum
import re
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

import structgen as sg
from structgen.types import output_type

from .answers import ALL, Person
from .http_server import Start

pytest.importorskip("httpx2")


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Tree(BaseModel):
    label: Literal["leaf", "node"]
    below: Annotated[list[Tree], Field(max_length=1)] = []


@pytest.mark.parametrize("dialect", ["structured_outputs", "json_schema"])
@pytest.mark.parametrize(
    "output",
    [
        Person,
        list[Person],
        Tree,
        Literal["yes", "no"],
        Colour,
        datetime.date,
        bool,
        int,
        sg.choice(["a", "b c"]),
        sg.json_schema({"type": "array", "items": {"enum": [1, "x"]}, "maxItems": 2}, whitespace="compact"),
    ],
    ids=str,
)
def test_types_are_enforced_by_the_server(start: Start, dialect: str, output: Any) -> None:
    world = start(enforces=ALL)
    with sg.connect(world.url, model="small", dialect=dialect, attempts=1) as model:
        result = sg.run(model, "Well?", output, max_tokens=400, seed=5)
        kept = output_type(output)
        if (
            kept.constraint.lower()[0] == "regex"
            and output is datetime.date
            and dialect == "structured_outputs"
        ):
            assert result.account.attempts[0].dialect in ("structured_outputs", "none")  # type: ignore[attr-defined]
        assert result.error is None, result.account  # type: ignore[attr-defined]
        assert len(world.requests) == 1
        *_, last = sg.stream(model, "Well?", output, max_tokens=400, seed=5)
        assert last == result.value


def test_regular_expressions_and_grammars(start: Start) -> None:
    world = start(enforces=ALL)
    with sg.connect(world.url, model="small", dialect="vllm", attempts=1) as model:
        assert sg.generate(model, "?", sg.regex("[ab]{3}")) in {
            a + b + c for a in "ab" for b in "ab" for c in "ab"
        }
        assert world.requests[-1]["structured_outputs"] == {"regex": "[ab]{3}"}
        assert sg.generate(model, "?", sg.gbnf('root ::= "x" | "y"')) in ("x", "y")
        assert world.requests[-1]["structured_outputs"] == {"grammar": 'root ::= "x" | "y"'}


def test_a_pattern_with_flags_is_more_than_its_text(start: Start) -> None:
    world = start(says=["ABC"])
    with sg.connect(world.url, model="small", dialect="vllm", attempts=1) as model:
        assert sg.generate(model, "?", sg.regex("abc", flags=re.IGNORECASE)) == "ABC"
        assert "structured_outputs" not in world.requests[-1]
