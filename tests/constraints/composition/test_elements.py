"""Free text, special tokens, repetition and optional parts, and which constraints accept the empty text."""

from __future__ import annotations

import pickle
import random
import re
from typing import Any

import pytest

import structgen as sg
from structgen.constraints.composition import Composition, optional, repeat, special, text
from structgen.constraints.composition.emptiness import accepts_empty
from structgen.errors import ConstraintError, OptionError

from .small import LETTERS, PLAIN, WITH_SPECIALS, accepted, check_walks, texts


def letters(text: str) -> list[int]:
    return [4 + LETTERS.index(letter) for letter in text]


@pytest.mark.parametrize("until", [None, "<a>", ["aa", "b<"], ["a", "a", "ab"]])
@pytest.mark.parametrize(("low", "high"), [(0, None), (0, 3), (2, 2), (1, None)])
def test_free_text_by_enumeration(until: Any, low: int, high: int | None) -> None:
    made = text(until, min_chars=low, max_chars=high)
    assert made.regular() is not None
    ends = [until] if isinstance(until, str) else until or []
    for one in texts(4):
        wanted = low <= len(one) <= (9 if high is None else high) and not any(end in one for end in ends)
        assert accepted(made, PLAIN, letters(one)) == wanted, one


def test_characters_are_counted_not_bytes() -> None:
    known = sg.Vocabulary.from_tokens([bytes([byte]) for byte in range(256)] + [None], [256])
    assert accepted(text(max_chars=2), known, list("日é".encode()))
    assert not accepted(text(max_chars=2), known, list("日éa".encode()))


@pytest.mark.parametrize("regular", [True, False])
@pytest.mark.parametrize("separator", [None, "b", "b?", "<"])
@pytest.mark.parametrize(("low", "high"), [(0, None), (0, 0), (0, 2), (1, None), (2, 3), (3, 3), (0, 1)])
def test_repetition_by_enumeration(regular: bool, separator: str | None, low: int, high: int | None) -> None:
    one: sg.Constraint = sg.regex("ab?")
    if not regular:
        one = sg.gbnf('root ::= "a" "b"? | never\nnever ::= "~" never "~" | "~"')
    between = separator if separator in (None, "<") else sg.regex(separator or "")
    made = repeat(one, low, high, separator=between)
    assert (made.regular() is not None) == (regular or high == 0)
    several = "|".join(
        (f"(?:{separator or ''})").join(["ab?"] * count)
        for count in range(low, (6 if high is None else high) + 1)
    )
    for one_text in texts(5):
        wanted = re.fullmatch(several, one_text) is not None
        assert accepted(made, PLAIN, letters(one_text)) == wanted, one_text


def test_look_around_stays_inside_its_operand() -> None:
    """A look-around of an operand does not see its neighbours."""
    made = repeat(sg.regex(r"a\b"), 2, 2)
    assert accepted(made, PLAIN, letters("aa"))


def test_a_special_token_is_a_token_or_its_text() -> None:
    turn = text() + special("<a>") + sg.json_schema({"const": 1}) + special("</a>")
    known = sg.Vocabulary.from_tokens(
        [*(bytes([byte]) for byte in range(256)), None, None, None], [256], specials={"<a>": 257, "</a>": 258}
    )
    assert accepted(turn, known, [*b"hi", 257, *b"1", 258])
    assert not accepted(turn, known, list(b"hi<a>1</a>"))
    plain = sg.Vocabulary.from_tokens([*(bytes([byte]) for byte in range(256)), None], [256])
    assert accepted(turn, plain, list(b"hi<a>1</a>"))
    matcher = sg.Matcher(turn, known)
    assert all(map(matcher.advance, (257, ord("1"), 258)))
    assert matcher.is_complete()


def test_an_end_of_text_can_be_named() -> None:
    """Where the text may end, the token ends it; elsewhere it is the special token of the constraint."""
    turn = "a" + special("<end>") + "b"
    known = sg.Vocabulary.from_tokens([b"a", b"b", None], [2], specials={"<end>": 2})
    matcher = sg.Matcher(turn, known)
    assert [matcher.advance(i) for i in (0, 2, 1)] == [True] * 3
    assert not matcher.is_finished and matcher.is_complete()
    assert matcher.advance(2) and matcher.is_finished


def test_optional_parts_and_nested_ones() -> None:
    inner = optional("a" + special("<a>"))
    outer = repeat(inner + "b", 1, 2)
    assert isinstance(outer, Composition)
    for one in ("b", "bb", "a<a>b", "ba<a>b", "a<a>ba<a>b"):
        assert accepted(outer, PLAIN, letters(one)), one
    for one in ("", "ab", "a<a>", "bbb", "<a>b"):
        assert not accepted(outer, PLAIN, letters(one)), one
    token = WITH_SPECIALS.specials["<a>"]
    assert accepted(outer, WITH_SPECIALS, [*letters("a"), token, *letters("b")])
    for seed in range(20):
        check_walks(outer, WITH_SPECIALS, random.Random(seed))


def test_what_accepts_the_empty_text() -> None:
    never = 'never ::= "~" never "~" | "~"'
    cases: list[tuple[sg.Constraint, bool]] = [
        (sg.regex("a*"), True),
        (sg.regex(r"(?=a|b)a*b?"), False),
        (sg.regex(r"\ba*|$"), True),
        (sg.json_schema(True), False),
        (sg.gbnf(f'root ::= "a"? | never\n{never}'), True),
        (sg.gbnf(f'root ::= two two | never\ntwo ::= "b"* | never\n{never}'), True),
        (sg.gbnf(f'root ::= "a" | never\n{never}'), False),
        (sg.json_schema(True) | sg.regex("a?"), True),
        (sg.json_schema(True) + sg.regex("a?"), False),
        (special("<a>") + sg.regex("a?"), False),
        (optional(special("<a>")), True),
        (repeat(sg.json_schema(True)), True),
        (sg.lark('start: A?\nA: "a"'), True),
        (sg.lark('start: A\nA: "a"'), False),
    ]
    for constraint, wanted in cases:
        assert accepts_empty(constraint.lower()) == wanted, constraint
        assert sg.Matcher(constraint, _BYTES).is_complete() == wanted, constraint


_BYTES = sg.Vocabulary.from_tokens([*(bytes([byte]) for byte in range(256)), None], [256])


def test_an_operand_that_may_be_empty() -> None:
    either = sg.json_schema({"const": 1}) | sg.regex("")
    made = repeat("<" + either + ">", 1, 2)
    for one, wanted in (("<>", True), ("<1>", True), ("<><1>", True), ("<", False), ("<11>", False)):
        assert accepted(made, _BYTES, list(one.encode())) == wanted, one


def test_compositions_are_constraints_like_others() -> None:
    made = repeat(sg.json_schema(True), 1, 3, separator=", ")
    again = pickle.loads(pickle.dumps(made))
    assert again == made and hash(again) == hash(made) and again.describe() == made.describe()
    assert special("<a>") == special("<a>") != special("<b>")
    assert repr(special("<a>")) == "special('<a>')"
    with pytest.raises(AttributeError, match="a constraint never changes"):
        made.name = "x"
    both = text("b") & sg.regex("a+")
    assert accepted(both, PLAIN, letters("aa")) and not accepted(both, PLAIN, letters("ab"))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: text(""), "text() cannot search for the empty text"),
        (lambda: text([1]), "text() needs texts, not 1, an int"),
        (lambda: text("\ud800"), "contains a lone surrogate"),
        (lambda: text(max_chars=-1), "max_chars is -1; it must be a whole number of 0 or more"),
        (lambda: text(max_chars=1 << 63), "it must be at most 9,223,372,036,854,775,807"),
        (lambda: text(max_chars=2, min_chars=3), "max_chars is 2, below the minimum 3"),
        (lambda: repeat("a", 2, 1), "max is 1, below the minimum 2"),
        (lambda: repeat("a", True), "min is True"),
        (lambda: repeat(3), "3 is a value, not a type"),
        (lambda: special(""), "special() cannot search for the empty text"),
    ],
)
def test_mistakes(make: Any, message: str) -> None:
    with pytest.raises((ConstraintError, OptionError)) as caught:
        make()
    assert message in str(caught.value)


def test_counts_in_grammars_are_exact() -> None:
    made = repeat(sg.json_schema({"const": 1}), 11, 29)
    counts = [count for count in range(35) if accepted(made, _BYTES, list(b"1" * count))]
    assert counts == list(range(11, 30))
