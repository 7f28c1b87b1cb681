"""The token macros of EBNF, against the definition over sequences of tokens."""

from __future__ import annotations

import random
from typing import Any

import pytest

import structgen as sg
from structgen.constraints.grammar.ebnf.reader import read_ebnf
from structgen.errors import GrammarSyntaxError, VocabularyMismatch
from tests.oracles.token_twin import Twin

TEXTS: list[bytes | None] = [b"a", b"b", b"ab", None, b"c"]
VOCABULARY = sg.Vocabulary.from_tokens(TEXTS, [3])
TWIN = Twin(TEXTS, [3], {})


def set_of(*tokens: int | str) -> Any:
    return tuple(one if isinstance(one, str) else (one, one) for one in tokens)


def tokens(*members: int | str, column: int = 10) -> Any:
    return ("tokens", (set_of(*members), (), f"line 1, column {column}", False))


def others(*members: int | str, column: int = 10) -> Any:
    return ("tokens", (None, set_of(*members), f"line 1, column {column}", False))


@pytest.mark.parametrize(
    ("source", "body"),
    [
        ("Token(1)", tokens(1)),
        ("Token( 3 ,\n 1, 3,)", tokens(3, 1)),
        ('Token("a\\x62", 007)', tokens("ab", 7)),
        ("ExcludeToken()", others()),
        ('ExcludeToken(1, "a")', others(1, "a")),
        (
            '"a" Token(1)*',
            ("sequence", (("text", ("literal", "a")), ("repeat", tokens(1, column=14), 0, None))),
        ),
        ("TokenTagDispatch()", ("repeat", others(), 0, None)),
        ("TokenTagDispatch(excludes=(4, 5,))", ("repeat", others(4, 5), 0, None)),
    ],
)
def test_bodies(source: str, body: Any) -> None:
    assert read_ebnf(f"root ::= {source}").rules[0].body == body


def meaning(pairs: dict[int, Any], excluded: list[int], loops: bool) -> Any:
    """Return the body that the documentation defines."""
    free = ("tokens", (None, set_of(*pairs, *excluded), "", False))
    call = (
        "choice",
        tuple(("sequence", (("tokens", (set_of(tag), (), "", False)), rule)) for tag, rule in pairs.items()),
    )
    if loops:
        return ("repeat", ("choice", (free, call)), 0, None)
    return ("sequence", (("repeat", free, 0, None), ("repeat", call, 0, 1)))


@pytest.mark.parametrize("seed", range(30))
def test_dispatch_by_enumeration(seed: int) -> None:
    rnd = random.Random(seed)
    numbers = [0, 1, 2, 4]
    rnd.shuffle(numbers)
    tags, rest = numbers[: rnd.randint(1, 2)], numbers[2:]
    excluded = rest[: rnd.randint(0, 2)]
    rules = {"x": ("text", ("literal", "ab")), "y": ("tokens", (((4, 4),), (), "", False))}
    names = {tag: rnd.choice(["x", "y"]) for tag in tags}
    loops = rnd.choice(["", ", loop_after_dispatch=true", ", loop_after_dispatch=false"])
    pairs = ", ".join(f"({tag}, {name})" for tag, name in names.items())
    excludes = (
        f", excludes=({', '.join(map(str, excluded))})" if excluded else rnd.choice(["", ", excludes=()"])
    )
    grammar = sg.ebnf(f'root ::= TokenTagDispatch({pairs}{loops}{excludes})\nx ::= "ab"\ny ::= Token(4)')
    body = meaning({tag: rules[name] for tag, name in names.items()}, excluded, "false" not in loops)
    found: set[tuple[int, ...]] = set()

    def walk(matcher: sg.Matcher, prefix: tuple[int, ...]) -> None:
        if matcher.is_complete():
            found.add(prefix)
        for token in (0, 1, 2, 4):
            if len(prefix) < 4:
                fork = matcher.fork()
                if fork.advance(token):
                    walk(fork, (*prefix, token))

    walk(sg.Matcher(grammar, VOCABULARY), ())
    assert found == TWIN.texts_of(body, 4)


def test_a_text_that_no_token_has() -> None:
    grammar = sg.ebnf('root ::= "a"\n  Token("x")')
    with pytest.raises(VocabularyMismatch, match='no token of the vocabulary has the text "x"') as error:
        sg.Matcher(grammar, VOCABULARY)
    assert error.value.where == "line 2, column 3"


@pytest.mark.parametrize(
    ("source", "column", "message"),
    [
        ("Token", 15, "Token needs its tokens in parentheses"),
        ("Token()", 16, "Token needs a token: its number, or its text in quotes"),
        ("Token(1 2)", 18, "Token needs a comma or the closing parenthesis"),
        ("Token(a)", 16, "Token needs a token"),
        ('Token("")', 16, "no token has the empty text"),
        ("Token(99999999999)", 16, "no token has a number this large"),
        ("Token(-1)", 16, "Token needs a token"),
        ("ExcludeToken(1", 24, "ExcludeToken needs a comma or the closing parenthesis"),
        ("TokenTagDispatch((1, root)", 36, "TokenTagDispatch needs a comma or the closing parenthesis"),
        ("TokenTagDispatch((1))", 29, "TokenTagDispatch needs a comma and the name of the tag's rule"),
        ("TokenTagDispatch((1, root), (1, root))", 39, "the tag 1 is given twice"),
        ("TokenTagDispatch((1, root), excludes=(1,))", 48, "the tag 1 is also excluded"),
        ("TokenTagDispatch((1, no))", 31, "there is no rule no"),
        ("TokenTagDispatch(loop=true)", 27, "TokenTagDispatch has no option 'loop'"),
        ("TokenTagDispatch(loop_after_dispatch=1)", 47, "TokenTagDispatch needs true or false"),
        ("TokenTagDispatch(excludes=(), excludes=())", 40, "excludes is given twice"),
        ("TokenTagDispatch(1)", 27, "TokenTagDispatch needs a pair of a tag and its rule"),
    ],
)
def test_faults_show_their_place(source: str, column: int, message: str) -> None:
    with pytest.raises(GrammarSyntaxError) as error:
        sg.ebnf(f"root ::= {source}")
    assert message in str(error.value)
    assert (error.value.line, error.value.column) == (1, column)
    assert error.value.hint
