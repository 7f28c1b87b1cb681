"""Special tokens by number, and grammars made of little else than special tokens."""

from __future__ import annotations

from typing import Any

import pytest

import structgen as sg
from structgen.constraints.grammar.token_numbers import MOST_TOKENS
from structgen.errors import (
    EmptyConstraint,
    GrammarSyntaxError,
    GrammarUnsupported,
    LimitExceeded,
    StructgenError,
    VocabularyMismatch,
)

A, B, C = 257, 258, 259
VOCABULARY = sg.Vocabulary.of_bytes(specials=["<|a|>", "<|b|>", "<|c|>"])
LEXERS = [(lexer, contextual) for lexer in ("lark", "longest") for contextual in (False, True)]
lexers = pytest.mark.parametrize(("lexer", "contextual"), LEXERS)


def accepts(constraint: sg.Constraint, tokens: list[int], vocabulary: sg.Vocabulary = VOCABULARY) -> bool:
    """Also holds the masks against the tokens that are read."""
    matcher = sg.Matcher(constraint, vocabulary)
    for token in tokens:
        allowed = bool(matcher.mask()[token // 32] >> token % 32 & 1)
        assert allowed == matcher.advance(token)
        if not allowed:
            return False
    return matcher.is_complete()


def _case(sets: str, right: list[int], wrong: list[int]) -> tuple[str, list[int], list[int]]:
    return sets, right, wrong


SETS = [
    ("<[257]>", [A], [B, C]),
    ("<[0258]>", [B], [A, C]),
    ("<[257,259]>", [A, C], [B]),
    ("<[257-258]>", [A, B], [C]),
    ("<[257-257,258-259]>", [A, B, C], []),
    ("<[259,257-258,258]>", [A, B, C], []),
]


@lexers
@pytest.mark.parametrize(("tokens", "right", "wrong"), SETS)
def test_lark_names_tokens_by_number(
    tokens: str, right: list[int], wrong: list[int], lexer: Any, contextual: bool
) -> None:
    around = sg.lark(f'start: "a" {tokens} "b"', lexer=lexer, contextual=contextual)
    alone = sg.lark(f"start: {tokens}+", lexer=lexer, contextual=contextual)
    assert all(accepts(around, [*b"a", token, *b"b"]) for token in right)
    assert not any(accepts(around, [*b"a", token, *b"b"]) for token in [*wrong, *b"<["])
    assert accepts(alone, right) and not accepts(alone, [*right, *wrong, *b"<"])


@pytest.mark.parametrize(("tokens", "right", "wrong"), SETS)
def test_gbnf_names_tokens_by_number(tokens: str, right: list[int], wrong: list[int]) -> None:
    grammar = sg.gbnf(f'root ::= "a" {tokens} "b"')
    assert all(accepts(grammar, [*b"a", token, *b"b"]) for token in right)
    assert not any(accepts(grammar, [*b"a", token, *b"b"]) for token in [*wrong, *b"<["])


def test_a_number_and_a_name_are_the_same_token() -> None:
    for token in ("<|b|>", "<[258]>"):
        assert accepts(sg.lark(f"start: /[a-z]+/ {token} /[a-z]+/", lexer="longest"), [*b"ab", B, *b"cd"])
    # A token without bytes needs no name.
    unnamed = sg.Vocabulary.from_tokens([b"a", None, None], [1])
    assert accepts(sg.lark('start: "a" <[2]>'), [0, 2], unnamed)


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        ("<[97]>", "the token <[97]> is text"),
        ("<[97-99]>", "the token <[97]> is text"),
        ("<[260]>", "is not in the vocabulary"),
        ("<[257,99999]>", "is not in the vocabulary"),
    ],
)
def test_numbers_of_no_special_token(tokens: str, message: str) -> None:
    for constraint, line in (
        (sg.lark(f'start: "a"\n    | {tokens}'), "line 2, column 7"),
        (sg.lark(f"start: %json {{}} x\nx: {tokens}", lexer="longest"), "line 2, column 4"),
        (sg.gbnf(f'root ::= "a" x\nx ::= {tokens}'), "line 2, column 7"),
    ):
        with pytest.raises(VocabularyMismatch) as error:
            sg.Matcher(constraint, VOCABULARY)
        assert message in str(error.value) and error.value.where == line and error.value.hint
        with pytest.raises(VocabularyMismatch):
            sg.Matcher(sg.regex("b") + constraint, VOCABULARY)


@pytest.mark.parametrize(
    ("tokens", "kind", "message"),
    [
        ("<[*]>", GrammarUnsupported, "the set of all tokens"),
        ("<[^5]>", GrammarUnsupported, "negated sets"),
        ("<[^5,7-9]>", GrammarUnsupported, "negated sets"),
        ("<[]>", GrammarSyntaxError, "'' is not a token's number"),
        ("<[a]>", GrammarSyntaxError, "'a' is not a token's number"),
        ("<[5-]>", GrammarSyntaxError, "'5-' is not a token's number"),
        ("<[-5]>", GrammarSyntaxError, "'-5' is not a token's number"),
        ("<[9-5]>", GrammarSyntaxError, "the range 9-5 is reversed"),
        ("<[5,,6]>", GrammarSyntaxError, "'' is not a token's number"),
        ("<[5", GrammarSyntaxError, ""),
        ("<[99999999999]>", GrammarSyntaxError, "no token has a number this large"),
        ("<[1-99999]>", LimitExceeded, f"more than {MOST_TOKENS} tokens"),
        ("<[0-999,2000-2999]>", LimitExceeded, f"more than {MOST_TOKENS} tokens"),
    ],
)
def test_sets_that_are_none(tokens: str, kind: type[StructgenError], message: str) -> None:
    for read, source in (
        (sg.lark, f'start: "a"\n    | {tokens}'),
        (sg.gbnf, f'root ::= "a" |\n      {tokens}'),
    ):
        with pytest.raises(kind) as error:
            read(source)
        assert message in str(error.value)
        if isinstance(error.value, (GrammarSyntaxError, GrammarUnsupported)):
            assert (error.value.line, error.value.column) == (2, 7)
        else:
            assert error.value.where == "line 2, column 7"


def test_the_hint_works() -> None:
    with pytest.raises(GrammarUnsupported) as error:
        sg.lark("start: <[^5]>")
    assert "<[5,10-12]>" in str(error.value.hint) and "<|name|>" in str(error.value.hint)
    vocabulary = sg.Vocabulary.from_tokens([b"a", b"b", *[None] * 11], [2])
    assert accepts(sg.lark("start: <[5,10-12]>+"), [5, 10, 11, 12], vocabulary)


# Grammars of little else.


@lexers
@pytest.mark.parametrize(
    ("source", "right", "wrong"),
    [
        ("start: <|a|> | <|b|>", [[A], [B]], [[], [C], [A, B], [97]]),
        ("start: <|a|>*", [[], [A], [A, A]], [[B]]),
        ("start: <|a|>?", [[], [A]], [[A, A]]),
        ("start: (<|a|> <|b|>)+", [[A, B], [A, B, A, B]], [[A], [B]]),
        ("start: x y\nx: <|a|>\ny: <|b|>", [[A, B]], [[A]]),
        ("start: <|missing|>", [[*b"<|missing|>"]], [[A], [*b"<|missing|"]]),
        ("start: <|missing|> <|a|>", [[*b"<|missing|>", A]], [[A]]),
        ("start: <|a|> <|missing|> <|a|>", [[A, *b"<|missing|>", A]], [[A, A]]),
        ('start: %json {"type": "integer"}', [[*b"12"]], [[], [*b"x"]]),
        ('start: %json {"enum": [1, 2]} | <|a|>', [[*b"1"], [A]], [[*b"3"]]),
        ("start: @word", [[*b"ab"]], [[*b"1"], []]),
        ("start: @word <|a|> @word?", [[*b"ab", A], [*b"a", A, *b"b"]], [[A]]),
        ('start: <|a|>\n%ignore " "', [[A], [*b" ", A, *b" "]], [[], [*b" "]]),
        ('start: <|missing|>\n%ignore " "', [[*b" <|missing|> "]], [[*b"<| missing|>"]]),
        ("start: ", [[]], [[A], [97]]),
        ('start: \n%ignore " "', [[], [*b"  "]], [[A], [97]]),
    ],
)
def test_grammars_without_terminals_of_their_own(
    source: str, right: list[list[int]], wrong: list[list[int]], lexer: Any, contextual: bool
) -> None:
    grammar = sg.lark(source, lexer=lexer, contextual=contextual, constraints={"word": sg.regex("[a-z]+")})
    assert [tokens for tokens in right if not accepts(grammar, tokens)] == []
    assert [tokens for tokens in wrong if accepts(grammar, tokens)] == []


@lexers
def test_only_ignored_terminals_are_no_text(lexer: Any, contextual: bool) -> None:
    grammar = sg.lark('start: WS\nWS: " "\n%ignore WS', lexer=lexer, contextual=contextual)
    with pytest.raises(EmptyConstraint):
        sg.Matcher(grammar, VOCABULARY)


@lexers
def test_a_missing_token_is_its_text_whatever_the_lexer_knows(lexer: Any, contextual: bool) -> None:
    source = 'start: NAME <|call|> NAME\nNAME: /[a-z]+/\nSIGN: /[<|>]+/ "call"?\n%ignore SIGN'
    grammar = sg.lark(source, lexer=lexer, contextual=contextual)
    assert accepts(grammar, [*b"ab<|call|>cd"])
    assert not accepts(grammar, [*b"ab<|calm|>cd"])
    named = sg.Vocabulary.of_bytes(specials=["<|call|>"])
    assert accepts(grammar, [*b"ab", 257, *b"cd"], named)
