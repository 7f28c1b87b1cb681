"""Requests of OpenAI's own client, answered by a real model: their constraints, seeds and choices."""

from __future__ import annotations

import json
import re
from typing import Any

import jsonschema
import pytest

import structgen as sg
from structgen.server.completion_request import read_request
from structgen.server.reasoning import ChatTemplate
from structgen.server.settings import ServerSettings
from structgen.serving.requests import constraint_of

from .calls import PERSON, as_schema, ask
from .conftest import NAME


def test_a_schema_is_followed(client: Any) -> None:
    answer = ask(client, response_format=as_schema(PERSON))
    jsonschema.validate(json.loads(answer.choices[0].message.content), PERSON)
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage.completion_tokens > 5 and answer.usage.prompt_tokens > 5


def test_pydantic_models_are_parsed(client: Any) -> None:
    from typing import Literal

    from pydantic import BaseModel

    class Colour(BaseModel):
        name: Literal["red", "green"]

    answer = client.chat.completions.parse(
        model=NAME,
        messages=[{"role": "user", "content": "A colour?"}],
        response_format=Colour,
        max_tokens=30,
    )
    assert answer.choices[0].message.parsed.name in ("red", "green")


@pytest.mark.parametrize(
    ("extra", "pattern"),
    [
        ({"structured_outputs": {"regex": "[A-Z]{2}-[0-9]{3}"}}, "[A-Z]{2}-[0-9]{3}"),
        ({"structured_outputs": {"choice": ["yes", "no"]}}, "yes|no"),
        ({"structured_outputs": {"grammar": 'root ::= "a" [0-9] "b"'}}, "a[0-9]b"),
        ({"guided_regex": "x{3}"}, "xxx"),
        ({"guided_choice": ["one"]}, "one"),
        ({"structgen": {"grammar": 'start: "a" | "bc"'}}, "a|bc"),
        (
            {
                "structgen": {
                    "plan": {"actions": {"go": {"to": ["hall", "yard"]}}, "max_steps": 2},
                    "ltl": ["F go(yard)"],
                }
            },
            r"(go hall\n)?go yard(\ngo hall)?|go yard\ngo yard",
        ),
    ],
)
def test_other_constraints(client: Any, extra: dict[str, Any], pattern: str) -> None:
    answer = ask(client, extra=extra, seed=1)
    assert re.fullmatch(pattern, answer.choices[0].message.content)


def test_any_json_object(client: Any) -> None:
    answer = ask(client, response_format={"type": "json_object"}, max_tokens=50, seed=1)
    if answer.choices[0].finish_reason == "stop":
        assert isinstance(json.loads(answer.choices[0].message.content), dict)


def test_the_same_seed_draws_the_same(client: Any) -> None:
    texts = [ask(client, seed=5, max_tokens=8).choices[0].message.content for _ in range(2)]
    assert texts[0] == texts[1] and texts[0]
    assert (
        ask(client, "Count to a hundred.", temperature=0, max_tokens=8).choices[0].finish_reason == "length"
    )


def test_several_answers_share_the_prompt(client: Any) -> None:
    answer = ask(client, n=3, max_tokens=6, seed=2)
    assert [choice.index for choice in answer.choices] == [0, 1, 2]
    assert len({choice.message.content for choice in answer.choices}) > 1


def test_objects_are_closed_by_default(client: Any) -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {"a": {"const": 1}}, "required": ["a"]}
    nested = {"type": "array", "items": schema, "minItems": 1, "maxItems": 1}

    def texts(**options: Any) -> list[str]:
        answer = ask(client, seed=1, n=4, temperature=5.0, max_tokens=12, **options)
        return [choice.message.content for choice in answer.choices]

    assert texts(response_format=as_schema(schema)) == 4 * ['{"a": 1}']
    assert texts(response_format=as_schema(nested)) == 4 * ['[{"a": 1}]']
    opened: list[dict[str, Any]] = [
        {"response_format": as_schema({**schema, "additionalProperties": True})},
        {"response_format": as_schema(schema), "extra": {"structgen": {"closed": False}}},
        {"extra": {"guided_json": schema}},  # a field of vLLM, which takes schemas as the specification does
    ]
    for options in opened:
        assert any(text.startswith('{"a": 1, ') for text in texts(**options)), options


@pytest.mark.parametrize("closes", [True, False, None])
@pytest.mark.parametrize("key", ["guided_json", "structured_outputs", "response_format"])
def test_which_objects_are_closed(model: Any, key: str, closes: bool | None) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    constraints = {
        "guided_json": schema,
        "structured_outputs": {"json": schema},
        "response_format": as_schema(schema),
    }
    body = {"model": NAME, "messages": [{"role": "user", "content": "?"}], key: constraints[key]}
    own = {"structgen": {"closed": closes}}
    asked = read_request({**body, **own}, "chat", ServerSettings(), ChatTemplate(model))
    compiled = asked.compiler_spec()
    assert compiled is not None
    matcher = sg.Matcher(constraint_of(*compiled), sg.Vocabulary.of_bytes())
    is_closed = key == "response_format" if closes is None else closes
    assert matcher.explain('{"a": 1, "b": 2}').ok is not is_closed
