"""GBNF: every construct against enumeration, real grammars, llama.cpp's own reader, and error messages."""

from __future__ import annotations

import ctypes
import importlib.util
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings

from structgen.constraints.grammar.gbnf import read_gbnf
from structgen.errors import ConstraintError, GrammarSyntaxError
from structgen.ir.grammar import Position
from tests.constraints.grammar.bnf_samples import COMMON_CONSTRUCTS, COMMON_FAULTS, check_error
from tests.oracles.grammar_texts import accepts, language, words
from tests.strategies.bnf_grammars import Drawn, grammars

# Of GBNF alone: a source, an alphabet, and a pattern of the same language.
CONSTRUCTS = [
    ("root ::= ", "a", ""),
    ('root ::= | "a"', "a", "a?"),
    ('root ::= "a" |', "a", "a?"),
    ('root ::= "b" ("a" | )', "ab", "ba?"),
    ('root ::= () "a" ()', "a", "a"),
    ('root ::= "a" "b"*', "ab", "ab*"),
    ('root ::= "a"+', "ab", "a+"),
    ('root ::= "a"{0,2}', "a", "a{0,2}"),
    ('root ::= "a" { 1 , 2 }', "a", "a{1,2}"),
    ('root ::= "a"{2}{2}', "a", "a{4}"),
    ('root ::= "a"{2}*', "a", "(aa)*"),
    ('root ::= "a"**', "a", "a*"),
    ('root ::= ""*', "a", ""),
    ("root ::= [a^]", "ab^", r"[a^]"),
    ("root ::= [a#|(]", "a#|(", r"[a#|(]"),
    ("root ::= [\n]", "\na", "\n"),
    ("root ::= [\nb: =:]", "\nb =[", "[\nb: =]"),
    ("root ::= [z-ab]", "abz", "b"),
    ("root ::= [^z-a]", "az", "[az]"),
    ("root ::= .", "a\né", r"[\s\S]"),
    ('root ::= . "a"', "ab", "[ab]a"),
    (r'root ::= "\n\t\r"', "\n\t\r", "\n\t\r"),
    (r'root ::= "\"\\"', '"\\', r'"\\'),
    (r'root ::= "\[\]\-"', "[]-", r"\[\]-"),
    (r'root ::= "\x41\u0042\U00000043"', "ABC", "ABC"),
    (r'root ::= "\x410"', "A0", "A0"),
    (r'root ::= "é" | "\u20AC" | "\U0001F600"', "é€😀", "[é€😀]"),
    ('root ::= "a\nb"', "ab\n", "a\nb"),
    ('root ::= ("a" # one\n\n "b"\n | # two\n "c"\n)\n', "abc", "ab|c"),
    ('root ::= ("a"\n*)', "a", "a*"),
    ('root ::= "a" |\n\n # more\n "b"', "ab", "[ab]"),
    ('root ::=\n\n # body\n "b"', "ab", "b"),
    ('root ::= (\n  "a"\n) | (\n  "b"\n)', "ab", "[ab]"),
    ('root ::= x[b].\nx ::= "a"', "ab", "ab[ab]"),
    (
        'root ::= check-mate a_b 1 UP-2\ncheck-mate ::= "a"\na_b ::= "b"\n1 ::= "a"\nUP-2 ::= "b"',
        "ab",
        "abab",
    ),
    ('root ::= root root | "a" | ""', "a", "a*"),
]


@pytest.mark.parametrize(("source", "alphabet", "pattern"), [*COMMON_CONSTRUCTS, *CONSTRUCTS])
def test_constructs_by_enumeration(source: str, alphabet: str, pattern: str) -> None:
    wanted = {word for word in words(alphabet, 4) if re.fullmatch(pattern, word)}
    assert language(read_gbnf(source), alphabet, 4) == wanted


def token_of(text: str, column: int) -> Any:
    """Return the body of a token given by its text, in the first line."""
    return ("tokens", ((text,), (), f"line 1, column {column}", True))


A, ROOT = ("text", ("literal", "a")), ("rule", "root")
BODIES: list[tuple[str, Any]] = [
    (
        '"a" "b" [cd] "e"',
        ("text", ("concat", (("literal", "ab"), ("class", ((99, 100),)), ("literal", "e")))),
    ),
    ('"ab" | "c" | ("d" | "e")', ("text", ("alternate", (("class", ((99, 101),)), ("literal", "ab"))))),
    ('"a"{5,900000}', ("text", ("repeat", ("literal", "a"), 5, 900000))),
    ("root{5,900000}", ("repeat", ROOT, 5, 900000)),
    ("(root)", ROOT),
    ("root{1}", ROOT),
    ("root{0}", ("sequence", ())),
    ('"" ()', ("sequence", ())),
    ('("a" root) root', ("sequence", (A, ROOT, ROOT))),
    ('"a" ("b" root)', ("sequence", (("text", ("literal", "ab")), ROOT))),
    ('"a" | root | ""', ("choice", (("text", ("repeat", ("literal", "a"), 0, 1)), ROOT))),
    ("<think> root </think>", ("sequence", (token_of("<think>", 10), ROOT, token_of("</think>", 23)))),
    ("<|im end|>+", ("repeat", token_of("<|im end|>", 10), 1, None)),
    ("!<a>", ("tokens", (None, ("<a>",), "line 1, column 10", False))),
    ("!<[5,7-9]>", ("tokens", (None, ((5, 5), (7, 9)), "line 1, column 10", False))),
    ("<[*]>", ("tokens", (None, (), "line 1, column 10", False))),
]


@pytest.mark.parametrize(("source", "body"), BODIES)
def test_bodies(source: str, body: Any) -> None:
    assert read_gbnf(f"root ::= {source}").rules[0].body == body


def test_a_grammar_has_its_rules_in_order_with_their_positions() -> None:
    source = '# first\nroot ::= b\n\n  b ::= "x"\nunused ::= (\n "é"\n) b\nc ::= "y"'
    grammar = read_gbnf(source, start="b")
    assert (grammar.start, grammar.lexer, grammar.source) == ("b", None, source)
    positions = {"root": Position(2, 1), "b": Position(4, 3), "unused": Position(5, 1), "c": Position(8, 1)}
    assert {rule.name: grammar.position(rule) for rule in grammar.rules} == positions
    assert list(positions) == [rule.name for rule in grammar.rules]


def test_special_tokens_are_one_item() -> None:
    grammar = read_gbnf("root ::= <think> [a-z]* </think> | <think>")
    assert accepts(grammar, ["<think>", "a", "b", "</think>"])
    assert accepts(grammar, ["<think>"])
    assert not accepts(grammar, "<think>ab</think>")


ARITHMETIC = r"""
# Equations, one a line.
root  ::= (expr "=" ws expr "\n")+
expr  ::= term ([-+*/] ws term)*
term  ::= (name | number | "(" ws expr ")") ws
name  ::= [a-z] [a-z0-9_]*
number ::= [0-9]+ ("." [0-9]+)?
ws    ::= [ \t]*
"""

JSON = r"""
root   ::= object
value  ::= object | array | string | number | ("true" | "false" | "null") ws

object ::=
  "{" ws (
            string ":" ws value
    ("," ws string ":" ws value)*
  )? "}" ws

array  ::=
  "[" ws (
            value
    ("," ws value)*
  )? "]" ws

string ::=
  "\"" (
    [^"\\\x7F\x00-\x1F] |
    "\\" (["\\/bfnrt] | "u" [0-9a-fA-F]{4}) # escapes
  )* "\"" ws

number ::= ("-"? ([0-9] | [1-9] [0-9]{0,15})) ("." [0-9]+)? ([eE] [-+]? [0-9]{1,15})? ws

ws ::= ([ \t\n] ws)?
"""

CHESS = r"""
root ::= (
    # the first move
    "1. " move " " move "\n"
    # and more of them
    ([1-9] [0-9]? ". " move " " move "\n")+
)
move ::= (pawn | nonpawn | castle) [+#]?
nonpawn ::= [NBKQR] [a-h]? [1-8]? "x"? [a-h] [1-8]
pawn ::= ([a-h] "x")? [a-h] [1-8] ("=" [NBKQR])?
castle ::= "O-O" "-O"?
"""

LIST = 'root ::= item+\n\n# characters except newlines\nitem ::= "- " [^\\r\\n\\x0b\\x0c\\x85\\u2028\\u2029]+ "\\n"\n'


@pytest.mark.parametrize(
    ("source", "inside", "outside"),
    [
        (ARITHMETIC, ["a=1\n", "1.5 *(x_1+2)= y\n", "a=b\nb=c\n"], ["a=\n", "a=b", "1.=2\n", "(a=b\n", ""]),
        (JSON, ["{}", '{"a": [1, -0.5e+3, {"b\\n": null}]}', "{ \n}\n"], ["[]", '{"a": 01}', '{"\x7f": 1}', "{,}"]),
        (CHESS, ["1. e4 e5\n2. Nf3 O-O-O+\n", "1. exd8=Q Rae1#\n12. a1 b2\n"], ["1. e4 e5\n", "1. e9 e5\n2. a1 b2\n"]),
        (LIST, ["- a\n", "- é b\n- c\n"], ["- a", "a\n", "- \n", "- a\u2028b\n", ""]),
    ],
)  # fmt: skip
def test_whole_grammars(source: str, inside: list[str], outside: list[str]) -> None:
    grammar = read_gbnf(source)
    assert [text for text in inside if not accepts(grammar, text)] == []
    assert [text for text in outside if accepts(grammar, text)] == []


# Of GBNF alone: a source, the line, column and length of the mistake, and parts of the message and the hint.
FAULTS = [
    ("root ::= a\nb ::= zzz", (1, 10, 1), "there is no rule a", "Define it"),
    ("root ::= hello", (1, 10, 5), "there is no rule hello", 'quote it if it is a text: "hello"'),
    ('root ::= "a"\nb ::= "b"\nroot ::= "c"', (3, 1, 4), "already defined in line 1", "the last definition"),
    ('root ::= "a', (1, 10, 1), "this string is not closed", '\\"'),
    ('root ::= "a\\"', (1, 10, 1), "this string is not closed", '\\"'),
    ('root ::= "a\nb ::= "b"', (2, 9, 1), "this string is not closed", "an earlier one is not closed"),
    ("root ::= [a", (1, 10, 1), "this class is not closed", "\\]"),
    ("root ::= [a\\]", (1, 10, 1), "this class is not closed", "\\]"),
    ('root ::= [a-z b\nb ::= [0-9] "x"', (1, 10, 1), "not closed before the rule b in line 2", "Add the ]"),
    ("root ::= ([a\n\n  b-c\t::= [0]\n)", (1, 11, 1), "not closed before the rule b-c in line 3", "as \\n"),
    ("root ::= []", (1, 10, 2), "contains no characters", 'write \"\" for that'),
    ("root ::= [^]", (1, 10, 3), "contains no characters", "a dot for any character"),
    ('root ::= "ab\\q"', (1, 13, 2), "unknown escape \\q", "\\n \\r \\t"),
    ('root ::= "\\d"', (1, 11, 2), "unknown escape \\d", "[0-9]"),
    ("root ::= [\\^]", (1, 11, 2), "unknown escape \\^", "without a backslash"),
    ('root ::= "\\x4"', (1, 11, 2), "\\x needs hexadecimal digits", "two"),
    ('root ::= "\\u00e"', (1, 11, 2), "\\u needs hexadecimal digits", "four"),
    ("root ::= [a\\U1234]", (1, 12, 2), "\\U needs hexadecimal digits", "eight"),
    ('root ::= "\\U00110000"', (1, 11, 10), "no character has this number", "\\U0010FFFF"),
    ("root ::= [\\ud83d\\ude00]", (1, 11, 6), "half of a surrogate pair", "eight digits"),
    ('root ::= "a" | +', (1, 16, 1), "+ has nothing to repeat", 'quote it: "+"'),
    ("root ::= {2}", (1, 10, 3), "{2} has nothing to repeat", "quote it"),
    ('root ::= "a"{2', (1, 13, 1), "this repetition is not closed", "quote it"),
    ('root ::= "a"{2,-1}', (1, 13, 6), "this is not a repetition", "{m,}"),
    ('root ::= "a"{}', (1, 13, 2), "this is not a repetition", "{m}"),
    ('root ::= "a"\n  | "b"', (2, 3, 1), "a rule must begin here", "only in ( ) and after |"),
    ('root ::= "a" b ::= "c"', (1, 14, 1), "the rule b begins before root is complete", "a line of its own"),
    ('root ::= "a" |\nb ::= "c"', (2, 1, 1), "the rule b begins before root is complete", "a line of its own"),
    ('root ::=\nb ::= "c"', (2, 1, 1), "the rule b begins before root is complete", '""'),
    ('root ::= "a"\n<b> ::= "b"', (2, 1, 3), "a rule must begin here", "without angle brackets"),
    ('\ufeffroot ::= "a"', (1, 1, 1), "a rule must begin here", "byte order mark"),
    ("root ::= 'a'", (1, 10, 1), '"\'" has no meaning here', "double quotes"),
    ('root ::= "a" = "b"', (1, 14, 1), "'=' has no meaning here", "name ::= ..."),
    ('root ::= "a";', (1, 13, 1), "';' has no meaning here", "semicolon"),
    ('root ::= "a", "b"', (1, 13, 1), "',' has no meaning here", "without commas"),
    ("root ::= $", (1, 10, 1), "'$' has no meaning here", 'quote it: "$"'),
    ("root ::= <a", (1, 10, 1), "'<' has no meaning here", "<text>"),
    ("root ::= !a", (1, 10, 1), "'!' has no meaning here", "tokens can be negated"),
    ("root ::= é", (1, 10, 1), "'é' has no meaning here", "quote it"),
    ('root ::= "\ud800"', (1, 11, 1), "a lone surrogate", "UTF-8"),
]  # fmt: skip


@pytest.mark.parametrize(("source", "position", "message", "hint"), [*COMMON_FAULTS, *FAULTS])
def test_faults_show_their_position(
    source: str, position: tuple[int, int, int], message: str, hint: str
) -> None:
    check_error(read_gbnf, source, position, message, hint)


def test_the_caret_is_under_the_error() -> None:
    with pytest.raises(GrammarSyntaxError) as caught:
        read_gbnf('root ::= "a" item*\nitems ::= "b"\n')
    assert str(caught.value) == (
        "there is no rule item\n"
        "  at line 1, column 14:\n"
        '    root ::= "a" item*\n'
        "                 ^^^^\n"
        "Did you mean items?"
    )


@pytest.mark.parametrize("source", ["", "# nothing\n", 'roots ::= "a"'])
def test_a_start_is_needed(source: str) -> None:
    with pytest.raises(GrammarSyntaxError, match="there is no rule root to start from") as caught:
        read_gbnf(source)
    assert ("Did you mean roots?" in str(caught.value)) == bool(source.startswith("roots"))


def test_wrong_arguments() -> None:
    with pytest.raises(ConstraintError, match="a grammar must be a str, not a bytes"):
        read_gbnf(b'root ::= "a"')  # type: ignore[arg-type]
    with pytest.raises(ConstraintError, match="the name of a rule \\(a str\\), not an int"):
        read_gbnf('root ::= "a"', 5)  # type: ignore[arg-type]


# llama.cpp's own reader, where the package is installed.


class _LlamaGrammars:
    """Calls the library's functions by their C++ names, since no header exports them."""

    INIT = "_Z23llama_grammar_init_implPK11llama_vocabPKcS3_bPS3_mPKim"

    def __init__(self, folder: Path) -> None:
        for name in ("libggml-base.so", "libggml-cpu.so", "libggml.so"):
            ctypes.CDLL(str(folder / name), mode=ctypes.RTLD_GLOBAL)
        library = ctypes.CDLL(str(folder / "libllama.so"))
        pointer, text = ctypes.c_void_p, ctypes.c_char_p
        nothing = [ctypes.c_bool, pointer, ctypes.c_size_t, pointer, ctypes.c_size_t]
        self.init = self._function(library[self.INIT], [pointer, text, text, *nothing], pointer)
        self.free = self._function(library["_Z23llama_grammar_free_implP13llama_grammar"], [pointer], None)
        self.clone = self._function(
            library["_Z24llama_grammar_clone_implRK13llama_grammar"], [pointer], pointer
        )
        self.step = self._function(
            library["_Z20llama_grammar_acceptP13llama_grammarj"], [pointer, ctypes.c_uint32], None
        )
        vector = ctypes.POINTER(pointer)
        self.stacks = self._function(
            library["_Z24llama_grammar_get_stacksP13llama_grammar"], [pointer], vector
        )

    @staticmethod
    def _function(function: Any, arguments: list[Any], result: Any) -> Any:
        function.argtypes, function.restype = arguments, result
        return function

    @contextmanager
    def reading(self, source: str) -> Iterator[int | None]:
        grammar = self.init(None, source.encode(), b"root", False, None, 0, None, 0)
        try:
            yield grammar
        finally:
            if grammar:
                self.free(grammar)

    def accepts(self, grammar: int, text: str) -> bool:
        """Return whether a text matches. The state is a vector of stacks; an empty one means that it may end."""
        copy = self.clone(grammar)
        try:
            for character in text:
                self.step(copy, ord(character))
                stacks = self.stacks(copy)
                if stacks[0] == stacks[1]:
                    return False
            stacks = self.stacks(copy)
            begin, end = stacks[0] or 0, stacks[1] or 0
            each = [ctypes.cast(at, ctypes.POINTER(ctypes.c_void_p)) for at in range(begin, end, 24)]
            return any(stack[0] == stack[1] for stack in each)
        finally:
            self.free(copy)


@pytest.fixture(scope="module")
def llama() -> _LlamaGrammars:
    found = importlib.util.find_spec("llama_cpp")
    if found is None or found.origin is None:
        pytest.skip("llama-cpp-python is not installed")
    try:
        return _LlamaGrammars(Path(found.origin).parent / "lib")
    except (OSError, AttributeError) as error:
        pytest.skip(f"this build of llama.cpp has no such functions: {error}")


# Where llama.cpp differs from its documentation, or refuses because of its implementation.
_NOT_IN_LLAMA = ("**", '""*', "root root", 'root "a" |', "y | ", "a_b")


@pytest.mark.parametrize(("source", "alphabet", "pattern"), [*COMMON_CONSTRUCTS, *CONSTRUCTS])
def test_llama_reads_constructs_alike(
    llama: _LlamaGrammars, source: str, alphabet: str, pattern: str
) -> None:
    with llama.reading(source) as grammar:
        if grammar is None:
            assert any(part in source for part in _NOT_IN_LLAMA)
            return
        wanted = {word for word in words(alphabet, 4) if re.fullmatch(pattern, word)}
        assert {word for word in words(alphabet, 4) if llama.accepts(grammar, word)} == wanted


@settings(max_examples=100)
@given(grammars("gbnf", recursive=False))  # llama.cpp keeps all readings of a text separate, however many
def test_llama_reads_random_grammars_alike(llama: _LlamaGrammars, drawn: Drawn) -> None:
    ours = read_gbnf(drawn.source)
    with llama.reading(drawn.source) as grammar:
        assume(grammar is not None)  # it refuses repetitions of what may be empty
        assert grammar is not None
        theirs = {word for word in words("ab", 4) if llama.accepts(grammar, word)}
    assert language(ours, "ab", 4) == theirs
