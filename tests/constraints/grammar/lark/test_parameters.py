"""Rules with a parameter, against the grammar expanded by hand, and the positions of errors."""

from __future__ import annotations

import itertools
import random

import pytest

import structgen as sg
from structgen.constraints.grammar.lark.parameters import Parameters, evaluate, holds
from structgen.constraints.grammar.lark.source import Source
from structgen.errors import EmptyConstraint, GrammarSyntaxError, GrammarUnsupported, LimitExceeded
from tests.constraints.grammar.lark.accepting import takes, texts


def test_permutations() -> None:
    grammar = sg.lark(
        "start: perm::0x0\n"
        'perm::_ : "" %if is_ones([0:3])\n'
        '  | "a" perm::set_bit(0) %if bit_clear(0)\n'
        '  | "b" perm::set_bit(1) %if bit_clear(1)\n'
        '  | "c" perm::set_bit(2) %if bit_clear(2)\n'
    )
    wanted = {"".join(one) for one in itertools.permutations("abc")}
    assert {text for text in texts("abc", 4) if takes(grammar, text)} == wanted
    assert {rule.name for rule in grammar.grammar.rules} >= {"start", "perm::0x0", "perm::0x7"}
    assert grammar.grammar.position(
        next(one for one in grammar.grammar.rules if one.name == "perm::0x5")
    ) == (
        2,
        1,
    )


def test_counts_of_each_letter() -> None:
    grammar = sg.lark(
        "start: lst::0\n"
        'lst::_ : "a" lst::incr([0:2]) %if lt([0:2], 3)\n'
        '  | "b" lst::incr([2:4]) %if lt([2:4], 1)\n'
        '  | "." %if and(ge([0:2], 1), not(eq([2:4], 0)))\n'
    )
    for text in texts("ab", 5):
        a, b = text.count("a"), text.count("b")
        assert takes(grammar, text + ".") == (1 <= a <= 3 and b == 1), text


def test_conditions_in_groups_and_repetitions() -> None:
    grammar = sg.lark(
        'start: p::0\np::_ : ("a" %if bit_clear(0) | "b") p::set_bit(0) | ("x" %if bit_set(1))* "."'
    )
    assert takes(grammar, "abb.") and takes(grammar, ".") and takes(grammar, "b.")
    assert not takes(grammar, "aa.") and not takes(grammar, "ba.") and not takes(grammar, "x.")


@pytest.mark.parametrize("lexer", ["lark", "longest"])
@pytest.mark.parametrize("contextual", [True, False])
def test_with_every_lexer(lexer: str, contextual: bool) -> None:
    grammar = sg.lark(
        'start: up::0 "!"\nup::_ : A up::incr([0:2]) %if lt([0:2], 2) | B\nA: "a"\nB: /b+/\n%ignore " "',
        lexer=lexer,  # type: ignore[arg-type]
        contextual=contextual,
    )
    assert takes(grammar, "a a bbb !") and takes(grammar, "b!") and not takes(grammar, "aaab!")


FUNCTIONS = [
    "0x0",
    "3",
    "_",
    "set_bit(0)",
    "set_bit(2)",
    "clear_bit(1)",
    "bit_and(5)",
    "bit_or(0x2)",
    "incr([0:2])",
    "decr([1:3])",
]
CONDITIONS = [
    "true",
    "true()",
    "bit_clear(1)",
    "bit_set(0)",
    "is_ones([0:2])",
    "is_zeros([1:3])",
    *(f"{name}([0:2], 2)" for name in ("eq", "ne", "lt", "le", "gt", "ge")),
    *(f"bit_count_{name}(_, 1)" for name in ("eq", "ne", "lt", "le", "gt", "ge")),
    "and(bit_set(0), lt(_, 4))",
    "or(bit_set(2), not(bit_set(0)))",
]


def field(p: int, x: int, y: int) -> int:
    return int(format(p, "064b")[64 - y : 64 - x], 2)


def after(function: str, p: int) -> int:
    """Return the result of a function, as the documentation defines it."""
    bits = [bool(p >> n & 1) for n in range(64)]
    if function in ("0x0", "3"):
        return int(function, 0)
    if function.startswith("set_bit"):
        bits[int(function[8])] = True
    elif function.startswith("clear_bit"):
        bits[int(function[10])] = False
    elif function == "bit_and(5)":
        bits = [bit and n in (0, 2) for n, bit in enumerate(bits)]
    elif function == "bit_or(0x2)":
        bits[1] = True
    elif function == "incr([0:2])":
        return p if field(p, 0, 2) == 3 else p + 1
    elif function == "decr([1:3])":
        return p if field(p, 1, 3) == 0 else p - 2
    return sum(bit << n for n, bit in enumerate(bits))


def is_true(condition: str, p: int) -> bool:
    low, ones = field(p, 0, 2), bin(p).count("1")
    compared = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
    known = {
        "true": True,
        "true()": True,
        "bit_clear(1)": not p & 2,
        "bit_set(0)": bool(p & 1),
        "is_ones([0:2])": low == 3,
        "is_zeros([1:3])": field(p, 1, 3) == 0,
        "and(bit_set(0), lt(_, 4))": bool(p & 1) and p < 4,
        "or(bit_set(2), not(bit_set(0)))": bool(p & 4) or not p & 1,
    }
    if condition in known:
        return known[condition]
    name = condition.removeprefix("bit_count_")[:2]
    return bool(eval(f"{ones} {compared[name]} 1" if "count" in condition else f"{low} {compared[name]} 2"))


def test_functions_and_conditions_are_those_of_the_documentation() -> None:
    for p in [*range(16), 2**63, 2**64 - 1, 2**64 - 2]:
        for function in FUNCTIONS:
            assert evaluate(Parameters(Source(function), 0).expression(), p) == after(function, p), (
                function,
                p,
            )
        for condition in CONDITIONS:
            assert holds(Parameters(Source(condition), 0).condition(), p) == is_true(condition, p), (
                condition,
                p,
            )


def language(rules: dict[str, list[tuple[list[str], str]]], most: int) -> set[str]:
    """Return the texts of ``p::0`` up to a length, by a fixed point over all rules with all parameters below 16."""
    known: dict[tuple[str, int], set[str]] = {(name, p): set() for name in rules for p in range(16)}
    while True:
        size = sum(map(len, known.values()))
        for name, p in known:
            for parts, condition in rules[name]:
                if not is_true(condition, p):
                    continue
                found = {""}
                for part in parts:
                    more = (
                        {part[1]}
                        if part[0] == '"'
                        else known[part.split("::")[0], after(part.split("::")[1], p)]
                    )
                    found = {one + two for one in found for two in more if len(one + two) <= most}
                known[name, p] |= found
        if sum(map(len, known.values())) == size:
            return known["p", 0]


@pytest.mark.parametrize("seed", range(60))
def test_against_the_grammar_written_out(seed: int) -> None:
    draw = random.Random(seed)

    def part() -> str:
        if draw.random() < 0.6:
            return draw.choice(['"a"', '"b"'])
        return f"{draw.choice('pq')}::{draw.choice(FUNCTIONS)}"

    rules = {
        name: [([part() for _ in range(draw.randint(0, 3))], draw.choice(CONDITIONS)) for _ in range(3)]
        for name in "pq"
    }
    rules["p"].append((['"a"', "q::_"], "bit_clear(1)"))
    source = "start: p::0\n"
    for name, alternatives in rules.items():
        written = " | ".join(f"{' '.join(parts) or chr(34) * 2} %if {one}" for parts, one in alternatives)
        source += f"{name}::_ : {written} | q::set_bit(0) %if and(bit_set(0), bit_clear(0))\n"
    try:
        grammar = sg.lark(source)
        found = {text for text in texts("ab", 4) if takes(grammar, text)}
    except EmptyConstraint:
        found = set()
    assert found == language(rules, 4), source


def test_many_instances_are_shared() -> None:
    grammar = sg.lark(
        'start: aa::0 "X"\naa::_ : "a" aa::incr(_) %if lt(_, 180) | bb::_\nbb::_ : "b" bb::incr(_) %if lt(_, 180) | ""'
    )
    assert takes(grammar, "a" * 100 + "b" * 80 + "X") and not takes(grammar, "a" * 100 + "b" * 81 + "X")


def test_limits() -> None:
    counters = " | ".join(f'"{c}" l::incr([{8 * n}:{8 * n + 8}])' for n, c in enumerate("abcd"))
    with pytest.raises(LimitExceeded, match="20,000 instances") as caught:
        sg.lark(f'start: l::0\nl::_ : {counters} | "X"')
    assert caught.value.limit == "parametric_instances"
    with pytest.raises(GrammarSyntaxError, match="50 deep"):
        sg.lark('start: l::0\nl::_ : "a" %if ' + "not(" * 100 + "true" + ")" * 100)


@pytest.mark.parametrize(
    ("source", "message", "place"),
    [
        ("start: a::1\na: X\nX: /x/", "the rule a has no parameter", (1, 8)),
        ("start: a\na::_ : a::_", "the rule a has a parameter", (1, 8)),
        ("start: a::_\na::_ : a::_", "has no parameter", (1, 8)),
        ("start: a::1\na:: a", "must be written as _", (2, 4)),
        ('start: a::1\na::_ : "a"', "does not use its parameter", (2, 1)),
        ('start: "a" %if bit_set(0)', "has no parameter", (1, 12)),
        ('A: "b" %if true\nstart: A', "a terminal cannot contain", (1, 8)),
        ("A: q::0\nstart: A\nq::_ : q::_", "a terminal cannot contain", (1, 4)),
        ('A::_ : "a"\nstart: A', "a terminal cannot have a parameter", (1, 2)),
        ('start: a::0\na::_ : "a" %if eq([3:3], 0)', "range of bits is empty", (2, 19)),
        ('start: a::0\na::_ : "a" %if eq([64:65], 0)', "too large", (2, 20)),
        ('start: a::0\na::_ : "a" %if eq(0, 0)', "a range of bits is missing", (2, 19)),
        ('start: a::0\na::_ : "a" %if foo(0)', "unknown condition 'foo'", (2, 16)),
        ("start: a::0\na::_ : a::add(1)", "unknown function 'add'", (2, 11)),
        ("start: a::0\na::_ : a::set_bit(_)", "this is not a number", (2, 19)),
        ("start: a::0\na::_ : a::set_bit(64)", "too large", (2, 19)),
        ("start: a::0\na::_ : a::set_bit 1", "'(' is missing", (2, 19)),
        ("start: a::0\na::_ : a::", "a number, _ or a function", (2, 11)),
        ('start: a::0\na::_ : "a" %if true "b" a::_', "a condition must be last in its alternative", (2, 21)),
        ("start::_ : start::_", "cannot be the start", (1, 1)),
        (f"start: a::{2**64}\na::_ : a::_", "too large", (1, 11)),
    ],
)
def test_errors_have_a_place(source: str, message: str, place: tuple[int, int]) -> None:
    with pytest.raises(GrammarSyntaxError, match=message.replace("(", r"\(")) as caught:
        sg.lark(source)
    assert (caught.value.line, caught.value.column) == place and caught.value.hint


def test_options_of_rules_with_a_parameter_are_refused() -> None:
    with pytest.raises(GrammarUnsupported, match="options of a rule with a parameter") as caught:
        sg.lark('start: a::0\na::_[lazy]: "x" a::_')
    assert (caught.value.line, caught.value.column) == (2, 5)
