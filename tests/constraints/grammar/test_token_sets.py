"""Sets of tokens in grammars, and grammars that consist mostly of special tokens."""

from __future__ import annotations

from typing import Any

import pytest

import structgen as sg
from structgen.errors import EmptyConstraint, GrammarSyntaxError, VocabularyMismatch

A, B, C = 257, 258, 259
VOCABULARY = sg.Vocabulary.of_bytes(specials=["<|a|>", "<|b|>", "<|c|>"])
LEXERS = [(lexer, contextual) for lexer in ("lark", "longest") for contextual in (False, True)]
lexers = pytest.mark.parametrize(("lexer", "contextual"), LEXERS)


def accepts(constraint: sg.Constraint, tokens: list[int], vocabulary: sg.Vocabulary = VOCABULARY) -> bool:
    """Return whether tokens are accepted, and compare the masks with single steps."""
    matcher = sg.Matcher(constraint, vocabulary)
    for token in tokens:
        allowed = bool(matcher.mask()[token // 32] >> token % 32 & 1)
        assert allowed == matcher.advance(token)
        if not allowed:
            return False
    return matcher.is_complete()


SETS = [
    ("<[257]>", [A], [B, C]),
    ("<[0258]>", [B], [A, C]),
    ("<[257,259]>", [A, C], [B]),
    ("<[257-258]>", [A, B], [C]),
    ("<[257-257,258-259]>", [A, B, C], []),
    ("<[259,257-258,258]>", [A, B, C], []),
    ("<[120,258]>", [120, B], [A, C, 121]),
    ("<[120-121]>", [120, 121], [A, 119]),
    ("<[250-1000000]>", [255, A, B, C], [120, 249]),
    ("<[^120,257-258]>", [121, C], [120, A, B, 256]),
    ("<[*]>", [0, 120, 255, A, B, C], [256]),
]


@lexers
@pytest.mark.parametrize(("tokens", "right", "wrong"), SETS)
def test_lark_names_tokens_by_number(
    tokens: str, right: list[int], wrong: list[int], lexer: Any, contextual: bool
) -> None:
    around = sg.lark(f'start: "a" {tokens} "b"', lexer=lexer, contextual=contextual)
    alone = sg.lark(f"start: {tokens}+", lexer=lexer, contextual=contextual)
    assert all(accepts(around, [*b"a", token, *b"b"]) for token in right)
    assert not any(accepts(around, [*b"a", token, *b"b"]) for token in wrong)
    assert not accepts(around, [*b"a<[257]>b"])
    others = [token for token in wrong if token != 256]  # the end of the text
    assert accepts(alone, right) and not (others and accepts(alone, [*right, *others]))


@pytest.mark.parametrize(("tokens", "right", "wrong"), SETS)
def test_gbnf_names_tokens_by_number(tokens: str, right: list[int], wrong: list[int]) -> None:
    grammar = sg.gbnf(f'root ::= "a" {tokens} "b"')
    assert all(accepts(grammar, [*b"a", token, *b"b"]) for token in right)
    assert not any(accepts(grammar, [*b"a", token, *b"b"]) for token in wrong)


def test_gbnf_negates_tokens() -> None:
    by_number, by_text = sg.gbnf('root ::= "a" !<[257]> "b"'), sg.gbnf('root ::= "a" !<|a|> "b"')
    for grammar in (by_number, by_text, sg.gbnf('root ::= "a" <[^257]> "b"')):
        assert [token for token in range(260) if accepts(grammar, [97, token, 98])] == [
            token for token in range(260) if token not in (256, A)
        ]
    thinking = sg.gbnf("root ::= <|a|> !<|b|>* <|b|> [0-9]+")
    assert accepts(thinking, [A, *b"so 12", C, B, *b"12"])
    assert not accepts(thinking, [A, *b"so", B, B])


def test_gbnf_names_tokens_of_text() -> None:
    """A text in angle brackets is one token if the tokenizer has it, and otherwise its letters."""
    vocabulary = sg.Vocabulary.from_tokens([b"<", b"t", b">", b"<t>", b"t>", None], [5])
    grammar = sg.gbnf("root ::= <t> [t]")
    assert accepts(grammar, [3, 1], vocabulary)
    assert not accepts(grammar, [0, 1, 2, 1], vocabulary) and not accepts(grammar, [0, 4, 1], vocabulary)
    spelled = sg.Vocabulary.from_tokens([b"<", b"t", b">", b"t>", None], [4])
    assert accepts(grammar, [0, 1, 2, 1], spelled) and accepts(grammar, [0, 3, 1], spelled)
    with pytest.raises(VocabularyMismatch, match='no token of the vocabulary has the text "<t>"'):
        sg.Matcher(sg.gbnf("root ::= !<t> [t]"), spelled)


def test_a_token_of_text_is_read_in_each_way_that_it_may_be() -> None:
    vocabulary = sg.Vocabulary.from_tokens([b"a", b"b", b"ab", None], [3])
    grammar = sg.gbnf('root ::= <[2]> "b" | "a" "b" "a"')
    assert accepts(grammar, [2, 1], vocabulary) and accepts(grammar, [2, 0], vocabulary)
    assert accepts(grammar, [0, 1, 0], vocabulary) and not accepts(grammar, [0, 1, 1], vocabulary)


@lexers
def test_a_token_ends_the_lexeme_before_it(lexer: Any, contextual: bool) -> None:
    """Where a lexeme may end, a token may follow, even if its letters could continue the lexeme."""
    vocabulary = sg.Vocabulary.from_tokens([b"a", b"b", b"ab", b"1", None], [4])
    grammar = sg.lark(
        "start: NAME <[2]> NUMBER\nNAME: /[ab]+/\nNUMBER: /1+/", lexer=lexer, contextual=contextual
    )
    assert accepts(grammar, [0, 2, 3, 3], vocabulary) and accepts(grammar, [0, 2, 2, 3], vocabulary)
    assert not accepts(grammar, [0, 1, 3], vocabulary) and not accepts(grammar, [2, 3], vocabulary)
    matcher = sg.Matcher(grammar, vocabulary)
    assert matcher.advance(0) and matcher.forced_bytes() == b""


def test_a_number_and_a_name_are_the_same_token() -> None:
    for token in ("<|b|>", "<[258]>"):
        assert accepts(sg.lark(f"start: /[a-z]+/ {token} /[a-z]+/", lexer="longest"), [*b"ab", B, *b"cd"])
    # A token without bytes needs no name.
    unnamed = sg.Vocabulary.from_tokens([b"a", None, None], [1])
    assert accepts(sg.lark('start: "a" <[2]>'), [0, 2], unnamed)


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        ("<[260]>", "is not in the vocabulary"),
        ("<[257,99999]>", "the token 99999 is not in the vocabulary, which has 260 tokens"),
        ("<[257,500-600]>", "the tokens 500 to 600 are not in the vocabulary"),
    ],
)
def test_numbers_of_no_token(tokens: str, message: str) -> None:
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
    ("tokens", "message"),
    [
        ("<[^*]>", "the set of all tokens is negated, so it is empty"),
        ("<[*,5]>", "'*' is not a token number: * must be alone, as in <[*]>"),
        ("<[]>", "'' is not a token number"),
        ("<[a]>", "'a' is not a token number"),
        ("<[5-]>", "'5-' is not a token number"),
        ("<[5-6-7]>", "'5-6-7' is not a token number"),
        ("<[-5]>", "'-5' is not a token number"),
        ("<[9-5]>", "the range 9-5 is reversed"),
        ("<[5,,6]>", "'' is not a token number"),
        ("<[5", ""),
        ("<[99999999999]>", "no token has a number this large"),
        ("<[4294967295]>", "no token has a number this large"),
    ],
)
def test_malformed_sets(tokens: str, message: str) -> None:
    for read, source in (
        (sg.lark, f'start: "a"\n    | {tokens}'),
        (sg.gbnf, f'root ::= "a" |\n      {tokens}'),
    ):
        with pytest.raises(GrammarSyntaxError) as error:
            read(source)
        assert message in str(error.value)
        assert (error.value.line, error.value.column) == (2, 7)
    with pytest.raises(GrammarSyntaxError, match="negated twice"):
        sg.gbnf("root ::= !<[^5]>")


def test_the_hint_works() -> None:
    with pytest.raises(GrammarSyntaxError) as error:
        sg.lark("start: <[^]>")
    assert "<[5,10-12]>" in str(error.value.hint) and "<|name|>" in str(error.value.hint)
    vocabulary = sg.Vocabulary.from_tokens([b"a", b"b", *[None] * 11], [2])
    assert accepts(sg.lark("start: <[5,10-12]>+"), [5, 10, 11, 12], vocabulary)


def test_a_large_set_of_a_large_list() -> None:
    listed = ",".join(str(number) for number in range(0, 200, 2))
    grammar = sg.lark(f"start: <[{listed},1000-100000000]>+", lexer="longest")
    vocabulary = sg.Vocabulary.from_tokens([str(number).encode() for number in range(1200)] + [None], [1200])
    matcher = sg.Matcher(grammar, vocabulary)
    assert matcher.allowed_count() == 100 + 200
    assert matcher.advance(198) and not matcher.advance(199) and matcher.advance(1199)


# Grammars that consist mostly of tokens.


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
def test_a_missing_token_is_its_text_in_every_lexer(lexer: Any, contextual: bool) -> None:
    source = 'start: NAME <|call|> NAME\nNAME: /[a-z]+/\nSIGN: /[<|>]+/ "call"?\n%ignore SIGN'
    grammar = sg.lark(source, lexer=lexer, contextual=contextual)
    assert accepts(grammar, [*b"ab<|call|>cd"])
    assert not accepts(grammar, [*b"ab<|calm|>cd"])
    named = sg.Vocabulary.of_bytes(specials=["<|call|>"])
    assert accepts(grammar, [*b"ab", 257, *b"cd"], named)
