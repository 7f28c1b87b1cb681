"""Masks are remembered by what they read: where the same may follow there is one of them."""

from __future__ import annotations

import pytest

from structgen.constraints.grammar.constraint import ebnf, lark
from structgen.matcher import Matcher, compile_constraint
from structgen.vocabulary import Vocabulary
from tests.core.small_vocabulary import EOS, allowed, byte_vocabulary

BYTES = byte_vocabulary()
JSON_LIKE = """start: value
value: "[" (value ("," value)*)? "]" | "{" (member ("," member)*)? "}" | WORD | COMMENTED
member: WORD ":" value
WORD: /"[a-z]*"/
COMMENTED: "#"
%ignore /[ \\n]+/
%ignore /\\/[a-z]*\\//
"""


@pytest.mark.parametrize(
    "texts",
    [
        ['["x"', '["x" ', '["x"\n \n', '["x"/a/', '["x" /a/ ', "[#", "[[]", '[{"a":[]}'],
        ['{"x"', '{"x" ', '{"x":#,"y"/a/'],
        ['[["x"', '["x",["x"', '["x",["x","x"', '["x",#,[[], "x"'],
        ['{"a":{"x":#', '{"a":#,"b":{"x":#', '{"a":#,"b":{"x":#, "y":# '],
        ['[{"a":', '["x", {"a": ', '[#,{"a":#,"b":'],
    ],
)
def test_places_where_the_same_may_follow_share_their_mask(texts: list[str]) -> None:
    """Whatever has been read there: white space, another part of a list, another lexeme that is over."""
    constraint = lark(JSON_LIKE, lexer="longest")
    program = compile_constraint(constraint, BYTES)
    masks, misses = [], []
    for text in texts:
        matcher = Matcher(constraint, BYTES)
        for letter in text.encode():
            assert matcher.advance(len(EOS) + letter)
        masks.append(matcher.mask().tolist())
        misses.append(program.mask_misses)
    assert all(mask == masks[0] for mask in masks)
    assert misses[-1] == misses[0]


def test_text_to_ignore_that_cannot_begin_anew_is_told_apart() -> None:
    """Inside a comment other bytes may come than before it, and a longer lexeme that begins like it has to win."""
    matcher = Matcher(
        lark('start: "a" "//b"? "a"\n%ignore /\\/\\/[a-z ]*/\n%ignore /[ \\n]/', lexer="longest"), BYTES
    )

    def after(text: str) -> bytes:
        fork = matcher.fork()
        assert all(fork.advance(len(EOS) + letter) for letter in text.encode())
        return bytes(token - len(EOS) for token in sorted(allowed(fork.mask())) if token >= len(EOS))

    assert after("a") == after("a ") == b"\n /a"
    assert after("a//") == b"\n /abcdefghijklmnopqrstuvwxyz"


def test_after_any_part_of_a_list_the_parser_stands_where_it_stood() -> None:
    constraint = lark('start: "[" A ("," A)* "]"\nA: "x"\n%ignore " "')
    matcher, program = Matcher(constraint, BYTES), compile_constraint(constraint, BYTES)
    for letter in b"[x ":
        matcher.advance(len(EOS) + letter)
    matcher.mask()
    before = program.mask_misses
    for _ in range(3):
        for letter in b",x ":
            matcher.advance(len(EOS) + letter)
        matcher.mask()
    assert program.mask_misses == before


CUT = """root ::= s (statement s)*
statement ::= type s variable (s "," s variable)* s ";" | sum s ";"
    | "if" s "(" s sum s ")" s statement | "{" s (statement s)* "}"
variable ::= NAME (s "=" s sum | s "(" s sum s ")")?
type ::= NAME (s "<" s type s ">")? (s "*")*
sum ::= unary (s ("+" | "-" | "*" | "<" | ">") s unary)*
unary ::= ("-" | "--" | "*") s unary | NAME (s "(" s (sum (s "," s sum)*)? s ")")? | "(" s sum s ")"
NAME ::= [a-z_] [a-z0-9_]*
s ::= [ \\n]*
"""
"""Without a lexer: at each of its letters a name may be cut into a type and a name, and `--` into operators."""
CUT_TOKENS = [
    *[bytes([byte]) for byte in b"abcdefi_01 ;(){}<>=+-*,\n"],
    *[
        b"ab",
        b"abc",
        b"if",
        b"if (",
        b" (",
        b");",
        b"))",
        b") {",
        b"a;",
        b"a(",
        b"bc)",
        b"f(a",
        b"> a",
        b"*a",
        b"a<b",
    ],
    *[
        b"--",
        b"---",
        b"----",
        b"--a",
        b"-a-",
        b", a",
        b"a = b",
        b";\n",
        b";}",
        b"  ",
        b"= --",
        b"a)",
        b");\n}",
    ],
]
CUT_TEXTS = [
    "abc = ab(a, b) + c;",
    "abcd abc = -a; if (ab < abc) { abc(ab); ab = c; }",
    "ab<abc> *ab; abc((ab), --ab, -(- -abc)); cd = ab;",
    "if (a) if (abc(abc)) abcabc(abcabc, a); { a; b b; }",
    "{ { ab = abcabcabc; } abcabcabc(-----abcabcabc); } a;",
]


def test_masks_of_ambiguous_texts_are_the_tokens_that_can_be_read() -> None:
    """Masks are shared by all places where lexemes that run lead to the same, whatever else might have begun there."""
    vocabulary = Vocabulary.from_tokens([None, *CUT_TOKENS], [0])
    constraint = ebnf(CUT)
    for text in CUT_TEXTS:
        matcher = Matcher(constraint, vocabulary)
        for byte in text.encode():
            expected = {t for t in range(1, len(CUT_TOKENS) + 1) if matcher.fork().advance(t)}
            assert set(allowed(matcher.mask())) - {0} == expected, matcher.text
            assert matcher.advance(1 + CUT_TOKENS.index(bytes([byte])))


def test_a_name_that_can_be_cut_anywhere_is_as_good_as_one_cut_once() -> None:
    constraint, vocabulary = ebnf(CUT), Vocabulary.from_tokens([None, *CUT_TOKENS], [0])
    matcher, program = Matcher(constraint, vocabulary), compile_constraint(constraint, vocabulary)

    def misses_of(text: str) -> int:
        before = program.mask_misses
        for byte in text.encode():
            assert matcher.advance(1 + CUT_TOKENS.index(bytes([byte])))
            matcher.mask()
        return program.mask_misses - before

    assert misses_of("abcd(ab, a); abcdeab(ab, a); ") > 0
    assert misses_of("abcdefabcdef(ab, a); " * 3) == 0


def test_what_else_might_have_begun_does_not_tell_running_lexemes_apart() -> None:
    """At the two brackets other things may begin besides `abc`, which leads to the same."""
    constraint = ebnf(
        'root ::= "{" root "}" | item ";"\nitem ::= "(" ("abc" | root) | "[" ("abc" | "y" root)'
    )
    program = compile_constraint(constraint, BYTES)
    misses = []
    for text in ("(a", "[a"):
        matcher = Matcher(constraint, BYTES)
        for letter in text.encode():
            assert matcher.advance(len(EOS) + letter)
        matcher.mask()
        misses.append(program.mask_misses)
    assert misses[0] == misses[1]
