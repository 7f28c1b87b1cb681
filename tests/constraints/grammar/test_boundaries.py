"""The ends of a grammar's text: its lexer does not affect other constraints, special tokens and text after it."""

from __future__ import annotations

import itertools

import pytest

import structgen as sg
from structgen.constraints.base import Constraint
from structgen.errors import EmptyConstraint
from structgen.matcher import Matcher
from structgen.vocabulary import Vocabulary
from tests.core.small_vocabulary import allowed

LETTERS = [bytes([letter]) for letter in b"abc -+1,\n#"]
PIECES = [
    b"  ",
    b"a  ",
    b"  b",
    b" b",
    b"--",
    b"aa",
    b"-a",
    b"1-",
    b"bc",
    b"aab",
    b"\n ",
    b"# ",
    b"a#",
    b"\nb",
]
CALL = 1
VOCABULARY = Vocabulary.from_tokens([None, None, *LETTERS, *PIECES], [0], specials={"<|call|>": CALL})

NAME = sg.lark("start: /[a-c]+/", lexer="longest")
SPACED = sg.lark('start: "a"\n%ignore / +/', lexer="longest")
COMMENTED = sg.lark('start: "a"+\n%ignore /#[^\\n]*/\n%ignore "\\n"', lexer="longest")
INTEGERS = sg.repeat(sg.json_schema({"type": "integer"}), 0, 3, separator=",")
CONSTRAINTS: dict[str, Constraint] = {
    "a name and text like one": NAME + sg.regex("bc?"),
    "spaces that are ignored and some that are not": SPACED + sg.regex(" b"),
    "the same in a grammar": sg.lark('start: @x " b"', constraints={"x": SPACED}),
    "names between names": sg.lark("start: N @x N\nN: /[a-c]+/", lexer="longest", constraints={"x": NAME}),
    "lists with a space between them": sg.repeat(SPACED, 1, 3, separator=" "),
    "comments, and text that looks like one": COMMENTED + sg.regex("# b"),
    "a constraint after which nothing can come": sg.lark(
        'start: r | [start "a"] "-"\nr: start "-" @x N "a"\nN: /[ab]+/',
        lexer="longest",
        constraints={"x": INTEGERS},
    ),
    "a special token after which nothing can come": sg.lark(
        'start: "a" | <|call|> N "a" | "b" <|call|> "a"\nN: /[ab]+/', lexer="longest"
    ),
    "what is ignored, in a rule": sg.lark('start: "a" S "b" | "c" "b"\nS: / /\n%ignore S', lexer="longest"),
}


@pytest.mark.parametrize("constraint", CONSTRAINTS.values(), ids=CONSTRAINTS)
def test_masks_are_exact_and_have_no_dead_ends(constraint: Constraint) -> None:
    root = Matcher(constraint, VOCABULARY)
    masks = 0
    for tokens in itertools.chain.from_iterable(itertools.product(range(1, 12), repeat=n) for n in range(5)):
        matcher = root.fork()
        if not all(map(matcher.advance, tokens)):
            continue
        read = {token for token in range(1, VOCABULARY.size) if matcher.fork().advance(token)}
        mask = allowed(matcher.mask())
        assert mask - {0} == read, matcher.text
        assert (0 in mask) == matcher.is_complete()
        assert mask, matcher.text
        masks += 1
    assert masks > 4


def test_a_sequence_has_the_texts_of_one_followed_by_texts_of_the_next() -> None:
    def is_one(constraint: Constraint, text: bytes) -> bool:
        matcher = Matcher(constraint, VOCABULARY)
        return (
            all(matcher.advance(2 + LETTERS.index(bytes([letter]))) for letter in text)
            and matcher.is_complete()
        )

    for text in map(bytes, itertools.product(b"abc", repeat=4)):
        wanted = text.endswith((b"b", b"bc"))
        assert is_one(CONSTRAINTS["a name and text like one"], text) == wanted, text
    for spaces in range(4):
        assert is_one(
            CONSTRAINTS["spaces that are ignored and some that are not"], b"a" + b" " * spaces + b"b"
        ) == (spaces > 0)


def test_ignored_text_is_not_a_symbol_of_a_rule() -> None:
    with pytest.raises(EmptyConstraint):
        Matcher(sg.lark('start: "a" S "b"\nS: / /\n%ignore S'), VOCABULARY)


def test_ambiguous_texts_take_memory_in_proportion_to_their_length() -> None:
    """Lexemes that end at one position lead to one item set, however many were read before."""
    constraint = sg.gbnf('root ::= "a" root "+" | "aa" root "-" | "b"')

    def memory(letters: int) -> int:
        matcher = Matcher(constraint, VOCABULARY)
        assert all(matcher.advance(2) for _ in range(letters))
        return matcher.native.memory

    assert memory(800) < 2.5 * memory(400)
