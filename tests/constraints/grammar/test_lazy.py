"""Lazy rules and terminals end where they first match, even if another terminal could match more.

The twin cuts a whole text into lexemes by trying prefixes. `llguidance`, the origin of the options `lazy` and `suffix`,
is compared on the same texts if it is installed.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest

import structgen as sg
from structgen.errors import EmptyConstraint

VOCABULARY = sg.Vocabulary.of_bytes(specials=["<|tool|>", "<|eom|>"])
TOOL, EOM = VOCABULARY.specials["<|tool|>"], VOCABULARY.specials["<|eom|>"]
OPTIONS = [("longest", True), ("longest", False), ("lark", True), ("lark", False)]

TWO_TOOLS = r"""
start: ( f_foo | f_bar )* f_end
f_end: TEXT
TEXT: /(.|\n)*/
f_foo_hd[lazy]: TEXT "<function"
f_foo: f_foo_hd "=foo>" %json { "type": "object" } "</function>"
f_bar_hd[lazy]: TEXT "<function"
f_bar: f_bar_hd "=bar>" /[0-9]+/ "</function>"
"""
"""From llguidance's documentation of tool calls."""


def accepts(constraint: sg.Constraint, tokens: list[int]) -> bool:
    matcher = sg.Matcher(constraint, VOCABULARY)
    return all(map(matcher.advance, tokens)) and matcher.is_complete()


def fits(constraint: sg.Constraint, text: str) -> bool:
    return accepts(constraint, list(text.encode()))


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("no call", True),
        ("", True),
        ('ab <function=foo>{"a": 1}</function>', True),
        ("<function=bar>12</function> and <function=foo>{}</function> then text", True),
        ("<function=bar>12</function><function=bar>3</function>", True),
        ("ab <function", False),
        ("ab <function=baz>1</function>", False),
        ("ab <function=bar>x</function>", False),
        ("ab <function=foo>[]</function>", False),
        ("ab <function=bar>12</function> <function=nothing", False),
        ("ab <function=bar>12", False),
    ],
)
def test_calls_of_tools_are_enforced(text: str, right: bool) -> None:
    assert fits(sg.lark(TWO_TOOLS, lexer="longest", contextual=True), text) == right


@pytest.mark.parametrize(("lexer", "contextual"), OPTIONS)
def test_no_lexer_reads_a_malformed_call_as_text(lexer: Any, contextual: bool) -> None:
    source = (
        TWO_TOOLS.replace(r"/(.|\n)*/", r"/(.|\n)+/")
        .replace("f_end: TEXT", "f_end: TEXT?")
        .replace('TEXT "<f', 'TEXT? "<f')
    )
    calls = sg.lark(source, lexer=lexer, contextual=contextual)
    for text in (
        "<function",
        "a<function=baz>1</function>",
        "a<function=bar>x</function>",
        "a<function=foo>[]</function>",
    ):
        assert not fits(calls, text)
    assert fits(calls, "no call <func")


@pytest.mark.parametrize("option", ["lazy", 'suffix="<end>"', 'lazy, suffix="<end>"'])
@pytest.mark.parametrize("name", ["part", "PART"])
def test_the_options_that_are_lazy(option: str, name: str) -> None:
    body = "/.*/" if "suffix" in option else "/.*<end>/"
    source = f'start: {name} "!" | REST\n{name}[{option}]: {body}\nREST: /.+/'
    parts = sg.lark(source, lexer="longest", contextual=True)
    assert fits(parts, "a<end>!") and fits(parts, "<end>!") and fits(parts, "a<en>!")
    assert not fits(parts, "a<end>b<end>!") and not fits(parts, "a<end>") and not fits(parts, "a<end>?")


def test_a_special_token_begins_the_call() -> None:
    source = r"""
    start: normal_text | call
    normal_text: /(.|\n)*/
    call: <|tool|> "search(query=" JSON_STRING ")" <|eom|>
    JSON_CHAR: /(\\([\"\\\/bfnrt]|u[a-fA-F0-9]{4})|[^\"\\\x00-\x1F\x7F])/
    JSON_STRING: "\"" JSON_CHAR* "\""
    """
    calls = sg.lark(source, lexer="longest", contextual=True)
    assert accepts(calls, [TOOL, *b'search(query="a\\n")', EOM])
    assert accepts(calls, [*b"search(query="])
    for wrong in ([TOOL, *b"search(query=1)", EOM], [*b"text", TOOL], [TOOL, *b"text", EOM], [TOOL]):
        assert not accepts(calls, wrong)


# Against the twin, and llguidance.

_PATTERNS = ["x", "y", "xy", "x+", "x+y", "y+x", "[xy]", "[xy]+y", "xx", "[xyz]+z", "z"]
_TEXTS = ["".join(letters) for length in range(1, 6) for letters in product("xyz", repeat=length)]
Terms = dict[str, tuple[str, bool]]
"""By name, best first: the pattern, and whether it is lazy."""


def _random_grammar(rng: random.Random, greedy: int) -> tuple[Terms, list[list[str]]]:
    patterns = rng.sample(_PATTERNS, rng.randint(2, 4))
    terms = {
        name: (pattern, place >= greedy)
        for place, (name, pattern) in enumerate(zip("abcd", patterns, strict=False))
    }
    ways = [[rng.choice(list(terms)) for _ in range(rng.randint(1, 3))] for _ in range(rng.randint(1, 3))]
    used = {name for way in ways for name in way}
    return {name: term for name, term in terms.items() if name in used}, ways


def _source(terms: Terms, ways: list[list[str]], priorities: bool) -> str:
    lines = [
        "start: "
        + " | ".join(" ".join(name if terms[name][1] else name.upper() for name in way) for way in ways)
    ]
    for place, (name, (pattern, lazy)) in enumerate(terms.items()):
        priority = f".{10 - place}" if priorities else ""
        lines.append(f"{name}[lazy]: /{pattern}/" if lazy else f"{name.upper()}{priority}: /{pattern}/")
    return "\n".join(lines)


def _lexeme(terms: Terms, text: str, allowed: set[str], longest: bool) -> tuple[set[str], int] | None:
    """Return the terminals of the first lexeme, and its length."""

    def matching(names: list[str], length: int) -> list[str]:
        return [name for name in names if re.fullmatch(terms[name][0], text[:length])]

    lazy = [name for name in allowed if terms[name][1]]
    for length in range(1, len(text) + 1):
        if kinds := matching(lazy, length):
            return set(kinds), length
    greedy = [name for name in terms if name in allowed and not terms[name][1]]
    for names in [greedy] if longest else [[name] for name in greedy]:
        for length in range(len(text), 0, -1):
            if kinds := matching(names, length):
                return {kinds[0]}, length
    return None


def _twin(terms: Terms, ways: list[list[str]], text: str, longest: bool, contextual: bool) -> bool:
    rests = ways
    while text:
        allowed = {rest[0] for rest in rests if rest} if contextual else set(terms)
        found = _lexeme(terms, text, allowed, longest)
        if found is None:
            return False
        rests = [rest[1:] for rest in rests if rest and rest[0] in found[0]]
        text = text[found[1] :]
    return [] in rests


def _ours(source: str, lexer: Any, contextual: bool) -> Iterator[bool]:
    try:
        constraint = sg.lark(source, lexer=lexer, contextual=contextual)
        matcher = sg.Matcher(constraint, VOCABULARY)
    except EmptyConstraint:
        yield from [False] * len(_TEXTS)
        return
    for text in _TEXTS:
        taken = 0
        while taken < len(text) and matcher.advance(ord(text[taken])):
            taken += 1
        yield taken == len(text) and matcher.is_complete()
        matcher.rollback(taken)


@pytest.mark.parametrize(("lexer", "contextual"), OPTIONS)
def test_lexemes_are_those_of_the_twin(lexer: Any, contextual: bool) -> None:
    rng = random.Random(f"{lexer} {contextual}")
    for _ in range(25):
        terms, ways = _random_grammar(rng, greedy=2)
        source = _source(terms, ways, priorities=True)
        for text, ours in zip(_TEXTS, _ours(source, lexer, contextual), strict=True):
            assert ours == _twin(terms, ways, text, lexer == "longest", contextual), (source, text)


class _Bytes:
    """Return a tokenizer for llguidance in which each byte is a token."""

    tokens = (*(bytes([byte]) for byte in range(256)), b"<|end|>")
    eos_token_id = 256
    bos_token_id = None
    special_token_ids = (256,)

    def __call__(self, text: bytes) -> list[int]:
        return list(text)


def _theirs(llguidance: Any, source: str, texts: list[str]) -> list[bool]:
    tokenizer = llguidance.LLTokenizer(llguidance.TokenizerWrapper(_Bytes()))
    out = []
    for text in texts:
        matcher = llguidance.LLMatcher(tokenizer, source, log_level=0)
        assert not matcher.is_error(), matcher.get_error()
        out.append(matcher.try_consume_tokens(list(text.encode())) == len(text) and matcher.is_accepting())
    return out


def test_llguidance_agrees() -> None:
    llguidance = pytest.importorskip(
        "llguidance", reason="llguidance, whose options these are, is not installed"
    )
    rng = random.Random(7)
    for _ in range(12):
        # It counts a text of several greedy terminals as all of them, and fails instead of backtracking.
        terms, ways = _random_grammar(rng, greedy=rng.randint(0, 1))
        source = _source(terms, ways, priorities=False)
        texts = rng.sample(_TEXTS, 60)
        ours = dict(zip(_TEXTS, _ours(source, "longest", True), strict=True))
        for text, theirs in zip(texts, _theirs(llguidance, source, texts), strict=True):
            assert ours[text] >= theirs, (source, text)
            if not any(len(pattern) > 2 and not lazy for pattern, lazy in terms.values()):
                assert ours[text] == theirs, (source, text)
    for text, theirs in zip(CALLS, _theirs(llguidance, TWO_TOOLS, CALLS), strict=True):
        assert fits(sg.lark(TWO_TOOLS, lexer="longest", contextual=True), text) == theirs, text


CALLS = [
    "text",
    "a<function=bar>12</function>",
    "a<function=foo>{}</function>b",
    "a<function=baz>12</function>",
    "a<function=bar>x</function>",
    "a<function",
]
