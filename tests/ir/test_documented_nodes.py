"""The examples of docs/ir.md compile and accept the texts next to them, and the page lists every node."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest

import structgen as sg
from structgen.constraints.base import IR, Constraint
from structgen.constraints.grammar.lowering import lower
from structgen.ir import grammar, plan, regex, schema
from structgen.ir.grammar import Grammar, GrammarFields, GrammarIR, Rule
from structgen.ir.schema import SchemaIR, SchemaNode, SchemaOptions

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "ir.md").read_text("utf-8")
SECTIONS = dict(re.findall(r"^## ([^\n]*)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))
VOCABULARY = sg.Vocabulary.of_bytes()


def rows(section: str) -> list[list[str]]:
    return [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in SECTIONS[section].splitlines()
        if line.startswith("| `")
    ]


def names(section: str) -> set[str]:
    return {name for row in rows(section) for name in re.findall(r"`([^`]*)`", row[0])}


EXAMPLES = [
    (section, row[2].strip("`"), row[3].strip("`"))
    for section in ("Plans", "Regular expressions", "Grammars", "Schemas")
    for row in rows(section)
    if len(row) == 4 and row[2]
]


class AsWritten(Constraint):
    """A constraint that lowers to a given plan."""

    __slots__ = ("plan",)

    def __init__(self, written: IR) -> None:
        object.__setattr__(self, "plan", written)

    def lower(self) -> IR:
        written: IR = self.plan  # type: ignore[attr-defined]
        return written

    def describe(self) -> str:
        return "as written"


def plan_of(section: str, example: str) -> IR:
    content: Any = eval(example, {})
    match section:
        case "Plans" if content[0] == "json":
            return ("json", SchemaIR(**content[1]))
        case "Plans" if content[0] == "grammar":
            return ("grammar", GrammarIR(content[1]))
        case "Plans":
            return content  # type: ignore[no-any-return]
        case "Regular expressions":
            return ("regex", content)
        case "Grammars":
            digit = ("text", ("class", ((48, 57),)))
            return lower(Grammar((Rule("start", content), Rule("digit", digit)), "start"))
        case _:
            return ("json", SchemaIR(nodes=content, root=0))


@pytest.mark.parametrize(("section", "example", "text"), EXAMPLES)
def test_the_example_accepts_its_text(section: str, example: str, text: str) -> None:
    matcher = sg.Matcher(AsWritten(plan_of(section, example)), VOCABULARY)
    assert matcher.accepts(list(text.encode())) == len(text.encode())
    assert all(matcher.advance(byte) for byte in text.encode())
    assert matcher.is_complete


def types_in(module: Any) -> set[str]:
    """The first items of the tuple types that a module exports."""
    firsts = [get_args(getattr(module, name))[:1] for name in module.__all__]
    return {get_args(first[0])[0] for first in firsts if first and get_origin(first[0]) is Literal}


def test_every_node_is_documented() -> None:
    assert names("Plans") == types_in(plan)
    assert names("Regular expressions") == types_in(regex)
    bodies = types_in(grammar) - {"declared"}
    assert bodies | set(GrammarFields.__annotations__) <= names("Grammars")
    keywords = set(SchemaNode.__annotations__) | set(SchemaOptions.__annotations__)
    assert names("Schemas") >= keywords
    assert schema.__all__
