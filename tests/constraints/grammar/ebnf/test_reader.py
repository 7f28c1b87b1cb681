"""XGrammar's EBNF: every construct against enumeration, XGrammar's own matcher, and error messages."""

from __future__ import annotations

import importlib.metadata
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from hypothesis import assume, given, settings

from structgen.constraints.grammar.bnf_reader import NotationLimits
from structgen.constraints.grammar.ebnf.reader import read_ebnf
from structgen.errors import GrammarUnsupported, LimitExceeded
from structgen.ir.grammar import Position
from tests.constraints.grammar.bnf_samples import COMMON_CONSTRUCTS, COMMON_FAULTS, check_error
from tests.oracles.grammar_texts import accepts, language, words
from tests.strategies.bnf_grammars import Drawn, grammars

# Of EBNF alone: a source, an alphabet, and a pattern of the same language.
CONSTRUCTS = [
    ('root ::= "" | "a"', "a", "a?"),
    ('root ::= ( ) "a" ()', "a", "a"),
    ('root ::= "a" "b"+', "ab", "ab+"),
    ('root ::= "a"{2,-1}', "a", "a{2,}"),
    ('root ::= "a"\n { 1 , 2 }', "a", "a{1,2}"),
    ('root ::= ("a"{2})*', "a", "(aa)*"),
    ("root ::= []", "ab", "(?!)"),
    ('root ::= "a" | [] "b"', "ab", "a"),
    ("root ::= [^]", "a\né", r"[\s\S]"),
    (r"root ::= [\$\^\.\*\+\?]", "^$.*+?", r"[\^$.*+?]"),
    (r"root ::= [\(\)\{\}\|\/\'\"]", "(){}|/'\"", r"[(){}|/'\"]"),
    ('root ::= [a^#"(]', 'ab^#"(', r"[a^#\"(]"),
    (r'root ::= "\n\t\r" | "\a\b\f\v" | "\e"', "\n\t\r\x1b", "\n\t\r|\x1b"),
    (r'root ::= "\a" | "\b" | "\f" | "\v"', "\a\b\f\v", "[\a\b\f\v]"),
    (r'root ::= "\"\\" | "\/\'\?"', "\"\\/'?", "\"\\\\|/'\\?"),
    (r'root ::= "\u0042\U00000043" | "\x41"', "ABC", "BC|A"),
    (r'root ::= "\x1F600" | "\x41g"', "😀Ag", "😀|Ag"),
    ('root ::= "é" | "\u20ac" | "\U0001f600"', "é€😀", "[é€😀]"),
    ('root ::= "a"\n\n # more\n "b"\n | "c"', "abc", "ab|c"),
    ('root\n# c\n::=\nx\n  "b"\n\tx\n::= "a"', "ab", "ab"),
    ('root ::= x[b]\nx ::= "a"', "ab", "ab"),
    ('root ::= a.b-c_d -e\na.b-c_d ::= "a"\n-e ::= "b"', "ab", "ab"),
]


@pytest.mark.parametrize(("source", "alphabet", "pattern"), [*COMMON_CONSTRUCTS, *CONSTRUCTS])
def test_constructs_by_enumeration(source: str, alphabet: str, pattern: str) -> None:
    wanted = {word for word in words(alphabet, 4) if re.fullmatch(pattern, word)}
    assert language(read_ebnf(source), alphabet, 4) == wanted


def test_what_xgrammar_takes_otherwise() -> None:
    assert language(read_ebnf(r"root ::= [\^a]"), "^ab", 2) == {"^", "a"}
    grammar = read_ebnf(r'root ::= "a\0b" [\0]')
    assert accepts(grammar, "a\0b\0")
    assert not accepts(grammar, "a")
    counted = read_ebnf('root ::= "a"{4294967297}', limits=NotationLimits(count=2**40))
    assert counted.rules[0].body == ("text", ("repeat", ("literal", "a"), 4294967297, 4294967297))


def test_a_grammar_has_its_rules_in_order_with_their_positions() -> None:
    source = '# first\nroot ::= b\n\n  b ::= "x"\nunused ::=\n "é"\n b\n  c\n::= "y"'
    grammar = read_ebnf(source, start="b")
    assert (grammar.start, grammar.lexer, grammar.source) == ("b", None, source)
    positions = {"root": Position(2, 1), "b": Position(4, 3), "unused": Position(5, 1), "c": Position(8, 3)}
    assert {rule.name: grammar.position(rule) for rule in grammar.rules} == positions
    assert list(positions) == [rule.name for rule in grammar.rules]


# TagDispatch, as its documentation defines it.


def dispatched(text: str, tags: dict[str, str], excludes: tuple[str, ...], loops: bool) -> bool:
    """The slow twin: free text until the first tag ends, then a text of the tag's rule, then free text again."""

    @cache
    def rest(start: int, free_only: bool) -> bool:
        for end in range(start, len(text) + 1):
            before = text[start:end]
            if any(before.endswith(word) for word in excludes):
                return False
            found = [] if free_only else [tag for tag in tags if before.endswith(tag)]
            if found:
                longest = max(map(len, found))
                found = [tag for tag in found if len(tag) == longest]
                after = [end + len(tags[tag]) for tag in found if text.startswith(tags[tag], end)]
                return any(rest(position, False) if loops else position == len(text) for position in after)
        return True

    return rest(0, False)


DISPATCHES: list[tuple[dict[str, str], tuple[str, ...], bool]] = [
    ({"ab": "x"}, (), True),
    ({"ab": "x"}, (), False),
    ({"ab": "x", "ba": "xx"}, (), True),
    ({"ab": "x", "b": "xx"}, (), True),
    ({"ab": "x", "b": "xx"}, (), False),
    ({"ab": "x", "b": "aa"}, (), True),
    ({"b": "aa", "ab": "x", "xab": "b"}, (), True),
    ({"aab": "x"}, (), True),
    ({"aba": "x"}, (), True),
    ({"ab": ""}, (), True),
    ({"ab": "b"}, ("x",), True),
    ({"ab": "x"}, ("ax",), True),
    ({"ab": "x"}, ("b",), True),
    ({"aba": "x"}, ("b",), True),
    ({"ab": "x"}, ("abx", "bb"), True),
    ({"ab": "x"}, ("bb",), False),
    ({}, ("ab", "xx"), True),
    ({}, (), True),
]


def dispatch_source(tags: dict[str, str], excludes: tuple[str, ...], loops: bool) -> str:
    arguments = [f'("{tag}", r{index})' for index, tag in enumerate(tags)]
    if excludes:
        arguments.append("excludes=(" + ", ".join(f'"{word}"' for word in excludes) + ",)")
    if not loops:
        arguments.append("loop_after_dispatch = false")
    rules = [f'r{index} ::= "{text}"' for index, text in enumerate(tags.values())]
    return "\n".join([f"root ::= TagDispatch({', '.join(arguments)})", *rules])


@pytest.mark.parametrize(("tags", "excludes", "loops"), DISPATCHES)
def test_tag_dispatch_by_enumeration(tags: dict[str, str], excludes: tuple[str, ...], loops: bool) -> None:
    grammar = read_ebnf(dispatch_source(tags, excludes, loops))
    wanted = {word for word in words("abx", 5) if dispatched(word, tags, excludes, loops)}
    assert language(grammar, "abx", 5) == wanted


@pytest.mark.parametrize(
    "call",
    [
        'TagDispatch(("a", b))',
        'TagDispatch ( ("a" , b , ) )',
        'TagDispatch( # one\n ("\\x61", b),\n excludes=(),\n loop_after_dispatch=true\n)',
        'TagDispatch(loop_after_dispatch=true, ("a", b))',
    ],
)
def test_ways_to_write_a_dispatch(call: str) -> None:
    plain = read_ebnf('root ::= TagDispatch(("a", b)) "!"\nb ::= "z"')
    assert read_ebnf(f'root ::= {call} "!"\nb ::= "z"').rules[0].body == plain.rules[0].body
    assert accepts(plain, "xaz!!")
    assert not accepts(plain, "xa!")


# Of EBNF alone: a source, the line, column and length of the mistake, and parts of the message and the hint.
FAULTS = [
    ("root ::= .", (1, 10, 1), "there is no rule .", "Any character is [^]."),
    ("root ::= true", (1, 10, 4), "there is no rule true", 'Quote it if it is a text: "true"'),
    ('root ::= "a"\nb ::= "b"\nroot ::= "c"', (3, 1, 4), "already defined in line 1", "XGrammar refuses it, too"),
    ('root ::= "a\nb"', (1, 10, 1), "this string is not closed", "a newline as \\n"),
    ("root ::= [a\nb]", (1, 10, 1), "this class is not closed", "a newline as \\n"),
    ("root ::= [ab-aq]", (1, 12, 3), "the range b-a is reversed", "\\-"),
    ('root ::= "\\["', (1, 11, 2), "unknown escape \\[", "\\n \\r \\t"),
    ("root ::= [\\d]", (1, 11, 2), "unknown escape \\d", "[0-9]"),
    ('root ::= "\\xg"', (1, 11, 2), "\\x needs hexadecimal digits", "two"),
    ('root ::= "\\x110000"', (1, 11, 8), "no character has this number", "\\U0010FFFF"),
    ('root ::= "a"++', (1, 14, 1), "+ follows another repetition", "(x*){2}"),
    ('root ::= "a"{2}{2}', (1, 16, 3), "{2} follows another repetition", "(x*){2}"),
    ("root ::= ", (1, 10, 1), "the alternative before the end is empty", '""'),
    ('root ::= | "a"', (1, 10, 1), "the alternative before this | is empty", '""'),
    ('root ::= "a" | ', (1, 16, 1), "the alternative before the end is empty", '""'),
    ('root ::= ("a" | )', (1, 17, 1), "the alternative before this ) is empty", '""'),
    ('root ::=\nb ::= "a"', (2, 1, 1), "the alternative before the next rule is empty", '""'),
    ('root ::= a "b" a ::= "c"', (1, 16, 1), "the rule a is not at the start of a line", "a line of its own"),
    ('root ::= a\na = "a"', (2, 3, 1), "'=' has no meaning here", "name ::= ..."),
    ('::= "a"', (1, 1, 1), "a rule must begin here", "name ::= ..."),
    ("root ::= 1a", (1, 10, 1), "'1' has no meaning here", "quote it"),
    ("root ::= <a>", (1, 10, 1), "'<' has no meaning here", 'Token("text")'),
    ("root ::= TagDispatch", (1, 21, 1), "TagDispatch needs the arguments", "The form is"),
    ("root ::= TagDispatch(", (1, 22, 1), "TagDispatch needs a pair", "The form is"),
    ('root ::= TagDispatch("a")', (1, 22, 3), "TagDispatch needs a pair", "The form is"),
    ('root ::= TagDispatch(("a", root),)', (1, 34, 1), "TagDispatch needs a pair", "The form is"),
    ('root ::= TagDispatch(("a" root))', (1, 27, 4), "needs a comma and the name", "The form is"),
    ('root ::= TagDispatch(("a", "b"))', (1, 28, 3), "needs the name of the tag's rule", "The form is"),
    ('root ::= TagDispatch(("a", root)', (1, 33, 1), "needs a comma or the closing parenthesis", "The form is"),
    ('root ::= TagDispatch(("", root))', (1, 23, 2), "a tag or an excluded text must not be empty", "The form is"),
    ('root ::= TagDispatch(("a\\q", root))', (1, 25, 2), "unknown escape \\q", "\\n"),
    ('root ::= TagDispatch(("a", rot))', (1, 28, 3), "there is no rule rot", "Did you mean root?"),
    ("root ::= TagDispatch(stop=true)", (1, 22, 4), "no option 'stop'", "excludes"),
    ("root ::= TagDispatch(excludes=(), excludes=())", (1, 35, 8), "given twice", "Remove one"),
    ("root ::= TagDispatch(loop_after_dispatch=maybe)", (1, 42, 5), "needs true or false", "The form is"),
    ('root ::= TagDispatch(excludes="a")', (1, 31, 3), "needs a tuple of strings", "The form is"),
    ('root ::= TagDispatch(("ab", root), excludes=("a",))', (1, 10, 11), "begins with an excluded text, 'a'", "never"),
]  # fmt: skip


@pytest.mark.parametrize(("source", "position", "message", "hint"), [*COMMON_FAULTS, *FAULTS])
def test_faults_show_their_position(
    source: str, position: tuple[int, int, int], message: str, hint: str
) -> None:
    check_error(read_ebnf, source, position, message, hint)


@pytest.mark.parametrize(
    ("source", "position", "message"),
    [
        ('root ::= TagDispatch(("ab", root), ("abc", root))', (1, 10, 11), "'abc' contains another tag, 'ab'"),
        ('root ::= TagDispatch(("aab", root), ("a", root))', (1, 10, 11), "'aab' contains another tag, 'a'"),
    ],
)  # fmt: skip
def test_what_is_unsupported_is_named(source: str, position: tuple[int, int, int], message: str) -> None:
    check_error(read_ebnf, source, position, message, error=GrammarUnsupported)


def test_tags_have_limits() -> None:
    many = ", ".join(f'("<{index}>", root)' for index in range(257))
    with pytest.raises(LimitExceeded, match="too many tags and excluded texts: the limit is 256"):
        read_ebnf(f"root ::= TagDispatch({many})")
    grammar = read_ebnf(f"root ::= TagDispatch({many})", limits=NotationLimits(tags=300))
    assert len(grammar.rules[0].body[1][0][1][1]) == 257
    with pytest.raises(LimitExceeded, match="has 1001 characters: the limit is 1000"):
        read_ebnf(f'root ::= TagDispatch(("{"a" * 1001}", root))')


# XGrammar's own matcher.


class _XGrammar:
    """XGrammar's compiler with a vocabulary of single bytes."""

    def __init__(self, module: Any) -> None:
        self.module = module
        vocabulary: list[Any] = [bytes([byte]) for byte in range(256)]
        info = module.TokenizerInfo(
            [*vocabulary, b"<end>"], vocab_type=module.VocabType.RAW, stop_token_ids=[256]
        )
        self.compiler = module.GrammarCompiler(info)

    def language(self, source: str, texts: Iterator[str]) -> set[str]:
        compiled = self.compiler.compile_grammar(self.module.Grammar.from_ebnf(source))
        return {text for text in texts if self.accepts(compiled, text)}

    def accepts(self, compiled: Any, text: str) -> bool:
        matcher = self.module.GrammarMatcher(compiled)
        return bool(matcher.accept_string(text.encode())) and bool(matcher.accept_token(256))


@pytest.fixture(scope="module")
def xgrammar() -> _XGrammar:
    module = pytest.importorskip("xgrammar", reason="xgrammar is not installed")
    if not importlib.metadata.version("xgrammar").startswith("0.2."):
        pytest.skip("the notation is that of xgrammar 0.2")
    return _XGrammar(module)


@pytest.mark.parametrize(("source", "alphabet", "pattern"), [*COMMON_CONSTRUCTS, *CONSTRUCTS])
def test_xgrammar_reads_constructs_alike(
    xgrammar: _XGrammar, source: str, alphabet: str, pattern: str
) -> None:
    wanted = {word for word in words(alphabet, 3) if re.fullmatch(pattern, word)}
    assert xgrammar.language(source, iter(words(alphabet, 3))) == wanted


@pytest.mark.parametrize(("tags", "excludes", "loops"), DISPATCHES)
def test_xgrammar_dispatches_alike(
    xgrammar: _XGrammar, tags: dict[str, str], excludes: tuple[str, ...], loops: bool
) -> None:
    source = dispatch_source(tags, excludes, loops)
    ours = language(read_ebnf(source), "abx", 4)
    assert xgrammar.language(source, iter(words("abx", 4))) == ours


@settings(max_examples=100)
@given(grammars("ebnf", recursive=False))  # root ::= root{1,2} ends the process
def test_xgrammar_reads_random_grammars_alike(xgrammar: _XGrammar, drawn: Drawn) -> None:
    assume("[^]" not in drawn.source)  # xgrammar 0.2.9 accepts the empty text for [^]+
    assert xgrammar.language(drawn.source, iter(words("ab", 4))) == language(read_ebnf(drawn.source), "ab", 4)


def test_what_xgrammar_prints_is_read(xgrammar: _XGrammar) -> None:
    source = 'root ::= ("a" | b)+ "\\n"?\nb ::= [^\\]a-c\\\\\\n-]{2,} TagDispatch(("<x>", c)) | c*\nc ::= "\\"" c{0,3}'
    printed = str(xgrammar.module.Grammar.from_ebnf(source))
    assert "{2, -1}" in printed
    assert language(read_ebnf(printed), 'ad"', 4) == language(read_ebnf(source), 'ad"', 4)
