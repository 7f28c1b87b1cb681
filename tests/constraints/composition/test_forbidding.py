"""`forbid` excludes forbidden texts and nothing else, compared word by word."""

from __future__ import annotations

import re
from itertools import product

import pytest

import structgen as sg
from structgen.errors import CombinationError, OptionError
from structgen.matcher import Matcher
from tests.core.small_vocabulary import EOS, byte_vocabulary

BYTES = byte_vocabulary()
CODE = """start: statement+
statement: NAME "=" value ";" | call ";"
value: NAME | call | /[0-9]/
call: NAME "(" value? ")"
NAME: /[ab]+/
"""


def fits(constraint: sg.Constraint, text: str) -> bool:
    matcher = Matcher(constraint, BYTES)
    return all(matcher.advance(len(EOS) + byte) for byte in text.encode()) and matcher.is_complete()


def words(letters: str, most: int) -> list[str]:
    return ["".join(one) for n in range(most + 1) for one in product(letters, repeat=n)]


@pytest.mark.parametrize("patterns", ["aa", ["ab", "b{2}$"], r"a\b", "^b", r"(?i:A)b"])
def test_patterns_anywhere(patterns: str | list[str]) -> None:
    whole = sg.regex("[ab ]{0,5}")
    rest = sg.forbid(whole, patterns)
    searched = re.compile("|".join([patterns] if isinstance(patterns, str) else patterns))
    for word in words("ab ", 5):
        assert fits(rest, word) == (searched.search(word) is None), word


def test_patterns_anywhere_in_a_grammar() -> None:
    rest = sg.forbid(sg.lark(CODE, lexer="longest"), "ab")
    assert fits(rest, "a=b;b(a);") and not fits(rest, "a=ab;") and not fits(rest, "ba=b;ab();")


@pytest.mark.parametrize("lexer", ["lark", "longest"])
def test_lexemes_of_a_terminal(lexer: str) -> None:
    code = sg.lark(CODE, lexer=lexer)  # type: ignore[arg-type]
    anywhere = sg.forbid(code, ["ab", "bb+"], terminal="NAME")
    in_calls = sg.forbid(code, "ab|bb+", terminal="NAME", rules="call")
    for text in ["a=b;", "ab=1;", "a=ab;", "ab();", "aab();", "a(ab);", "a(bbb(1));", "ba=bb;", "a=bb();"]:
        names = re.findall("[ab]+", text)
        called = re.findall(r"([ab]+)\(", text)
        bad = re.compile("(?:ab|bb+)$")
        assert fits(code, text)
        assert fits(anywhere, text) == (not any(map(bad.match, names))), text
        assert fits(in_calls, text) == (not any(map(bad.match, called))), text


def test_hints_name_what_can_be_forbidden() -> None:
    with pytest.raises(CombinationError, match='forbid\\(..., terminal="NAME"\\)'):
        sg.forbid(sg.grammar("python"), r"eval\(")
    with pytest.raises(
        OptionError, match="no terminal 'IDENTIFIER'\n.*LINE_COMMENT, MACRO_WORD, NAME, NUMBER"
    ):
        sg.forbid(sg.grammar("cpp"), "gets", terminal="IDENTIFIER")


def test_a_forbidden_name_is_not_read_as_two() -> None:
    """If `ab` were not a lexeme at all, it could be read as `a` and then `b`."""
    code = sg.lark("start: NAME NAME?\nNAME: /[ab]+/\n%ignore / /", lexer="longest")
    rest = sg.forbid(code, "ab", terminal="NAME")
    assert fits(rest, "a b") and fits(rest, "aab") and not fits(rest, "ab") and not fits(rest, "a ab")


def test_a_ready_grammar() -> None:
    safe = sg.forbid(sg.grammar("cpp"), "gets|strcpy", terminal="NAME")
    assert fits(safe, "int main() { fgets(line); return 0; }\n")
    assert not fits(safe, "int main() { gets(line); return 0; }\n")


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"terminal": "NAMES"}, OptionError, "no terminal 'NAMES'"),
        ({"terminal": "NAME", "rules": "calls"}, OptionError, "no rule 'calls'"),
        ({"rules": "call"}, OptionError, "with rules needs a terminal"),
    ],
)
def test_what_is_not_there(options: dict[str, str], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        sg.forbid(sg.lark(CODE, lexer="longest"), "ab", **options)


def test_where_it_cannot_be() -> None:
    with pytest.raises(OptionError, match="needs a grammar with terminals"):
        sg.forbid(sg.regex("a"), "a", terminal="A")
    with pytest.raises(OptionError, match="ignores the terminal"):
        sg.forbid(sg.lark('start: "a"\nW: / +/\n%ignore W', lexer="longest"), " ", terminal="W")
    with pytest.raises(CombinationError):
        sg.forbid(sg.json_schema({"type": "object"}), "secret")
    with pytest.raises(OptionError):
        sg.forbid(sg.regex("a"), [])


@pytest.mark.parametrize("lexer", ["lark", "longest"])
def test_more_is_forbidden_of_what_was_split(lexer: str) -> None:
    code = sg.lark(CODE, lexer=lexer)  # type: ignore[arg-type]
    once = sg.forbid(code, "ab", terminal="NAME", rules="call")
    assert fits(once, "ab=1;") and not fits(once, "ab();")
    for rest in (
        sg.forbid(once, "ab", terminal="NAME"),
        sg.forbid(once, "ab", terminal="NAME", rules="statement"),
    ):
        assert not fits(rest, "ab=1;") and not fits(rest, "ab();") and fits(rest, "aab=1;")


def test_a_contextual_lexer_is_refused() -> None:
    grammar = sg.lark("start: NAME NAME?\nNAME: /[ab]+/\n%ignore / /", lexer="longest", contextual=True)
    with pytest.raises(OptionError, match="does not support a contextual lexer"):
        sg.forbid(grammar, "ab", terminal="NAME")


def test_flags_of_the_whole_pattern_are_an_error() -> None:
    with pytest.raises(OptionError, match="cannot combine its patterns"):
        sg.forbid(sg.regex("[a-z]+"), "(?i)ab")
    with pytest.raises(sg.StructgenError, match="a\\("):
        sg.forbid(sg.regex("[a-z]+"), "a(")
