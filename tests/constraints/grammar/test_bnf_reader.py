"""The reader of GBNF and EBNF: random grammars keep their meaning, damaged ones raise our errors, limits hold."""

from __future__ import annotations

import pickle
import random
import time
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from structgen.constraints.grammar.bnf_reader import NotationLimits
from structgen.constraints.grammar.ebnf.reader import read_ebnf
from structgen.constraints.grammar.gbnf import read_gbnf
from structgen.errors import GrammarSyntaxError, LimitExceeded, StructgenError
from structgen.ir.grammar import Body, Grammar, Rule
from tests.oracles.grammar_texts import accepts, language
from tests.strategies.bnf_grammars import Drawn, grammars, mutations

Read = Callable[..., Grammar]
both = pytest.mark.parametrize("read", [read_gbnf, read_ebnf])


ROOT: Body = ("rule", "root")

# The twin itself, on grammars with obvious languages.


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        (("text", ("literal", "ab")), {"ab"}),
        (("choice", ()), set()),
        (("sequence", ()), {""}),
        (("choice", (("sequence", (ROOT, ROOT)), ("text", ("literal", "a")))), {"a", "aa", "aaa"}),
        (("choice", (ROOT, ("text", ("literal", "b")))), {"b"}),
        (("sequence", (ROOT, ("text", ("literal", "b")))), set()),
        (("repeat", ("text", ("class", ((97, 98),))), 2, 2), {"aa", "ab", "ba", "bb"}),
        (("repeat", ("text", ("literal", "a")), 2, None), {"aa", "aaa"}),
        (("repeat", ("text", ("repeat", ("literal", "a"), 0, 1)), 900000, 900001), {"", "a", "aa", "aaa"}),
        (("repeat", ("text", ("literal", "a")), 900000, None), set()),
    ],
)  # fmt: skip
def test_the_twin(body: Body, wanted: set[str]) -> None:
    assert language(Grammar((Rule("root", body),), "root"), "ab", 3) == wanted


# Meaning.


@settings(max_examples=80)
@given(grammars("gbnf"))
def test_random_gbnf_keeps_its_meaning(drawn: Drawn) -> None:
    assert language(read_gbnf(drawn.source), "ab", 4) == language(drawn.grammar, "ab", 4)


@settings(max_examples=80)
@given(grammars("ebnf", additions=True))
def test_random_ebnf_keeps_its_meaning(drawn: Drawn) -> None:
    assert language(read_ebnf(drawn.source), "ab", 4) == language(drawn.grammar, "ab", 4)


@both
def test_large_parts_are_kept_whole(read: Read) -> None:
    """Texts that are too large to be merged into the group around them stay separate items."""
    many = " | ".join(f'"w{index}"' for index in range(100))
    long = " ".join(['"a"', "[bc]"] * 50)
    grammar = read(f'root ::= ((({many}) | "x") "y" | (({long}) "z" a) "!")\na ::= ({many})?')
    inside = ["w7y", "xy", "ab" * 50 + "z!", "ac" * 50 + "zw99!"]
    assert [text for text in inside if not accepts(grammar, text)] == []
    assert not any(accepts(grammar, text) for text in ["w100y", "x", "ab" * 49 + "z!", "ab" * 50 + "zw100!"])


@both
def test_grammars_are_plain_data(read: Read) -> None:
    source = 'root ::= ("a" root)? [b-d]{2,}\n'
    grammar = read(source)
    assert pickle.loads(pickle.dumps(grammar)) == grammar
    assert hash(read(source + "\n# the places and the source make no difference")) == hash(grammar)


# Damage.

_SOURCES = [
    'root ::= "a" (b | [c-e]* "\\u0061\\n"){2,3} # comment\nb ::= "x" | root\n',
    'root ::= (\n "a" |\n b\n)+ "c"? [^\\]a-b-]{0}\nb ::= "" | b "\\\\\\""\n',
    'root ::= TagDispatch(("<a>", b), excludes=("x", "y"), loop_after_dispatch=false) "z"\nb ::= "{" [^}]* "}"\n',
    "root ::= <think> [a-z]+ </think> item{1,5}\nitem ::= .\n",
]


@settings(max_examples=300)
@given(mutations(_SOURCES))
def test_damaged_grammars_raise_our_errors_only(source: str) -> None:
    for read in (read_gbnf, read_ebnf):
        _read_or_refuse(read, source)


@settings(max_examples=200)
@given(
    st.text(max_size=40) | st.binary(max_size=40).map(lambda data: data.decode("utf-8", "surrogateescape"))
)
def test_random_texts_raise_our_errors_only(source: str) -> None:
    for read in (read_gbnf, read_ebnf):
        _read_or_refuse(read, source)
        _read_or_refuse(read, f"root ::= {source}")


def _read_or_refuse(read: Read, source: str) -> None:
    try:
        grammar = read(source)
    except StructgenError as error:
        assert str(error).startswith(error.message) or error.where
        assert pickle.loads(pickle.dumps(error)).message == error.message
        if isinstance(error, GrammarSyntaxError) and error.line:
            assert error.hint
            shown = source.split("\n")[error.line - 1]
            assert 0 < error.column <= len(shown) + 1
    else:
        defined = {rule.name for rule in grammar.rules}
        assert grammar.start in defined
        assert all(name in defined for rule in grammar.rules for name in _names(rule.body))
        assert len(defined) == len(grammar.rules)


def _names(body: Body) -> set[str]:
    if body[0] == "rule":
        return {body[1]}
    if body[0] in ("sequence", "choice"):
        return set().union(*map(_names, body[1]))
    return _names(body[1]) if body[0] == "repeat" else set()


# Limits.


@both
@pytest.mark.parametrize(
    "source",
    [
        "root ::= " + "(" * 201 + '"a"' + ")" * 201,
        "root ::= " + "(" * 101 + "root" + ")*" * 101,
        "root ::= " + "(" * 1_000_000,
    ],
)
def test_nesting_is_limited(read: Read, source: str) -> None:
    with pytest.raises(LimitExceeded) as caught:
        read(source)
    assert caught.value.limit == "grammar_depth"
    assert "nested too deep: the limit is 200" in str(caught.value)
    assert "^" in str(caught.value)
    assert "Name the inner groups as rules of their own." in str(caught.value)


def test_repetitions_of_repetitions_count_as_nesting() -> None:
    read_gbnf("root ::= root" + "{2}" * 200)
    with pytest.raises(LimitExceeded, match="nested too deep"):
        read_gbnf("root ::= root" + "{2}" * 201)
    with pytest.raises(LimitExceeded, match="nested too deep"):
        read_gbnf("root ::= " + "(" * 50 + "root" + "{2}" * 100 + ")?*" * 50)


@both
def test_deep_nesting_needs_no_recursion(read: Read) -> None:
    depth = 50_000
    source = "root ::= " + "(root " * depth + '"a"' + ")*" * depth
    body = read(source, limits=NotationLimits(depth=2 * depth)).rules[0].body
    for _ in range(depth):
        assert (body[0], body[2:]) == ("repeat", (0, None))
        body = body[1][1][-1]
    assert body == ("text", ("literal", "a"))


@both
def test_counts_are_limited_and_kept_as_numbers(read: Read) -> None:
    body = read("root ::= root{0,1000000}").rules[0].body
    assert body == ("repeat", ROOT, 0, 1_000_000)
    for count in ("1000001", "9" * 5000, "0" * 10_000 + "1000001"):
        with pytest.raises(LimitExceeded) as caught:
            read(f"root ::= root{{1,{count}}}")
        assert caught.value.limit == "repetition_count"
        assert (caught.value.where, caught.value.position) == ("line 1, column 17", 16)
        assert len(str(caught.value)) < 400
    assert read("root ::= root{" + "0" * 10_000 + "7}").rules[0].body[2:] == (7, 7)


@both
def test_the_length_is_limited(read: Read) -> None:
    source = 'root ::= "a"\n' + "# comment\n" * 1_000_000
    with pytest.raises(LimitExceeded, match="the grammar has 10000013 characters: the limit is 2000000"):
        read(source)
    assert len(read(source, limits=NotationLimits(length=11_000_000)).rules) == 1


# Time. The bounds are far above the measured times; they catch what is not linear.

# Functions, so that a text lives no longer than its test: together they are 30 MB.
_HOSTILE: list[Callable[[], str]] = [
    lambda: "root ::= " + "a" * 1_000_000,
    lambda: "root ::= " + "a " * 500_000,
    lambda: "root ::= " + "a [" * 300_000,
    lambda: "root ::= " + "a[b]" * 250_000,
    lambda: "root ::= " + "a[" * 500_000,
    lambda: "root ::= " + '"a" | ' * 160_000 + '"b"',
    lambda: "root ::= " + '"' + "\\n" * 500_000 + '"',
    lambda: "root ::= " + '"' + "\\" * 1_000_000,
    lambda: "root ::= [" + "a-b" * 330_000 + "]",
    lambda: "root ::= [" + "a-" * 500_000,
    lambda: "root ::= (" + "\n" * 1_000_000,
    lambda: "root ::= " + " " * 1_000_000 + "\\",
    lambda: "root ::= " + "# a\n" * 250_000,
    lambda: "root ::= " + "{" * 1_000_000,
    lambda: 'root ::= "a"{' + "1" * 1_000_000,
    lambda: 'root ::= "a"{' + " " * 1_000_000 + "}",
    lambda: "root ::= " + "<" * 1_000_000,
    lambda: "root ::= " + "!" * 1_000_000,
    lambda: "root ::= " + "(" * 199 + '"a" b ' * 160_000 + ' "c")' * 199 + '\nb ::= "b"',
    lambda: "root ::= " + "(" * 199 + '"a" | b | ' * 100_000 + '"c"' + ' | "d")' * 199 + '\nb ::= "b"',
    lambda: "root ::= " + "(" * 199 + "[a] | b | " * 30_000 + '"a"' + ' [bx])' * 199 + '\nb ::= "b"',
    lambda: "root ::= " + "(" * 99 + '[a] "b"* ' * 100_000 + ' "c")?' * 99,
    lambda: "root ::= " + "(" * 99 + '"ab" | ' * 100_000 + '"c" | "d")?' * 99,
    lambda: "\r".join(f'r{index} ::= "a"' for index in range(60_000)),
    lambda: "\n".join(f'r{index} ::= r{index + 1} "a"' for index in range(50_000)),
    lambda: "\n".join(f'                 r{index} ::= "a"' for index in range(30_000)),
    lambda: "root ::= TagDispatch(" + ", ".join(f'("{"a" * 900}{index}", root)' for index in range(256)) + ")",
    lambda: "root ::= TagDispatch(" + '("a", root), ' * 80_000,
    lambda: "root ::= TagDispatch(" + "(" * 1_000_000,
    lambda: "root ::= TagDispatch(excludes=(" + '"a",' * 250_000,
    lambda: "root ::= " + 'TagDispatch(("a", root)) ' * 10_000,
]  # fmt: skip


@both
@pytest.mark.parametrize(
    "make", _HOSTILE, ids=[f"{source[:30]!r} {len(source)}" for source in (make() for make in _HOSTILE)]
)
def test_hostile_sources_take_linear_time(read: Read, make: Callable[[], str]) -> None:
    source = make()
    start = time.process_time()
    try:
        read(source)
    except StructgenError as error:
        assert str(error)
    assert time.process_time() - start < 20


def two_thousand_rules(seed: int = 1) -> str:
    """Rules of eight symbols: names, strings, classes, groups with repetitions."""
    draw = random.Random(seed)

    def symbol() -> str:
        kind = draw.random()
        if kind < 0.5:
            return f"rule-{draw.randrange(1, 2000)}"
        if kind < 0.75:
            return f'"text {draw.randrange(3000)}"'
        if kind < 0.9:
            return draw.choice(
                ["[a-z]", "[0-9]+", '[^"\\\\\\x00-\\x1f]*', f"[{chr(97 + draw.randrange(26))}A-Z_]"]
            )
        return f'(rule-{draw.randrange(1, 2000)} | "x"){draw.choice(["*", "?", "", "{2,5}"])}'

    lines = []
    for index in range(2000):
        parts = [symbol() for _ in range(8)]
        parts.insert(4, "|" if draw.random() < 0.5 else "")
        lines.append(f"{'root' if index == 0 else f'rule-{index}'} ::= {' '.join(filter(None, parts))}")
    return "\n".join(lines) + "\n"


@both
def test_two_thousand_rules_are_read_quickly(read: Read) -> None:
    source = two_thousand_rules()
    best = min(_time(read, source) for _ in range(3))
    assert best < 2  # 0.03 s to 0.1 s are usual


def _time(read: Read, source: str) -> float:
    start = time.process_time()
    assert len(read(source).rules) == 2000
    return time.process_time() - start
