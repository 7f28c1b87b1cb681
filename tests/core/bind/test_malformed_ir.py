"""Malformed IR, which no front end makes, raises an error that names the field.

It never causes a crash, a hang or a Python error from inside. Front ends and core meet at the IR, so an author of IR
needs to see what is wrong with it.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from structgen import _core
from structgen.vocabulary import Vocabulary

from ..grammar.test_grammars import EOS, EXPRESSIONS, ir_of, literal, random_case, vocabulary, with_constraint

KNOWN = vocabulary("ab( \n", b"aa", b"ab", b"((").with_limits(oracle_budget=2_000, emptiness_budget=2_000)
CONTROLS_MISSING = vocabulary("ab")
GOOD = ir_of("ordered", ["a+", "b"], [], ((0, -1, 0), (0, -2)))[1]
LINE = ("concat", (literal("\n"), ("repeat", literal(" "), 0, None)))
INDENTED = {
    **ir_of("longest", ["a", r"\(", "b"], [], ((0, -1, -4, 0), (0, -1, -4, -5, 0, -6), (0, -2, 0, -3), (0,)))[
        1
    ],
    "terminals": (
        ("text", "A", literal("a"), 0),
        ("text", "OPEN", literal("("), 0),
        ("text", "CLOSE", literal("b"), 0),
        ("text", "NEWLINE", LINE, 0),
        ("declared", "INDENT", None, 0),
        ("declared", "DEDENT", None, 0),
    ),
    "indentation": (3, 4, 5, (1,), (2,), 8),
}


def refused(ir: Any, vocabulary: Vocabulary = KNOWN) -> str:
    with pytest.raises(ValueError, match="malformed IR") as error:
        vocabulary.engine.compile(ir)
    return str(error.value)


def without(name: str) -> dict[str, Any]:
    return {key: value for key, value in GOOD.items() if key != name}


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({"lexing": None}, "lexing is not a string"),
        ({"lexing": "shortest"}, "lexing must be"),
        ({"contextual": "no"}, "contextual is not a boolean"),
        ({"start": "r0"}, "start is not an integer"),
        ({"start": -1}, "start names a rule that is not there"),
        ({"start": 2**70}, "start names a rule that is not there"),
        ({"rules": "r0"}, "rules is not a tuple"),
        ({"rules": ("r0", 1)}, "rules[1] is not a string"),
        ({"rules": ("\ud800",)}, "rules[0] is not a string of Unicode scalar values"),
        ({"scanners": (("repeat", literal("a")),)}, "scanners[0] has no element 3"),
        ({"scanners": (("repeat", literal("a"), -1, None),)}, "scanners[0][2] is not an integer from 0"),
        ({"terminals": (("text", "a"),)}, "terminals[0] is not a terminal"),
        ({"terminals": (("word", "a", literal("a"), 0),)}, "terminals[0][0] must be"),
        ({"terminals": (("text", "a", ("class", ((98, 97),)), 0),)}, "terminals[0][2][1][0] ends before"),
        ({"terminals": (("text", "a", ("class", (97, 98)), 0),)}, "terminals[0][2][1][0] is not a tuple"),
        (
            {"terminals": (("text", "a", ("look", 1, False, literal("a")), 0),)},
            "terminals[0][2][1] is not a boolean",
        ),
        (
            {"terminals": (("text", "a", ("vowel",), 0),)},
            "terminals[0][2][0] is no kind of regular expression: vowel",
        ),
        ({"terminals": (("text", "a", literal("a"), 9),)}, "terminals[0][3] names a scanner"),
        ({"terminals": (("text", "a", literal("a"), 1.0),)}, "terminals[0][3] is not an integer"),
        ({"terminals": (("special", "x", None, 0),)}, "terminals[0][2] is not a string"),
        ({"terminals": (("tokens", "x", (5, "line 1"), 0),)}, "terminals[0][2] is not a set of tokens"),
        (
            {"terminals": (("tokens", "x", (((5,),), (), "", False), 0),)},
            "terminals[0][2][0][0] is not a range",
        ),
        (
            {"terminals": (("tokens", "x", (((5, 4),), (), "", False), 0),)},
            "[0][2][0][0][1] is not an integer from 5",
        ),
        (
            {"terminals": (("tokens", "x", (None, (None,), "", False), 0),)},
            "terminals[0][2][1][0] is not a tuple",
        ),
        ({"terminals": (("tokens", "x", (None, (), "", True), 0),)}, "terminals[0][2] may be spelled only"),
        (
            {"terminals": (("constraint", "x", ("poem", ()), 0),)},
            "terminals[0][2][0] is no kind of constraint: poem",
        ),
        (
            {"terminals": (("constraint", "x", ("union", ()), 0),)},
            "terminals[0][2][1] is not a list of constraints",
        ),
        ({"ignore": (0, 5)}, "ignore[1] names a terminal that is not there"),
        ({"productions": 1}, "productions is not a tuple"),
        ({"productions": ((0,), ())}, "productions[1] is not a production"),
        ({"productions": ((0, 0), (1,))}, "productions[1][0] names a rule"),
        ({"productions": ((0, 0, -3),)}, "productions[0][2] names a symbol"),
        ({"productions": ((0, None),)}, "productions[0][1] is not an integer"),
        ({"indentation": (0, 1)}, "indentation is not an indentation"),
        ({"indentation": (0, 1, 1, (), (), 8)}, "indentation[1] names a terminal that is not declared"),
        ({"within": 7}, "within is not a tuple"),
    ],
)
def test_the_field_is_named(changes: dict[str, Any], where: str) -> None:
    assert where in refused(("grammar", {**GOOD, **changes}))


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ((4, 4, 5, (1,), (2,), 8), "indentation[0] names a terminal that is no text"),
        ((3, 4, 5, (1, 4), (2,), 8), "indentation[3][1] names a terminal that is no text"),
        ((3, 4, 5, (1,), (2,), -8), "indentation[5] is not an integer from 0 to 1000"),
    ],
)
def test_the_part_of_an_indentation_is_named(changes: Any, where: str) -> None:
    assert where in refused(("grammar", {**INDENTED, "indentation": changes}))


@pytest.mark.parametrize("name", sorted(GOOD))
def test_a_field_that_is_missing_is_named(name: str) -> None:
    assert f"has no {name}" in refused(("grammar", without(name)))


@pytest.mark.parametrize(
    "content",
    [
        {"root": 0},
        {"root": "0", "nodes": (True,)},
        {"root": 0, "nodes": 3},
        {"root": 0, "nodes": (None,)},
        {"root": 0, "nodes": ({"pointer": "", "types": "string"},)},
        {"root": 0, "nodes": ({"pointer": "", "items": 4},)},
        {"root": 0, "nodes": ({"pointer": "", "properties": ((1,),)},)},
        {"root": 0, "nodes": ({"pointer": "", "pattern": ("repeat", 1, 2, 3)},)},
        {"root": 0, "nodes": ({"pointer": "", "items": 1}, {"pointer": "/items", "ref": (1,)})},
        {"root": 0, "nodes": ({"pointer": "", "anyOf": ((1,),)}, {"pointer": "/anyOf/0", "allOf": (0,)})},
        None,
    ],
)
def test_a_schema_of_another_shape(content: Any) -> None:
    with pytest.raises(ValueError, match="IR|schema"):
        KNOWN.engine.compile(("json", content))


def test_endlessly_nested_constraints_are_refused() -> None:
    parts: list[Any] = []
    parts.append(("union", parts))
    with pytest.raises(_core.LimitError, match="nested more than 500 deep"):
        KNOWN.engine.compile(("union", parts))


def test_an_expression_with_shared_parts_is_examined_once() -> None:
    """As a tree it has more nodes than there is time for."""
    shared = literal("a")
    for _ in range(60):
        shared = ("alternate", (shared, ("concat", (literal("b"), shared))))
    program = CONTROLS_MISSING.engine.compile(("regex", shared))
    assert _core.Matcher(program).next_bytes(b"b" * 60) == (b"a", False)


# Random IR: what is malformed is refused, what happens to be IR is compiled and used.

JUNK: list[Any] = [
    None, True, False, 0, 1, -1, 2, 3, -3, 300, 2**31, -(2**31), 2**32, 2**63, -(2**63), 2**80, 1.5, "", "a",
    "text", "regex", "special", "\ud800", b"a", (), (0,), (0, 0), ((),), [], {}, ("literal", "a"), ("empty",),
    ("class", ()), ("repeat", ("literal", "a"), 2, 1), ("regex", ("empty",)), ("union", ()), EXPRESSIONS["a*"],
]  # fmt: skip


def places(ir: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    if isinstance(ir, dict):
        for key in ir:
            yield from places(ir[key], (*path, key))
    elif isinstance(ir, (tuple, list)):
        for i, part in enumerate(ir):
            yield from places(part, (*path, i))


def part_at(ir: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        ir = ir[key]
    return ir


def changed(ir: Any, path: tuple[Any, ...], value: Any) -> Any:
    if not path:
        return value
    if isinstance(ir, dict):
        return {**ir, path[0]: changed(ir[path[0]], path[1:], value)}
    parts = list(ir)
    parts[path[0]] = changed(parts[path[0]], path[1:], value)
    return type(ir)(parts)


def mutated(ir: Any, rng: random.Random) -> Any:
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        known = list(places(ir))
        path = rng.choice(known[1:] or known)
        value = part_at(ir, rng.choice(known)) if rng.random() < 0.4 else rng.choice(JUNK)
        part = part_at(ir, path)
        if isinstance(part, tuple) and part and rng.random() < 0.3:  # one more, one less
            at = rng.randrange(len(part))
            value = part[:at] + part[at + 1 :] if rng.random() < 0.5 else (*part[:at], value, *part[at:])
        elif isinstance(part, int) and rng.random() < 0.5:
            value = part + rng.choice([-2, -1, 1, 2])
        ir = changed(ir, path, value)
    return ir


def well_formed(rng: random.Random) -> Any:
    kind = rng.choice(["scannerless", "longest", "ordered", "constraint", "indented", "json"])
    if kind == "indented":
        return "grammar", INDENTED
    if kind == "json":
        node = {"pointer": "", "types": 127, "items": 0, "minItems": 1, "properties": (("a", 0),)}
        inner: Any = ("json", {"root": 0, "nodes": (node,)})
        return "sequence", (inner, ("regex", EXPRESSIONS["a+"]))
    if kind == "constraint":
        inner = rng.choice([("regex", EXPRESSIONS["b?"]), random_case(rng, "scannerless").ir])
        return with_constraint(inner, ((0,), (0, 0, -1, -2)), "a")
    return random_case(rng, kind).ir


@pytest.mark.parametrize("seed", range(40))
def test_random_ir_raises_an_error_or_compiles(seed: int) -> None:
    rng = random.Random(f"malformed {seed}")
    compiled = 0
    for _ in range(60):
        ir = mutated(well_formed(rng), rng)
        try:
            program = KNOWN.engine.compile(ir)
            if program.empty_parts() is not None:
                continue
            matcher = _core.Matcher(program)
            for _ in range(4):
                allowed = [i for i in range(KNOWN.size) if matcher.fork().advance(i)]
                matcher.mask()
                matcher.witness()
                onwards = [i for i in allowed if i != EOS]
                if not onwards:
                    break
                assert matcher.advance(rng.choice(onwards))
        except _core.LimitError:
            continue
        except ValueError as error:
            assert any(word in str(error) for word in ("IR", "schema", "surrogates", "the core")), ir
            continue
        compiled += 1
    assert compiled
