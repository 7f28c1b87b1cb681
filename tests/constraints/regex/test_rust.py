"""The dialect of Rust's `regex` crate, against the crate itself: pydantic checks patterns with it."""

from __future__ import annotations

import random
from typing import Annotated, Any

import pytest
from pydantic import Field, TypeAdapter, ValidationError
from pydantic_core import SchemaError

from structgen.constraints.regex import pattern_language, regex
from structgen.errors import RegexError, RegexSyntaxError, RegexUnsupported
from tests.oracles.regex_twin import accepts

ATOMS = ["a", "b", "A", "é", "1", "-", "_", " ", r"\n", r"\x61", r"\u{e9}"]
SETS = [
    r"\d",
    r"\w",
    r"\s",
    r"\D",
    r"\W",
    r"\S",
    ".",
    r"\pL",
    r"\PL",
    r"\p{Greek}",
    r"\p{Lu}",
    r"\p{sc=Latin}",
]
PLACES = [
    "^",
    "$",
    r"\b",
    r"\B",
    r"\A",
    r"\z",
    r"\b{start}",
    r"\b{end}",
    r"\b{start-half}",
    r"\b{end-half}",
    r"\<",
    r"\>",
]
MEMBERS = [
    "a", "b", "a-c", "é", "à-ü", r"\P{Lu}", "[:^lower:]", r"\d", r"\W", r"\w", r"\s", "[:alpha:]", "[:^digit:]",
    r"\p{L}", r"\PL", "-", "_", " ", r"\-", "&", "k", "s", r"\x{41}-\x{43}",
]  # fmt: skip
REPEATS = ["*", "+", "?", "{2}", "{1,2}", "{ 2 }", "{0,2}", "+?", "*+", "?*", "**"]
CHARACTERS = [*"abcAéÉ1-_ \nαksſ٣&\rB", "\u212a", "\u00a0", "\x85"]


def pattern(chance: random.Random, depth: int = 0) -> str:
    count = chance.choice([1, 1, 2])
    return "|".join(
        "".join(piece(chance, depth) for _ in range(chance.randrange(0 if depth else 1, 4)))
        for _ in range(count)
    )


def piece(chance: random.Random, depth: int) -> str:
    kind = chance.randrange(12)
    if kind < 3 or depth > 2:
        return chance.choice(ATOMS)
    if kind < 7:
        return chance.choice([chance.choice(SETS), chance.choice(PLACES), members(chance), members(chance)])
    if kind == 7:
        return "(" + pattern(chance, depth + 1) + ")"
    if kind == 8:
        return "(?:" + pattern(chance, depth + 1) + ")" + chance.choice(REPEATS)
    if kind == 9:
        return (
            f"(?{chance.choice(['i', 'm', 's', 'x', 'im', '-i', 'i-s', 'U'])}:{pattern(chance, depth + 1)})"
        )
    if kind == 10:
        return chance.choice("aéb") + chance.choice(REPEATS)
    return f"(?{chance.choice('imsx')})"


def members(chance: random.Random, depth: int = 0) -> str:
    listed = [chance.choice(MEMBERS) for _ in range(chance.randrange(1, 4))]
    if depth < 2 and chance.random() < 0.2:
        listed.append(members(chance, depth + 1))
    text = "".join(listed)
    if chance.random() < 0.3:
        text += chance.choice(["&&", "--", "~~"]) + chance.choice(
            ["a", r"\w", "[^b]", "a-c", r"\p{L}", "[a-z]", ""]
        )
    return f"[{chance.choice(['', '^'])}{text}]"


def pydantics(source: str) -> Any:
    adapter: TypeAdapter[str] = TypeAdapter(Annotated[str, Field(pattern=source)])

    def matches(text: str) -> bool:
        try:
            adapter.validate_python(text)
        except ValidationError:
            return False
        return True

    return matches


@pytest.mark.parametrize("seed", range(40))
def test_the_language_is_the_crates(seed: int) -> None:
    chance = random.Random(seed)
    compared = 0
    while compared < 10:
        source = pattern(chance)
        source = f"^(?:{source})$" if chance.random() < 0.3 else source
        try:
            matches = pydantics(source)
        except SchemaError:
            continue
        compared += 1
        language = pattern_language(source, "rust")
        for _ in range(8):
            text = "".join(chance.choice(CHARACTERS) for _ in range(chance.randrange(5)))
            assert accepts(language, text) == matches(text), (source, text)


@pytest.mark.parametrize(
    ("source", "yes", "no"),
    [
        ("^[[:alpha:]]$", ["a", "Z"], ["1", "é", ":"]),
        ("^[a-z&&[^aeiou]]+$", ["b"], ["a"]),
        ("^[a-z--[b-d]]$", ["a", "e"], ["b"]),
        ("^[a-c~~b-d]$", ["a", "d"], ["b"]),
        (r"^\W$", ["-", " "], ["é", "a"]),
        (r"^\D$", ["a"], ["٣", "3"]),
        (r"^\S$", ["a"], ["\u00a0", " ", "\x85"]),
        ("(?m)^b$", ["a\nb", "b"], ["a\rb", "ab"]),
        ("^b$", ["b"], ["b\n"]),
        ("^[]a]$", ["]", "a"], ["b"]),
        ("^[^]a]$", ["b"], ["]", "a"]),
        ("(?x) ^ [a b] $ # comment", ["a", "b"], [" "]),
        ("(?-u)^\\w$", ["a"], ["é"]),
    ],
)
def test_what_is_particular_to_the_crate(source: str, yes: list[str], no: list[str]) -> None:
    language, matches = pattern_language(source, "rust"), pydantics(source)
    for text in [*yes, *no]:
        assert accepts(language, text) == matches(text) == (text in yes), text


@pytest.mark.parametrize(
    "source",
    ["(?=a)", "(?<!a)b", r"(a)\1", r"\Z", "a{", "a{,3}", "[a", "[z-a]", r"[a-\d]", r"\h", r"\p{No_such}", "(?q)a", "a)",
     "*a", r"\x{110000}", r"\u{D800}", "{", "(a", "x{2,1}", r"\cA", r"\0", "(?P=n)", "(?>a)"],
)  # fmt: skip
def test_what_the_crate_refuses_is_refused(source: str) -> None:
    with pytest.raises(SchemaError):
        pydantics(source)
    with pytest.raises((RegexSyntaxError, RegexUnsupported)) as caught:
        pattern_language(source, "rust")
    assert caught.value.hint


@pytest.mark.parametrize("source", ["(?R)a", r"\p{age=3.0}"])
def test_what_is_not_supported_is_refused(source: str) -> None:
    pydantics(source)
    with pytest.raises(RegexError):
        pattern_language(source, "rust")


def test_it_is_a_dialect_of_patterns() -> None:
    assert accepts(regex("[[:digit:]]+", dialect="rust").regular(), "12")
    with pytest.raises(Exception, match="no flag"):
        regex("a", dialect="rust", flags=256)
