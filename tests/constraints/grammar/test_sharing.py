"""Masks are remembered by what they read: where the same may follow there is one of them."""

from __future__ import annotations

import pytest

from structgen.constraints.grammar.constraint import lark
from structgen.matcher import Matcher, compile_constraint
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
