"""Lists in an order that temporal logic allows, with items of any constraint."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import structgen as sg
from structgen.errors import ConstraintError, OptionError, TypeNotSupported, UnsatisfiableFormula
from structgen.formulas import Formula, all_of
from tests.oracles.trace_semantics import holds
from tests.strategies.formulas import ATOMS, formulas

BYTES = sg.Vocabulary.of_bytes()
NESTED = sg.gbnf('root ::= "a" | "(" root ")"')
BACKUP = {
    "type": "object",
    "properties": {"tool": {"const": "backup"}, "to": {"type": "string"}},
    "required": ["tool", "to"],
    "additionalProperties": False,
}
DELETE = {
    "type": "object",
    "properties": {"tool": {"const": "delete"}, "files": {"type": "array", "items": {"type": "integer"}}},
    "required": ["tool", "files"],
    "additionalProperties": False,
}


def fits(constraint: sg.Constraint, text: str) -> bool:
    matcher = sg.Matcher(constraint, BYTES)
    return all(matcher.advance(byte) for byte in text.encode()) and matcher.is_complete()


@settings(max_examples=150, deadline=None)
@given(st.lists(formulas(ATOMS, leaves=5), max_size=2), st.sampled_from([None, 1, 2, 3]))
def test_exactly_the_lists(wanted: list[Formula], most: int | None) -> None:
    every = [items for length in range(1, 5) for items in itertools.product(ATOMS, repeat=length)]
    good = {
        items
        for items in every
        if holds(all_of(wanted), [frozenset([one]) for one in items]) and (most is None or len(items) <= most)
    }
    kinds: dict[str, Any] = {name: NESTED if name == "a" else name for name in ATOMS}
    try:
        found = sg.ltl.ltl_over(kinds, wanted, max_items=most)
    except ConstraintError:
        assert not good
        return
    for items in every:
        assert fits(found, "[" + ", ".join(items) + "]") == (items in good), items
        assert fits(found, "[" + ", ".join(items).replace("a", "((a))") + "]") == (items in good), items
    assert not fits(found, "[]")


def test_over_json() -> None:
    kinds = {"backup": sg.json_schema(BACKUP), "delete": sg.json_schema(DELETE)}
    found = sg.ltl.ltl_over(kinds, ["!delete W backup", "F delete"])
    saved, deleted = '{"tool": "backup", "to": "x"}', '{"tool": "delete", "files": [1, 2]}'
    assert fits(found, f"[{saved}, {deleted}]") and fits(found, f"[{saved}, {saved}, {deleted}, {deleted}]")
    assert not fits(found, f"[{deleted}]") and not fits(found, f"[{saved}]")
    matcher = sg.Matcher(found, BYTES)
    assert all(map(matcher.advance, b'[{"tool": "')) and matcher.forced_bytes().startswith(b"backup")
    called = "Calls: " + found + "."
    assert fits(called, f"Calls: [{saved}, {deleted}].")
    lines = sg.ltl.ltl_over(kinds, "!delete W backup", open="", close="", separator="\n")
    assert fits(lines, f"{saved}\n{deleted}")


def test_conflicts() -> None:
    with pytest.raises(UnsatisfiableFormula, match="no list satisfies F a; G !a together") as caught:
        sg.ltl.ltl_over({"a": "x", "b": "y"}, ["F b", "F a", "G !a"])
    assert caught.value.core == ("F a", "G !a")
    with pytest.raises(UnsatisfiableFormula, match="no list satisfies G !a & G !b$"):
        sg.ltl.ltl_over({"a": "x", "b": "y"}, "G !a & G !b")
    with pytest.raises(UnsatisfiableFormula, match="needs at least 2 items, but max_items is 1"):
        sg.ltl.ltl_over({"a": "x", "b": "y"}, "F a & F b", max_items=1)


def test_options() -> None:
    with pytest.raises(OptionError, match="items is empty"):
        sg.ltl.ltl_over({}, "true")
    with pytest.raises(OptionError, match="'c' is not a type of item"):
        sg.ltl.ltl_over({"a": "x"}, "F c")
    with pytest.raises(OptionError, match="max_items is 0"):
        sg.ltl.ltl_over({"a": "x"}, "F a", max_items=0)


@pytest.mark.parametrize(
    ("text", "most", "said"),
    [
        ("[b", None, "the list must satisfy !b W a"),
        ("[a]", None, "the list must satisfy F b"),
        ("[a, a, a", 3, "the list must end within 3 items"),
        ("[c", None, ""),
        ("[", None, ""),
    ],
)
def test_why_an_item_is_refused(text: str, most: int | None, said: str) -> None:
    listed = sg.ltl.ltl_over({"a": "a", "b": "b"}, ["!b W a", "F b"], max_items=most)
    message = sg.Matcher(listed, sg.Vocabulary.of_bytes()).explain(text)
    assert [one.message for one in message.rules] == ([said] if said else [])
    assert "__" not in str(message)


def test_separators_may_be_constraints() -> None:
    listed = sg.ltl.ltl_over(
        {"a": "a", "b": "b"}, "F b", separator=sg.regex(", ?"), open="", close=sg.regex(r"\.?")
    )
    for text in ("a,b", "a, b.", "b"):
        assert sg.Matcher(listed, sg.Vocabulary.of_bytes()).explain(text).ok
    with pytest.raises(TypeNotSupported, match="3 is a value, not a type"):
        sg.ltl.ltl_over({"a": 3}, "F a")
