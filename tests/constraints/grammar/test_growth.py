"""Reading and compiling a grammar is linear in its text, in counted work rather than time.

Rules that use rules twice would double with each level if they were expanded. Chains of rules grow quadratically if
each contains the text of the next. Both must compile, or be refused by a named limit.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable
from functools import reduce
from itertools import pairwise
from typing import Any

import pytest

import structgen as sg
from structgen import _core
from structgen.constraints import expressions
from structgen.constraints.choice import choice
from structgen.constraints.expressions import MAX_PARTS
from structgen.constraints.grammar.lark.reader import ENTRIES
from structgen.errors import LimitExceeded

VOCABULARY = sg.Vocabulary.of_bytes()
Make = Callable[[int], sg.Constraint]


def _rules(define: str, body: str, last: str, depth: int) -> str:
    """Return a rule for each level; in `body`, D is the name of the next one."""
    names = [f"d{level}" for level in range(depth + 1)]
    lines = [f"{name}{define}{body.replace('D', following)}" for name, following in pairwise(names)]
    return "\n".join([*lines, f"{names[-1]}{define}{last}\n"])


def _bnf(body: str, last: str, depth: int) -> str:
    return "root ::= d0\n" + _rules(" ::= ", body, last, depth)


def _lark(body: str, depth: int) -> str:
    return "start: d0\n" + _rules(": ", body, '"a"', depth)


def _terminals(body: str, depth: int) -> str:
    return "start: D0\n" + _rules(": ", body, '"a"', depth).replace("d", "D")


def _templates(body: str, depth: int) -> str:
    text = _rules("{x}: ", body, "x", depth)
    for level in range(1, depth + 1):
        text = text.replace(
            f"{{x}}: {body.replace('D', f'd{level}')}\n", f"{{x}}: {body.replace('D', f'd{level}{{x}}')}\n"
        )
    return 'start: d0{A}\nA: "a"\n' + text


SHARED = ["D D", "D | D", '"x" D | "y" D', "D? D?", "(D D)*", '(D | "b") D', 'D "a" | D "b"', "D{2}"]
CHAINS = ['"a" D', 'D "a"', '"a" D "b"', '"a" D | "b"', "D", 'D? "a"', '(D | "b") "a"']


def _compiles(make: Callable[[], sg.Constraint]) -> bool:
    """Return whether the grammar compiles and has masks; False if it exceeds a named limit."""
    try:
        matcher = sg.Matcher(make(), VOCABULARY)
        matcher.mask()
        assert matcher.advance(ord("a")) or matcher.advance(ord("x"))
        matcher.mask()
    except LimitExceeded as error:
        assert error.limit and error.hint
        return False
    return True


@pytest.mark.parametrize("depth", [60, 600])
@pytest.mark.parametrize("body", SHARED)
def test_shared_rules_in_bnf(body: str, depth: int) -> None:
    for last in ('"a"', '"a" | ""', '"a" | "" | d0'):
        assert _compiles(lambda last=last: sg.gbnf(_bnf(body, last, depth)))  # type: ignore[misc]
    assert _compiles(lambda: sg.ebnf(_bnf(body, "[ab]*", depth)))


@pytest.mark.parametrize("depth", [60, 600])
@pytest.mark.parametrize("body", SHARED)
@pytest.mark.parametrize("lexer", ["lark", "longest"])
def test_shared_rules_in_lark(body: str, lexer: Any, depth: int) -> None:
    assert _compiles(lambda: sg.lark(_lark(body, depth), lexer=lexer))


@pytest.mark.parametrize("depth", [60, 300])
@pytest.mark.parametrize("body", ["D D", '(D | "b") D'])
@pytest.mark.parametrize("lexer", ["lark", "longest"])
def test_shared_terminals_and_templates(body: str, lexer: Any, depth: int) -> None:
    assert not _compiles(lambda: sg.lark(_terminals(body, depth), lexer=lexer))
    assert _compiles(lambda: sg.lark(_templates(body, depth), lexer=lexer))


def test_templates_whose_arguments_double() -> None:
    depth = 60
    lines = [f"t{level}{{x}}: t{level + 1}{{p{{x, x}}}}" for level in range(depth)]
    source = "\n".join(["start: t0{A}", *lines, f"t{depth}{{x}}: x", "p{x, y}: x | y", 'A: "a"'])
    with pytest.raises(LimitExceeded) as error:
        sg.lark(source)
    assert error.value.limit == "template_arguments"


@pytest.mark.parametrize("depth", [60, 190])
def test_nested_repetitions_in_patterns(depth: int) -> None:
    for inner in ("a{2}", "(a|b){2}", "a*", "(a|){2}"):
        pattern = "(" * depth + inner + "){2}" * depth
        _compiles(lambda pattern=pattern: sg.regex(pattern))  # type: ignore[misc]
        _compiles(
            lambda pattern=pattern: sg.gbnf("root ::= " + pattern.replace("a", '"a"').replace("b", '"b"'))
        )  # type: ignore[misc]


def _steps(action: Callable[[], object]) -> int:
    """Return the number of calls of Python and C functions."""
    count = 0

    def note(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        action()
    finally:
        sys.setprofile(before)
    return count


def _work(constraint: sg.Constraint) -> int:
    """Return the core's units of work for compiling and a first mask, without caches of other constraints."""
    vocabulary = sg.Vocabulary.of_bytes()
    vocabulary.engine  # noqa: B018  # made once
    before = _core.work_done()
    sg.Matcher(constraint, vocabulary).mask()
    return _core.work_done() - before


def _families() -> dict[str, Make]:
    families: dict[str, Make] = {
        "regex: letters": lambda n: sg.regex("ab" * n),
        "regex: choice": lambda n: sg.regex("|".join(f"a{i}b*" for i in range(n))),
        "choice": lambda n: choice([f"word {i}" for i in range(n)]),
        "lark: unused": lambda n: sg.lark('start: "b"\n' + _rules(": ", '"a" D', '"a"', n)),
        "lark: look-ahead": lambda n: sg.lark(_lark('"a" D', n) + "x: /b(?!c)/ d0\n%extend start: x"),
        "lark: long": lambda n: sg.lark(_lark('"a"{2} D', n)),
        "gbnf: uses": lambda n: sg.gbnf(
            'root ::= ("x" w)+\nw ::= [ab]+ ("c" | "d"){2,5} "ef"\n'
            + "".join(f"r{i} ::= w w w\n" for i in range(n))
        ),
    }
    for body in [*CHAINS, *SHARED]:
        families[f"gbnf: {body}"] = lambda n, body=body: sg.gbnf(_bnf(body, '"a"', n))  # type: ignore[misc]
        families[f"ebnf: {body}"] = lambda n, body=body: sg.ebnf(_bnf(body, "[ab]", n))  # type: ignore[misc]
        families[f"lark: {body}"] = lambda n, body=body: sg.lark(_lark(body, n))  # type: ignore[misc]
        families[f"longest: {body}"] = lambda n, body=body: sg.lark(_lark(body, n), lexer="longest")  # type: ignore[misc]
    return families


FAMILIES = _families()


@pytest.mark.parametrize("family", FAMILIES)
def test_work_grows_linearly(family: str) -> None:
    make = FAMILIES[family]
    make(50)  # imports and caches are warm
    once, twice = (_steps(lambda n=n: make(n)) for n in (150, 300))  # type: ignore[misc]
    assert twice < 2.6 * once + 1_000
    small, large = (len(pickle.dumps(make(n).lower())) for n in (150, 300))
    assert large < 3 * small + 10_000
    few, many = (_work(make(n)) for n in (150, 300))
    assert many < 3 * few + 100_000


# Contextual: completions are searched for from one Earley set to the next, nearest first.
COMPLETED: dict[str, tuple[Callable[[int], str], str]] = {
    "levels": (lambda n: "start: d0\n" + _rules(": ", 'D @x | "b" D', '"a"', n), "b"),
    "levels of patterns": (lambda n: "start: d0\nA: /b/\n" + _rules(": ", 'A D @x | "b" D', '"a"', n), "b"),
    "right recursion": (lambda n: 'start: e\ne: "b" e @x | "b" e | "a"\n', "b"),
    "both recursions": (lambda n: "start: e\ne: N @x e | @x e N | e N | N\nN: /[bc]+/\n", "bx"),
}


@pytest.mark.parametrize("family", COMPLETED)
def test_completions_next_to_constraints_grow_quadratically(family: str) -> None:
    """The completions of n rules, each of which may end in n sets, are searched once for each."""
    source, text = COMPLETED[family]

    def work(size: int) -> int:
        constraint = sg.lark(source(size), constraints={"x": sg.regex("[xy]")}, contextual=True)
        matcher = sg.Matcher(constraint, sg.Vocabulary.of_bytes())
        before = _core.work_done()
        assert all(matcher.advance(ord(character)) for character in text * size)
        matcher.mask()
        return _core.work_done() - before

    once, twice = work(80), work(160)
    assert twice < 5.5 * once + 10_000


def test_a_long_chain_of_rules_compiles() -> None:
    for body in CHAINS[:1]:
        assert _compiles(lambda body=body: sg.gbnf(_bnf(body, '"a"', 20_000)))  # type: ignore[misc]


def test_deep_chains_mean_what_they_say() -> None:
    for depth in (10, 3_000):
        matcher = sg.Matcher(sg.gbnf(_bnf('"a" D', '"b"', depth)), VOCABULARY)
        assert all(matcher.advance(ord("a")) for _ in range(depth)) and not matcher.is_complete()
        assert not matcher.advance(ord("a")) and matcher.advance(ord("b")) and matcher.is_complete()
    twice = sg.Matcher(sg.gbnf(_bnf("D D", '"a" | "b"', 60)), VOCABULARY)
    assert all(twice.advance(ord("ab"[place % 2])) for place in range(500)) and not twice.is_complete()


@pytest.mark.parametrize(
    ("make", "limit"),
    [
        (lambda: sg.gbnf('root ::= "' + "a" * 2_000_000 + '"'), "grammar_length"),
        (lambda: sg.ebnf('root ::= "' + "a" * 2_000_000 + '"'), "grammar_length"),
        (lambda: sg.lark('start: "' + "a" * 1_000_000 + '"'), "grammar_length"),
        (lambda: sg.regex("a" * 1_000_001), "pattern_length"),
        (lambda: sg.gbnf("root ::=" + "." * 500_001), "grammar_entries"),
        (lambda: sg.ebnf("root ::=" + " r" * 500_001), "grammar_entries"),
        (lambda: sg.lark('start: "b"{2} ' + '"a" ' * ENTRIES), "grammar_entries"),
        (lambda: choice(["a"] * (MAX_PARTS + 1)), "choice_texts"),
        (lambda: choice(["a" * 10_000_000, "b" * 10_000_001]), "choice_characters"),
    ],
)
def test_limits_have_names_and_hints(make: Callable[[], object], limit: str) -> None:
    with pytest.raises(LimitExceeded) as error:
        make()
    assert error.value.limit == limit and error.value.hint


def test_expressions_that_double_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expressions, "MAX_PARTS", 10_000)
    monkeypatch.setattr(expressions, "MAX_CHARACTERS", 100_000)
    for one in (sg.regex("ab"), sg.regex("a+b+"), sg.regex("a|bc+")):
        with pytest.raises(LimitExceeded) as error:
            reduce(lambda constraint, _: constraint + constraint, range(40), one)
        assert error.value.limit in ("expression_parts", "expression_characters")
    with pytest.raises(LimitExceeded):
        expressions.concat([expressions.literal("a" * 10_000)] * 11)
