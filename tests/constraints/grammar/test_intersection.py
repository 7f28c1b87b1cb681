"""The intersection of a grammar and a pattern, `grammar & pattern`: its texts, what is refused, and explanations.

Texts, masks and completions of random ones are tested against enumeration in tests/core/grammar/test_grammars.py.
"""

from __future__ import annotations

import itertools
import pickle

import pytest

import structgen as sg
from structgen.constraints.base import Constraint
from structgen.errors import CombinationError, EmptyConstraint
from structgen.matcher import Matcher
from structgen.vocabulary import Vocabulary

VOCABULARY = Vocabulary.from_tokens([*(bytes([byte]) for byte in range(256)), None], [256])
NESTED = sg.gbnf('root ::= "a" root "b" | "c"')


def accepts(constraint: Constraint, text: str) -> bool:
    return Matcher(constraint, VOCABULARY).native.next_bytes(text.encode())[1]


@pytest.mark.parametrize(
    "constraint",
    [
        NESTED & sg.regex("a{2,3}cb*"),
        sg.regex("a{2,3}cb*") & NESTED,
        NESTED & sg.regex("a{2,}.*") & sg.regex(".{0,7}"),
        sg.lark('start: "a" start "b" | "c"\n%ignore " "') & sg.regex("a{2,3}cb*"),
    ],
)
def test_both_must_hold(constraint: Constraint) -> None:
    for count, more in itertools.product(range(5), range(5)):
        assert accepts(constraint, "a" * count + "c" + "b" * more) == (count == more and 2 <= count <= 3)
    assert Matcher(constraint, VOCABULARY).viable_bytes("aaaa") == 3
    assert Matcher(constraint, VOCABULARY).witness_text() == b"aacbb"


def test_white_space_that_a_grammar_ignores_counts_for_the_expression() -> None:
    constraint = sg.lark('start: "a" start "b" | "c"\n%ignore " "') & sg.regex("[abc]+ [abc ]{2}")
    assert accepts(constraint, "ac b ")
    assert not accepts(constraint, "acb")
    assert Matcher(constraint, VOCABULARY).viable_bytes("acb x") == 4


def test_what_shares_no_text_is_empty() -> None:
    constraint = sg.gbnf('root ::= "a" root "b" | "ab"') & sg.regex("a*c")
    with pytest.raises(EmptyConstraint, match="the GBNF grammar of `root` & a regular expression"):
        Matcher(constraint, VOCABULARY)


def test_it_is_a_constraint_like_any_other() -> None:
    constraint = NESTED & sg.regex("a{2}.*")
    assert pickle.loads(pickle.dumps(constraint)) == constraint
    assert constraint == NESTED & sg.regex("a{2}.*")
    assert constraint != NESTED
    assert accepts("<" + constraint + ">", "<aacbb>")
    assert not accepts("<" + constraint + ">", "<acb>")
    assert accepts(sg.repeat(constraint, 2, 2), "aacbbaacbb")
    assert not accepts(sg.repeat(constraint, 2, 2), "aacbbacb")
    union = (NESTED | "xyz") & sg.regex("a*cb*|.x.")
    assert accepts(union, "acb")
    assert not accepts(union, "xyz")


def test_what_may_be_empty_may_be_left_out() -> None:
    balanced = sg.gbnf('root ::= ("a" root "b")?')
    assert accepts(sg.repeat(balanced & sg.regex("(?:..)*"), 2, 2), "ab")
    assert not accepts(sg.repeat(balanced & sg.regex(".+"), 2, 2), "ab")


@pytest.mark.parametrize(
    ("grammar", "reason"),
    [
        (lambda: sg.grammar("python"), "reads the indentation of lines"),
        (lambda: sg.lark('start: <|x|> "a" start?'), "contains the special token <|x|>, which is not text"),
        (lambda: sg.lark('start: "a"* "b"', contextual=True), "is read with a contextual lexer"),
        (lambda: sg.repeat(NESTED), "contains the GBNF grammar of `root`, a constraint that is not regular"),
        (lambda: NESTED + "x" + NESTED, "is not regular"),
        (lambda: sg.gbnf('root ::= "a" root "b" | ""'), "undecidable"),
    ],
)
def test_refusals_say_why(grammar: object, reason: str) -> None:
    operand = grammar()  # type: ignore[operator]
    other = NESTED if reason == "undecidable" else sg.regex(".*")
    with pytest.raises(CombinationError) as caught:
        operand & other
    assert reason in str(caught.value)


def test_an_account_names_what_both_allow() -> None:
    matcher = Matcher(NESTED & sg.regex("a{2,3}cb*"), VOCABULARY)
    account = matcher.explain("aaaa")
    assert account.expected == ("'c'",)
    assert "the whole text must match the regular expression that is joined by &" in str(account)
    assert "regular expression" not in str(Matcher(NESTED, VOCABULARY).explain("aab"))


def test_a_bound_on_the_length_never_leads_into_a_dead_end() -> None:
    """Completions need white space and names that no lower bound predicts, so each position is searched."""
    constraint = sg.grammar("sql") & sg.regex("(?s).{0,40}")
    matcher = Matcher(constraint, VOCABULARY)
    for text in ("SELECT a FROM ", "CREATE TABLE t (a INTEGER, b TEXT", "INSERT INTO t VALUES (1, 'x'), (2"):
        matcher.reset()
        assert matcher.viable_bytes(text) == len(text)
        for byte in text.encode():
            matcher.advance(byte)
        completion = matcher.witness_text()
        assert completion is not None and len(text) + len(completion) <= 40
        assert matcher.native.next_bytes(completion)[1]
    assert matcher.unproven == 0
    assert matcher.viable_bytes(", 'long and longer'") < len(", 'long and longer'")


def doubling(levels: int) -> str:
    """Return a grammar whose shortest text has 2^levels characters."""
    rules = "".join(f"a{level} ::= a{level + 1} a{level + 1}\n" for level in range(levels))
    return f'root ::= a0\n{rules}a{levels} ::= "(" a{levels} ")" | "x"\n'


def test_texts_of_a_billion_characters_are_texts() -> None:
    """Lower bounds on lengths saturate, and nothing counts as impossible then."""
    matcher = Matcher(sg.gbnf(doubling(31)) & sg.regex("(?s).*x"), VOCABULARY)
    assert matcher.viable_bytes("((x))x") == 6
    assert matcher.witness_text() is None
    with pytest.raises(EmptyConstraint):
        Matcher(sg.gbnf(doubling(31)) & sg.regex("(?s).{0,900}"), VOCABULARY)


def test_a_completion_that_is_too_long_is_not_returned() -> None:
    """With and without another constraint; a regression test of a search that read out of bounds."""
    assert Matcher(sg.gbnf(doubling(18)), VOCABULARY).witness_text() is None
    assert Matcher(sg.gbnf(doubling(18)) & sg.regex("(?s).*x"), VOCABULARY).witness_text() is None
    written = Matcher(sg.gbnf(doubling(10)) & sg.regex("(?s).*x"), VOCABULARY).witness_text()
    assert written == b"x" * 1024


def test_what_follows_a_hole_is_always_possible() -> None:
    """Texts on both sides of holes: each viable prefix can be completed, and no search exceeds its budget."""
    holes = sg.regex(
        r"int f\(int a\) \{ if \([^\x00]*\) \{ return \(a; \} [^\x00]* while \(a\[[^\x00]*\] == \"x\"\); \}"
    )
    with pytest.raises(EmptyConstraint):  # `return (a;` can only be in a string, and `} ` only outside of one
        Matcher(sg.lark(SMALL, lexer="longest") & sg.regex(r"\{ return \(a; \}"), VOCABULARY)
    matcher = Matcher(sg.grammar("cpp") & holes, VOCABULARY)
    reading = matcher.fork()
    for byte in b"int f(int a) { if (a) { return (a; } ":
        if not reading.advance(byte):
            break
    else:
        pytest.fail("a bracket is open that nothing closes")
    rest = matcher.witness_text()
    assert rest is not None and matcher.viable_bytes(rest) == len(rest)
    assert matcher.unproven == 0


SMALL = """
start: block
block: "{" statement* "}"
statement: "return" expression ";" | block
expression: NAME | "(" expression ")"
NAME: /[a-z]+/
%ignore " "
"""
