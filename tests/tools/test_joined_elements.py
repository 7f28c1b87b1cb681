"""XML elements with a text between them: the constraint against plain joining, for objects of many shapes."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from typing import Any

import jsonschema
import pytest

from structgen.tools import FORMATS, AssistantTurn, ToolCall, tools

from .turns import fits

DSML = FORMATS["deepseek_v32"]
MINIMAX = FORMATS["minimax_m2"].style
assert MINIMAX is not None
UNTYPED = replace(
    FORMATS["minimax_m2"],
    name="joined",
    call='<invoke name="$name">$arguments</invoke>',
    style=replace(MINIMAX, element='<parameter name="$name">$value</parameter>', between=", "),
)
KEYS = ["a", "b", "c", "z1", "z2"]


def schemas() -> list[dict[str, Any]]:
    """Return objects with every selection of required keys, other keys, and bounds on their number."""
    found = []
    for required in itertools.chain.from_iterable(itertools.combinations("abc", n) for n in range(4)):
        for more, least, most in itertools.product((False, {"type": "integer"}), (0, 1, 2), (None, 0, 1, 3)):
            schema: dict[str, Any] = {
                "type": "object",
                "properties": {key: {"type": "integer"} for key in "abc"},
                "required": list(required),
                "additionalProperties": more,
            }
            schema |= {"minProperties": least} if least else {}
            schema |= {"maxProperties": most} if most is not None else {}
            if (most is None or most >= max(least, len(required))) and not (
                more and least > len(required) + 1
            ):
                found.append(schema)
    return found


def element(key: str) -> str:
    return f'<｜DSML｜parameter name="{key}" string="false">1</｜DSML｜parameter>'


@pytest.mark.parametrize("part", range(8))
def test_joined_elements_are_allowed_where_they_are_valid(part: int) -> None:
    rng = random.Random(part)
    for schema in schemas()[part::8]:
        turn = tools([{"name": "f", "parameters": schema}], format="deepseek_v32")
        for keys in itertools.chain.from_iterable(itertools.combinations(KEYS, n) for n in range(5)):
            arguments = dict.fromkeys(keys, 1)
            joined = "\n".join(map(element, keys))
            before, after = DSML.begin + DSML.call.partition("$arguments")[0].replace("$name", "f"), DSML.end
            text = f"{before}{joined}\n</｜DSML｜invoke>{after}"
            is_valid = jsonschema.Draft202012Validator(schema).is_valid(arguments)
            assert fits(turn, text) is is_valid, (schema, keys)
            if not is_valid:
                continue
            wanted = AssistantTurn("", (ToolCall("f", arguments),))
            assert turn.render(wanted) == text and turn.read(text) == wanted
            wrong = rng.choice(["\n\n", ""])
            if len(keys) > 1:
                assert not fits(turn, text.replace(joined, wrong.join(map(element, keys))))
            assert not fits(turn, text.replace("\n</｜DSML｜invoke>", wrong + "</｜DSML｜invoke>"))


def test_a_style_without_types() -> None:
    for schema in schemas():
        if schema["additionalProperties"] or schema.keys() & {"minProperties", "maxProperties"}:
            continue
        turn = tools([{"name": "f", "parameters": schema}], format=UNTYPED)
        for keys in itertools.chain.from_iterable(itertools.combinations("abc", n) for n in range(4)):
            elements = ", ".join(f'<parameter name="{key}">1</parameter>' for key in keys)
            text = f'{UNTYPED.begin}<invoke name="f">{elements}</invoke>{UNTYPED.end}'
            assert fits(turn, text) is (set(schema["required"]) <= set(keys)), (schema, keys)
            if fits(turn, text):
                assert turn.read(text).calls == (ToolCall("f", dict.fromkeys(keys, 1)),)
                assert turn.render(turn.read(text)) == text
