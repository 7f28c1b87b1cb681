"""Long lists are charged while they are read, so that a limit can end a call in the middle of one.

The core's own meter counts the work, so no machine is too slow for these tests. Hashes have a random seed, and longer
chains in tables cost more, so figures differ by 1 % between processes: bounds stay well below them. The tests check
two things of calls whose input has many parts. Each part is charged, because a limit cannot end a loop that charges
nothing. A call checks its limits often: it charges little beyond a limit of steps before it ends.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import pytest

import structgen as sg
from structgen import _core
from structgen.constraints.base import Constraint

COUNT = 10_000
MOST_BEYOND = 48_000
"""Units that a call may charge beyond its limit: less than 1 ms. A table that grows is charged at once."""

Call = Callable[[], object]


def names(prefix: str = "key") -> list[str]:
    return [f"{prefix}{i}" for i in range(COUNT)]


def rules() -> str:
    many = [f'r{i} ::= "a" r{(i * 7 + 1) % COUNT} "b" | "c"' for i in range(COUNT)]
    return "\n".join(["root ::= " + " | ".join(f"r{i}" for i in range(COUNT)), *many])


OBJECTS: dict[str, dict[str, Any]] = {
    "properties": {"properties": {name: {"type": "integer"} for name in names()}},
    "required": {"required": names()},
    "dependentRequired": {"dependentRequired": {"key": names()}},
}
LARGE: dict[str, Callable[[], Constraint]] = {
    **{name: partial(sg.json_schema, {"type": "object", **schema}) for name, schema in OBJECTS.items()},
    "many dependentRequired": lambda: sg.json_schema(
        {"type": "object", "dependentRequired": {name: ["other"] for name in names()}}
    ),
    "patternProperties": lambda: sg.json_schema({"patternProperties": {f"^{name}$": {} for name in names()}}),
    "enum of texts": lambda: sg.json_schema({"enum": names()}),
    "enum of numbers": lambda: sg.json_schema({"enum": list(range(COUNT))}),
    "anyOf of constants": lambda: sg.json_schema({"anyOf": [{"const": i} for i in range(COUNT)]}),
    "allOf of negations": lambda: sg.json_schema({"allOf": [{"not": {"const": i}} for i in range(COUNT)]}),
    "prefixItems": lambda: sg.json_schema({"prefixItems": [{"minimum": i} for i in range(COUNT)]}),
    "alternatives of a pattern": lambda: sg.regex("|".join(names())),
    "a long pattern": lambda: sg.regex("[ab][cd]?" * COUNT),
    "choice": lambda: sg.choice(names()),
    "rules": lambda: sg.gbnf(rules()),
}
LEAST_WORK = {  # units for each part
    "properties": 60, "required": 3, "dependentRequired": 3, "many dependentRequired": 120, "patternProperties": 85,
    "enum of texts": 3, "enum of numbers": 3, "anyOf of constants": 45, "allOf of negations": 90, "prefixItems": 45,
    "alternatives of a pattern": 4, "a long pattern": 29, "choice": 4, "rules": 35,
}  # fmt: skip
LEAST_WORK_OF_OPENING = {"properties": 60, "required": 38, "dependentRequired": 65}


def work_of(call: Call) -> int:
    before = _core.work_done()
    call()
    return _core.work_done() - before


def beyond(call: Call, steps: int) -> int:
    """Units that a call charges after its limit of `steps`, until it ends."""
    before = _core.work_done()
    with pytest.raises(_core.LimitError), _core.CallLimits(steps=steps):
        call()
    return _core.work_done() - before - steps


@pytest.mark.parametrize("name", LARGE)
def test_compiling_charges_each_part_and_ends_soon(name: str) -> None:
    tree = LARGE[name]().lower()

    def compiled() -> None:
        sg.Vocabulary.of_bytes().engine.compile(tree)

    work = work_of(compiled)
    assert work > LEAST_WORK[name] * COUNT
    assert max(beyond(compiled, int(work * part)) for part in (0.5, 0.7, 0.9)) < MOST_BEYOND


@pytest.mark.parametrize("name", OBJECTS)
def test_opening_an_object_charges_each_key_and_ends_soon(name: str) -> None:
    program = sg.Vocabulary.of_bytes().engine.compile(LARGE[name]().lower())

    def opened() -> None:
        matcher = _core.Matcher(program)
        matcher.advance(ord("{"))
        matcher.mask()

    limits = [beyond(opened, steps) for steps in (5 * COUNT, 10 * COUNT, 15 * COUNT)]
    assert max(limits) < MOST_BEYOND
    assert work_of(opened) > LEAST_WORK_OF_OPENING[name] * COUNT


def test_reading_productions_charges_each_symbol() -> None:
    """Rules become bodies for the core, and productions for Python."""
    bodies: dict[str, Any] = {
        f"r{i}": ("sequence", (("terminal", f"t{i}"), ("terminal", "t"))) for i in range(COUNT)
    }
    bodies["start"] = ("choice", tuple(("rule", f"r{i}") for i in range(COUNT)))
    assert work_of(lambda: _core.lower_bodies(bodies, "start", [], lambda _: False)) > 60 * COUNT


def test_reading_a_lark_grammar_charges_each_rule() -> None:
    text = "start: " + " | ".join(f"r{i}" for i in range(COUNT)) + "\n"
    text += "".join(f'r{i}: "a" r{i} | "b"\n' for i in range(COUNT))
    assert work_of(lambda: _core.read_lark(text, False)) > 80 * COUNT


def test_an_index_of_keys_is_rebuilt_after_a_limit_interrupts_it() -> None:
    """The branches that name a key are looked up in an index, which is made with the first key."""
    branches = [{"properties": {f"k{i}": {"const": i}}, "required": [f"k{i}"]} for i in range(40)]
    tree = sg.json_schema({"type": "object", "anyOf": branches, "maxProperties": 1}).lower()

    def masks(steps: int | None) -> list[bytes]:
        matcher = _core.Matcher(sg.Vocabulary.of_bytes().engine.compile(tree))
        made = []
        for byte in b'{"k39":':
            if steps is not None:
                with suppress(_core.LimitError), _core.CallLimits(steps=steps):
                    matcher.fork().mask()
            made.append(matcher.mask().tobytes())
            if steps is not None:
                with suppress(_core.LimitError), _core.CallLimits(steps=steps):
                    matcher.fork().advance(byte)
            assert matcher.advance(byte)
        return [*made, matcher.mask().tobytes()]

    expected = masks(None)
    assert all(masks(steps) == expected for steps in range(20, 4_000, 97))
