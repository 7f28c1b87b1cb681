"""What a prompt says about constraints that no type describes: formulas of temporal logic in English."""

from __future__ import annotations

import pytest

import structgen as sg
from structgen import ltl
from structgen.api import described
from structgen.remote.format_prompt import with_format_description
from structgen.types import output_type

ORDER = "!delete W backup"
FORMULAS = [ORDER, "F delete"]
ITEMS = {"backup": sg.regex('"b[0-9]"'), "delete": sg.json_schema({"const": "d"})}


def backup() -> str: ...


def delete() -> str: ...


LIST = sg.ltl.ltl_over(ITEMS, FORMULAS, max_items=4)
PLAN = sg.plan({"go": {"room": ["hall", "kitchen"]}}, ["F go(kitchen)"], max_steps=3)
TURN = sg.tools([backup, delete], order=ORDER)
CASES = {
    "list": (LIST, FORMULAS),
    "plan": (PLAN, ["F go(kitchen)"]),
    "turn": (TURN, [ORDER]),
    "after reasoning": (sg.reasoning(LIST), FORMULAS),
    "a regular one after reasoning": (sg.reasoning(PLAN), ["F go(kitchen)"]),
    "a regular one, optional and repeated": (sg.repeat(sg.optional(PLAN), 1), ["F go(kitchen)"]),
    "a regular one after a trigger": (sg.dispatch({"<p>": PLAN + "</p>"}), ["F go(kitchen)"]),
    "a regular one in a sequence": (PLAN + "!", ["F go(kitchen)"]),
    "repeated": (sg.repeat(LIST, 1, 2), FORMULAS),
    "in a sequence": ("Plan: " + LIST + "\n" + PLAN, [*FORMULAS, "F go(kitchen)"]),
    "either": (LIST | sg.json_schema(True), FORMULAS),
    "after a trigger": (sg.dispatch({"<list>": LIST + "</list>"}), FORMULAS),
    "within a pattern": (sg.ltl.ltl_over({"a": "x", "b": "y"}, "F b") & sg.regex(".{0,9}"), ["F b"]),
}


@pytest.mark.parametrize("name", CASES)
def test_formulas_are_described_in_english(name: str) -> None:
    constraint, formulas = CASES[name]
    kind = output_type(constraint)
    for text in (
        described("Do it.", kind),
        described([{"role": "user", "content": "Do it."}], kind)[-1]["content"],
        with_format_description([{"role": "user", "content": "Do it."}], kind)[-1]["content"],
    ):
        assert text.startswith("Do it.\n\n")
        for formula in formulas:
            assert text.count(ltl.english(formula)) == 1, formula


def test_names_and_lengths_are_described() -> None:
    assert output_type(LIST).description == (
        "Write a list of these kinds of items: backup, delete. It has at most 4 items. "
        "Its order: Not `delete` before `backup`. At some point `delete`."
    )
    assert output_type(PLAN).description == (
        'Write a plan. Its actions are ["go hall", "go kitchen"], with "\\n" between two. '
        "It has at most 3 actions. Its rules: At some point `go(kitchen)`."
    )


@pytest.mark.parametrize(
    "constraint", [sg.regex("a"), sg.json_schema(True), sg.text("x"), sg.tools([backup])]
)
def test_other_constraints_add_nothing(constraint: sg.Constraint) -> None:
    assert described("Do it.", output_type(constraint)) == "Do it."
