"""Brackets in grammars with indentation: masks do not start what cannot be closed or written between brackets."""

from __future__ import annotations

import functools
import itertools
import random
from typing import ClassVar

import pytest
from lark import Lark
from lark.exceptions import LarkError
from lark.indenter import Indenter

from structgen.constraints.base import Constraint
from structgen.constraints.grammar.bracket_depth import Brackets, with_brackets
from structgen.constraints.grammar.builders import lark
from structgen.errors import EmptyConstraint
from structgen.ir.grammar import Indentation
from structgen.matcher import Matcher
from structgen.shelf import grammar as shelf_grammar
from structgen.vocabulary import Vocabulary
from tests.core.small_vocabulary import EOS, allowed

INDENTATION = Indentation("_NL", "_INDENT", "_DEDENT", ("OPEN",), ("CLOSE",))
TERMINALS = (
    'A: "a"\nOPEN: "("\nCLOSE: ")"\n_NL: /(\\n *)+/\n%declare _INDENT _DEDENT\n'
    # Unused ones would not be terminals.
    "unused: _INDENT _DEDENT OPEN CLOSE _NL\n"
)
PIECES = ["a", "(", ")", "\n", "\n ", "()", "))", "((", "a)", ")a", "(a)", ")\n", "(\n", "a\na", ")))"]
SMALL = Vocabulary.from_tokens([None, None, *(piece.encode() for piece in PIECES)], EOS)


def constraint_of(rules: str, contextual: bool = False, terminals: str = TERMINALS) -> Constraint:
    return lark(f"{rules}\n{terminals}", indenter=INDENTATION, contextual=contextual)


def matcher_of(rules: str, contextual: bool = False, terminals: str = TERMINALS) -> Matcher | None:
    try:
        return Matcher(constraint_of(rules, contextual, terminals), SMALL)
    except EmptyConstraint:
        return None


def offered(matcher: Matcher) -> set[str]:
    pieces = {(SMALL.token_bytes(i) or b"").decode() for i in allowed(matcher.mask()) - set(EOS)}
    single = {i for i in range(len(EOS), SMALL.size) if matcher.fork().advance(i)}
    assert allowed(matcher.mask()) - set(EOS) == single, matcher.text
    return pieces


def after(matcher: Matcher, text: str) -> set[str]:
    fork = matcher.fork()
    for letter in text:
        assert fork.advance(len(EOS) + PIECES.index(letter))
    return offered(fork)


@pytest.mark.parametrize("contextual", [False, True])
def test_nothing_is_closed_that_is_not_open(contextual: bool) -> None:
    matcher = matcher_of("start: A CLOSE | A | OPEN A CLOSE", contextual)
    assert matcher is not None
    assert after(matcher, "a") == set()
    assert after(matcher, "(a") == {")"} | {"\n", "\n ", ")\n"} & after(matcher, "(a")
    unbalanced = matcher_of("start: (A | OPEN | CLOSE)*", contextual)
    assert unbalanced is not None
    assert ")" not in offered(unbalanced)
    assert {")", "()", "a)"} <= after(unbalanced, "(")
    assert not {"))", ")))"} & after(unbalanced, "(")
    assert "))" in after(unbalanced, "((")
    assert ")))" not in after(unbalanced, "((")
    assert ")))" in after(unbalanced, "(((")


@pytest.mark.parametrize(
    ("rules", "first"),
    [
        ("start: A CLOSE", None),
        ("start: A CLOSE | OPEN A", {"("}),
        ("start: OPEN A CLOSE CLOSE | A", {"a"}),
        ("start: OPEN x CLOSE | A\nx: A _NL A", {"a"}),
        ("start: OPEN x CLOSE | A\nx: A _NL A | A", {"a", "("}),
        ("start: x | OPEN x CLOSE\nx: CLOSE A OPEN", {"("}),
        ("start: OPEN x CLOSE\nx: OPEN y CLOSE\ny: CLOSE CLOSE CLOSE A OPEN OPEN OPEN", None),
        ("start: OPEN x | A\nx: A _NL _INDENT A _NL _DEDENT", {"a"}),
        ("start: x\nx: OPEN x CLOSE | CLOSE x OPEN", None),
    ],
)
def test_rules_that_cannot_be_completed_are_not_started(rules: str, first: set[str] | None) -> None:
    matcher = matcher_of(f'{rules}\n%ignore " "')
    if first is None:
        assert matcher is None
    else:
        assert matcher is not None
        assert {piece[0] for piece in offered(matcher)} == first


@pytest.mark.parametrize(
    ("rules", "text"),
    [
        ("start: x+\nx: A _NL | OPEN y CLOSE _NL\ny: A A | A _NL", "(a\na)\n"),
        ("start: OPEN A (A | _NL) CLOSE", "(a\na)"),
        ("start: OPEN A A CLOSE", "(a\na)"),
        ("start: A _NL OPEN A A CLOSE A", "a\n(a\na)a"),
        ("start: (OPEN A A CLOSE)+ A", "(a\na)(a\na)a"),
    ],
)
def test_newlines_in_brackets_separate(rules: str, text: str) -> None:
    terminals = TERMINALS.replace('A: "a"', "A: /a+/")
    matcher = Matcher(lark(f"{rules}\n{terminals}", indenter=INDENTATION), SMALL)
    for letter in text:
        assert matcher.advance(len(EOS) + PIECES.index(letter))
    assert matcher.is_complete()


BALANCED = ["A", "", "A x", "OPEN x CLOSE", "OPEN y CLOSE", "A _NL", "A _NL y", "x y", "CLOSE y OPEN",
            "A _NL _INDENT x _NL _DEDENT"]  # fmt: skip
BODIES = [*BALANCED, "OPEN x", "x CLOSE"]


class Theirs(Indenter):
    NL_type = "_NL"
    OPEN_PAREN_types: ClassVar[list[str]] = ["OPEN"]
    CLOSE_PAREN_types: ClassVar[list[str]] = ["CLOSE"]
    INDENT_type = "_INDENT"
    DEDENT_type = "_DEDENT"
    tab_len = 8


@functools.cache
def texts() -> list[str]:
    return ["".join(letters) for n in range(5) for letters in itertools.product("a()\n", repeat=n)]


@pytest.mark.parametrize("a", ["a", "a+"])
@pytest.mark.parametrize("seed", range(40))
def test_random_grammars_are_read_as_lark_reads_them(seed: int, a: str) -> None:
    """Masks lead to complete texts as well, if the change of the number of brackets by a rule is bounded.

    Inside brackets, lexemes of ``a+`` must be separated by a newline, since nothing else is ignored.
    """
    rng = random.Random(seed)
    bodies = BALANCED if seed % 2 else BODIES
    terminals = TERMINALS.replace('A: "a"', f"A: /{a}/")
    rules = "\n".join(
        f"{name}: " + " | ".join(rng.sample(bodies, rng.randint(1, 3))) for name in ("start", "x", "y")
    )
    theirs = Lark(f"{rules}\n{terminals}", parser="earley", lexer="basic", postlex=Theirs())

    def is_text(text: str) -> bool:
        try:
            theirs.parse(text)
        except (LarkError, AssertionError):
            return False
        return True

    matcher = matcher_of(rules, terminals=terminals)
    inside = {text for text in texts() if is_text(text)}
    if matcher is None:
        assert not inside
        return
    for text in texts():
        fork = matcher.fork()
        read = sum(itertools.takewhile(bool, (fork.advance(len(EOS) + PIECES.index(c)) for c in text)))
        assert (read == len(text) and fork.is_complete()) == (text in inside), text
    for _ in range(5):
        fork = matcher.fork()
        for _ in range(5):
            onwards = sorted(offered(fork))
            if not onwards:
                break
            fork.advance(len(EOS) + PIECES.index(rng.choice(onwards)))
        if bodies == BALANCED:
            assert fork.witness_text() is not None, (rules, fork.text)


def test_the_grammar_of_python_stays_as_it_is() -> None:
    """It has no rule with a bracket that is never closed, or with a line that ends between brackets."""
    kind, ir = shelf_grammar("python").lower()
    assert kind == "grammar"
    newline, indent, _, opening, closing, _ = ir["indentation"]
    brackets = Brackets(
        frozenset(~t for t in opening), frozenset(~t for t in closing), frozenset((~newline, ~indent))
    )
    again = with_brackets(ir["start"], ir["rules"], ir["productions"], brackets)
    assert again == (ir["start"], ir["rules"], ir["productions"])
