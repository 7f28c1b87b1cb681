"""Masks are cached by their dependencies: positions with the same continuations share one mask."""

from __future__ import annotations

import pytest

from structgen.constraints.grammar.builders import ebnf, lark
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
def test_positions_with_the_same_continuations_share_a_mask(texts: list[str]) -> None:
    """They share it after white space, after another item of a list, and after another complete lexeme."""
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


def test_ignored_text_that_cannot_start_again_has_its_own_mask() -> None:
    """Inside a comment other bytes may follow than before it, and a longer lexeme with the same beginning must win."""
    matcher = Matcher(
        lark('start: "a" "//b"? "a"\n%ignore /\\/\\/[a-z ]*/\n%ignore /[ \\n]/', lexer="longest"), BYTES
    )

    def after(text: str) -> bytes:
        fork = matcher.fork()
        assert all(fork.advance(len(EOS) + letter) for letter in text.encode())
        return bytes(token - len(EOS) for token in sorted(allowed(fork.mask())) if token >= len(EOS))

    assert after("a") == after("a ") == b"\n /a"
    assert after("a//") == b"\n /abcdefghijklmnopqrstuvwxyz"


def test_after_any_item_of_a_list_the_parser_state_is_the_same() -> None:
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
"""Without a lexer: a name may be split into a type and a name at each letter, and `--` into operators."""
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
    """Positions share a mask if their running lexemes lead to the same items, whether or not others could start."""
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


def test_other_possible_lexemes_do_not_split_the_masks_of_running_ones() -> None:
    """At the two brackets other lexemes than `abc` may start, but `abc` leads to the same items."""
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
