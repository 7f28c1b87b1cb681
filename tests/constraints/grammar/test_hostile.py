"""Hostile grammars: each compiles to an automaton with bounded steps and memory, or raises a clear error.

Time limits are in CPU time and many times the measured values, so they catch a blow-up, not a slow machine.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from structgen.constraints.base import Constraint
from structgen.constraints.grammar.builders import LexerRule, ebnf, gbnf, lark
from structgen.constraints.grammar.constraint import GrammarConstraint
from structgen.constraints.grammar.gbnf import read_gbnf
from structgen.constraints.grammar.lark.terminal_languages import Languages
from structgen.constraints.json_schema import json_schema
from structgen.constraints.regex import regex
from structgen.errors import EmptyConstraint, GrammarError, LimitExceeded
from structgen.matcher import Matcher
from structgen.vocabulary import Vocabulary
from tests.core.small_vocabulary import EOS, allowed, byte_vocabulary

BYTES = byte_vocabulary()
FIRST = len(EOS)  # the id of byte 0
ITEM = '\nx ::= "a" | "(" x ")"'  # not regular, so that repetitions of it stay productions


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    start = time.process_time()
    yield
    assert time.process_time() - start < seconds


def read(constraint: Constraint, text: bytes, **limits: int) -> Matcher:
    """Return a matcher that has read all of `text` and computes a mask and a completion."""
    matcher = Matcher(constraint, BYTES.with_limits(**limits) if limits else BYTES)
    matcher.mask()
    for place, byte in enumerate(text):
        assert matcher.advance(FIRST + byte), text[:place]
    matcher.mask()
    return matcher


def feed(matcher: Matcher, text: bytes) -> None:
    for byte in text:
        matcher.advance(FIRST + byte)


def complete(matcher: Matcher) -> bool:
    """Return whether the text is complete, or has a completion that works."""
    rest = matcher.witness_text()
    if rest is None:
        return False
    return all(matcher.advance(FIRST + byte) for byte in rest) and matcher.is_complete()


# Costs that do not grow with the length of the text or the size of a count.

CHEAP: list[tuple[Callable[[], Constraint], bytes]] = [
    (lambda: gbnf('root ::= ((("a"*)*)*)*'), b"a" * 3000),
    (lambda: gbnf('root ::= "a"{0,1000000}'), b"a" * 3000),
    (lambda: gbnf('root ::= ("a"{0,1000}){0,1000}'), b"a" * 3000),
    (lambda: gbnf("root ::= x{0,1000000}" + ITEM), b"a" * 3000),
    (lambda: ebnf("root ::= x{0,1000000}" + ITEM), b"a" * 3000),
    (lambda: gbnf("root ::= x{3,}" + ITEM), b"a" * 3000),
    (lambda: gbnf("root ::= (x{10}){10}" + ITEM), b"a" * 90),
    (lambda: lark('start: x~0..100000\nx: "a" | "(" x ")"'), b"a" * 3000),
    (lambda: gbnf('root ::= "a" root | "(" root ")" | "b"'), b"a" * 30_000),
    (lambda: gbnf('root ::= root "a" | "(" root ")" | "b"'), b"b" + b"a" * 30_000),
    (lambda: gbnf('root ::= "(" root ")" | "b"'), b"(" * 10_000 + b"b" + b")" * 9_990),
    (lambda: lark('start: "(" start ")" | "b"'), b"(" * 10_000 + b"b" + b")" * 9_990),
    (lambda: gbnf('root ::= "a" root "a" | "b" root "b" | ""'), b"ab" * 300),
    (lambda: gbnf('root ::= "i" root | "i" root "e" root | "x"'), b"i" * 300 + b"x" + b"ex" * 100),
    (lambda: gbnf('root ::= y\ny ::= z | "(" y ")"\nz ::= y | u\nu ::= z | "x"'), b"(" * 100 + b"x"),
    (lambda: gbnf('root ::= a* b* root? \na ::= "a"? n\nb ::= a a | n\nn ::= "" | "(" n ")"'), b"a" * 40 + b"(("),
    (lambda: lark('start: "a"*\n%ignore /(.|\\n)+/'), b"abc" * 100),
    (lambda: lark('start: "a" "b"\n%ignore /[^ab]/'), b"xxx" * 100),
    (lambda: lark('start: A*\nA: /[ab]*a[ab]{8}c/', lexer="longest"), b"ab" * 100),
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(CHEAP)))
def test_long_texts_and_large_counts(case: int) -> None:
    make, text = CHEAP[case]
    with at_most(60):
        matcher = read(make(), text)
        assert matcher._native.memory < 2000 * (len(text) + 1000)
        assert complete(matcher)


# Ambiguity: the cost of a step grows with the text, up to a limit.

AMBIGUOUS = [
    'root ::= root root | "a" | "(" root ")"',
    'root ::= root root root | root root | "a" | "(" root ")" | ""',
    "root ::= ((((x*)*)*)*)+ \".\"" + ITEM,
    "root ::= (x{0,1000}){0,1000}" + ITEM,
    'root ::= root "+" root | root root | "(" root ")" | "a"',
    'root ::= y y y y\ny ::= x*' + ITEM,
]  # fmt: skip


@pytest.mark.parametrize("source", AMBIGUOUS)
def test_ambiguity_is_read_or_meets_its_limit(source: str) -> None:
    with at_most(60):
        assert complete(read(gbnf(source), b"a" * 40))
        matcher = Matcher(gbnf(source), BYTES.with_limits(earley_items=100))
        met = None
        try:
            feed(matcher, b"a" * 500)
        except LimitExceeded as error:
            met = str(error)
        assert met is None or "earley_items" in met
        assert matcher._native.memory < 8_000_000


def side_by_side(count: int) -> str:
    """Return right recursions that all continue with the same text."""
    choices = " | ".join(f'a{i} "y{i}"' for i in range(count))
    rules = "\n".join(f'a{i} ::= "x" a{i} | "x" | "(" a{i} ")z{i}"' for i in range(count))
    return f"root ::= {choices}\n{rules}"


def test_right_recursions_side_by_side_cost_the_same_at_any_length() -> None:
    tokens = [None, *(bytes([byte]) for byte in range(256)), b"x" * 4096]
    for count in (20, 80):
        matcher = Matcher(gbnf(side_by_side(count)), Vocabulary.from_tokens(tokens, [0]))
        with at_most(60):
            assert len(tokens) - 1 in allowed(matcher.mask())
            assert matcher.advance(len(tokens) - 1)
            assert {i - 1 for i in allowed(matcher.mask()) if i <= 256} == set(b"xy(")


def test_forced_bytes_of_ambiguous_grammars_are_bounded() -> None:
    source = 'root ::= s{300} "."\ns ::= "a" | s s'
    with at_most(60):
        matcher = Matcher(gbnf(source), BYTES.with_limits(mask_steps=50_000))
        found = matcher.forced_bytes()
        assert found and set(found) == set(b"a")
        feed(matcher, found)
    assert Matcher(gbnf('root ::= s{30} "."\ns ::= "a" | s s'), BYTES).forced_bytes() == b"a" * 30


@pytest.mark.parametrize("source", AMBIGUOUS)
def test_long_tokens_of_ambiguous_grammars_meet_the_limit(source: str) -> None:
    """Each byte of a token may be a lexeme, so reading it is cubic in its length, in a mask or alone."""
    tokens = [None, *(bytes([byte]) for byte in range(256)), b"a" * 3000]
    long, single = len(tokens) - 1, 1 + ord("a")
    matcher = Matcher(gbnf(source), Vocabulary.from_tokens(tokens, [0]))
    met = []
    for ask in (lambda: long in allowed(matcher.mask()), lambda: matcher.advance(long)):
        with at_most(60):
            try:
                assert ask()
            except LimitExceeded as error:
                met.append(error.limit)
                assert not matcher.tokens
        matcher.rollback(len(matcher.tokens))
        assert matcher.advance(single)
        matcher.rollback(1)
    assert len(met) == (0 if source in AMBIGUOUS[2:4] else 2) and set(met) <= {"mask_steps", "call_steps"}


ITEMS = 'start: e+\ne: "-" | "(" e ")"'
FOLLOWED: dict[str, Callable[[], Constraint]] = {
    "by a pattern": lambda: lark(ITEMS, lexer="longest") + regex("x"),
    "a pattern before": lambda: regex("x?") + lark(ITEMS, lexer="longest"),
    "with objects": lambda: lark(ITEMS + ' | %json {"type": "object"}', lexer="longest"),
    "dynamic lexer": lambda: gbnf('root ::= e+\ne ::= "-" | "(" e ")"') + regex("x"),
    "lexemes that touch": lambda: lark('start: (C | T | L)+\nC: "-"\nT: /[z-]q/\nL: "-z"', lexer="longest"),
    "text to ignore": lambda: lark('start: o+\no: %json {"type": "object"}\n%ignore "-"', lexer="longest"),
}


@pytest.mark.parametrize("case", FOLLOWED)
def test_each_lexeme_of_a_token_is_started_once(case: str) -> None:
    """A mask once started all lexemes twice where something else may start: exponential in their number."""
    tokens = [
        None,
        *(bytes([byte]) for byte in range(256)),
        b"-" * 64,
        b"-" * 60 + b"{}-",
        b"-" * 60 + b"x",
        b"--q",
    ]
    known = Vocabulary.from_tokens(tokens, [0]).with_limits(mask_steps=5_000)
    matcher = Matcher(FOLLOWED[case](), known)
    for _ in range(3):
        mask = allowed(matcher.mask())
        for token in range(1, len(tokens)):
            taken = matcher.advance(token)
            assert taken == (token in mask), tokens[token]
            if taken:
                matcher.rollback(1)
        assert len(tokens) - 4 in mask
        assert matcher.advance(len(tokens) - 4)


def test_masks_that_enter_a_grammar_meet_the_limit() -> None:
    """When the mask is computed no grammar is being read, but one may start inside a token."""
    source = 'root ::= s{300} "."\ns ::= "a" | s s'
    begin: dict[str, Callable[[], Constraint]] = {
        "pattern": lambda: regex("x") + gbnf(source),
        "JSON": lambda: json_schema({"const": 1}) + gbnf(source),
    }
    tokens = [None, *(bytes([byte]) for byte in range(256)), b"x" + b"a" * 300, b"1" + b"a" * 300]
    for made in begin.values():
        matcher = Matcher(made(), Vocabulary.from_tokens(tokens, [0]).with_limits(mask_steps=2_000))
        with at_most(60), pytest.raises(LimitExceeded, match="mask_steps"):
            matcher.mask()


def test_places_that_take_many_moves_meet_the_limit_on_items() -> None:
    """Visiting all items of all sets is quadratic in the text, long before a set has too many items."""
    matcher = Matcher(gbnf(AMBIGUOUS[1]), BYTES.with_limits(earley_items=300))
    with pytest.raises(LimitExceeded, match="moves of open rules .limit earley_items."):
        feed(matcher, b"a" * 100_000)
    matcher.rollback(len(matcher.tokens) - 5)
    assert complete(matcher)


def test_completions_whose_every_byte_takes_a_search_are_found_in_time_or_given_up() -> None:
    """The shortest completion has 5,000 bytes, and each byte may need another liveness search."""
    constraint = lark(
        '!start: "b" "b" | INT [start~5050 a] ( | A)* A\n  | A\na: "a"\nA: /a/\nINT: /[0-9]+/',
        contextual=True,
    )
    matcher = Matcher(constraint, BYTES)
    feed(matcher, b"420abba2123231281698347108812")
    with at_most(60):
        rest = matcher.witness_text()
    if rest is not None:
        whole = matcher.fork()
        feed(whole, rest)
        assert whole.is_complete()
    with at_most(60):
        matcher.mask()


def test_masks_at_a_place_where_half_of_the_text_is_open() -> None:
    """Sets are numbered while a mask is computed; comparing them one by one took ten times as long."""
    matcher = Matcher(gbnf('root ::= "a" root "a" | "b" root "b" | ""'), BYTES)
    with at_most(60):
        for _ in range(1_000):
            matcher.mask()
            assert matcher.advance(FIRST + ord("a"))
    assert matcher.is_complete()


# Sizes: many alternatives, many rules, deep chains and parentheses.


def test_a_hundred_thousand_alternatives() -> None:
    words = " | ".join(f'"w{i}"' for i in range(100_000))
    with at_most(60):
        matcher = read(gbnf(f'root ::= "(" root ")" | {words}'), b"((w7777")
        assert allowed(matcher.mask()) == {FIRST + byte for byte in b"0123456789)"}


def test_thousands_of_rules() -> None:
    rules = [f'r{i} ::= "a{i}" r{(i * 7 + 1) % 5_000} "b" | "c"' for i in range(5_000)]
    with at_most(60):
        matcher = read(gbnf("\n".join(["root ::= r0", *rules])), b"a0a1a8")
        assert allowed(matcher.mask()) == {FIRST + ord("a"), FIRST + ord("c")}
        assert matcher.witness_text() == b"cbbb"


def test_a_thousand_lark_rules_and_keywords() -> None:
    """Two keywords are compared as texts; expressions for each pair exceeded the limit on states."""
    rules = [f'r{i}: "a{i};" r{(i * 7 + 1) % 1_000} "b" | "c"' for i in range(1_000)]
    with at_most(60):
        matcher = read(lark("\n".join(["start: r0", *rules])), b"a0;a1;")
        assert matcher.witness_text() == b"cbb"


@pytest.mark.parametrize("depth", [100, 4_000])
def test_deep_chains_of_rules(depth: int) -> None:
    units = [f'r{i} ::= r{i + 1} | "(" r0 ")"' for i in range(depth)]
    nested = [f'r{i} ::= "a" r{i + 1} "b"' for i in range(depth)]
    with at_most(60):
        try:
            matcher = read(gbnf("\n".join(["root ::= r0", *units, f'r{depth} ::= "x"'])), b"((x)")
            assert matcher.witness_text() == b")"
        except (
            LimitExceeded
        ) as error:  # each rule that ends also ends those above it, which is quadratic in the depth
            assert depth > 1_000
            assert "automaton_states" in str(error)
        read(gbnf("\n".join(["root ::= r0", *nested, f'r{depth} ::= "x" | "y" r0'])), b"a" * depth + b"xbb")


@pytest.mark.parametrize(
    "make",
    [
        lambda depth: gbnf("root ::= " + "(" * depth + '"a"' + ")" * depth),
        lambda depth: ebnf("root ::= " + "(" * depth + '"a"' + ")" * depth),
        lambda depth: lark("start: " + "(" * depth + '"a"' + ")" * depth),
        lambda depth: lark("start: A\nA: " + "(" * depth + '"a"' + ")" * depth),
        lambda depth: lark("start: /" + "(" * depth + "a" + ")" * depth + "/"),
    ],
)
def test_deep_parentheses(make: Callable[[int], Constraint]) -> None:
    assert complete(read(make(20), b"a"))
    with at_most(60):
        try:
            assert complete(read(make(3_000), b"a"))
        except (GrammarError, LimitExceeded) as error:
            assert "deep" in str(error) or "nest" in str(error)


# Terminals.


def test_a_class_of_thousands_of_ranges() -> None:
    letters = "".join(chr(i) for i in range(0x4E00, 0x9000, 2))
    with at_most(60):
        matcher = read(gbnf(f'root ::= "(" root ")" | [{letters}]+'), "(一丂".encode())
        assert not matcher.fork().advance(FIRST + ord("a"))
        assert complete(matcher)


def test_terminals_that_overlap_everywhere() -> None:
    names = [f"T{i}" for i in range(60)]
    terminals = [f"T{i}: /[a-z]+{i}[a-z]*/" for i in range(60)]
    with at_most(60):
        matcher = read(
            lark("\n".join([f"start: ({' | '.join(names)})*", *terminals]), lexer="longest"), b"ab12c"
        )
        assert complete(matcher)


def test_a_terminal_of_very_many_states_meets_its_limit() -> None:
    source = "start: A*\nA: /[ab]*a[ab]{40}c/"
    vocabulary = BYTES.with_limits(automaton_states=2_000)
    matcher = Matcher(lark(source, lexer="longest"), vocabulary)
    with at_most(60), pytest.raises(LimitExceeded, match="automaton_states"):
        feed(matcher, bytes(b"ab"[i * i % 7 % 2] for i in range(5_000)))


def test_a_long_literal() -> None:
    with at_most(60):
        matcher = read(gbnf(f'root ::= "(" root ")" | "{"a" * 20_000}"'), b"(" + b"a" * 10_000)
        assert len(matcher.witness_text() or b"") == 10_001


@pytest.mark.parametrize("lexer", ["lark", "longest"])
def test_openers_of_comments_that_are_two_operators(lexer: str) -> None:
    source = (
        'start: start ("/" | "*" | "+") start | "/" start | "*" start | N\n'
        'N: /[0-9]+/\nC: "/*" /(.|\\n)*?/ "*/"\n%ignore C\n%ignore " "'
    )
    with at_most(60):
        matcher = read(lark(source, lexer=lexer), b"1 / * 2 /* 3 */ * ")  # type: ignore[arg-type]
        assert complete(matcher)


# Grammars without a text, alone and as parts.


def test_no_text() -> None:
    empty = GrammarConstraint(read_gbnf('root ::= root "a"', "root"), "GBNF")
    for constraint in (empty, regex("aa") + empty, empty + empty, empty | empty):
        with pytest.raises(EmptyConstraint, match="no text"):
            Matcher(constraint, BYTES)
    matcher = Matcher(empty | regex("b"), BYTES)
    assert allowed(matcher.mask()) == {FIRST + ord("b")}


@pytest.mark.parametrize(
    "nothing",
    [
        regex("a") & regex("b"),
        json_schema({"enum": []}),
        GrammarConstraint(read_gbnf('root ::= "(" root', "root"), "GBNF"),
    ],
)
@pytest.mark.parametrize("lexer", ["lark", "longest"])
def test_a_part_without_a_text(nothing: Constraint, lexer: LexerRule) -> None:
    """It is known before any of its text is read."""
    for source in ('start: "a" @x', "start: @x", 'start: "a" start @x | @x', 'start: @x+ "b"'):
        with pytest.raises(EmptyConstraint, match="no text"):
            Matcher(lark(source, constraints={"x": nothing}, lexer=lexer), BYTES)
    matcher = Matcher(
        lark('start: "a" @x | "b" @x? | "c" @y', constraints={"x": nothing, "y": nothing + regex("a")}), BYTES
    )
    assert allowed(matcher.mask()) == {FIRST + ord("b")}
    assert complete(read(lark('start: "b" @x*', constraints={"x": nothing}), b"b"))


A_OR_MORE = regex("a+")


@pytest.mark.parametrize(
    "source",
    [
        "start: @x start | @x",
        "start: @x start?",
        'start: @x "," start | @x start | @x',
        'start: item rest\nrest: ";" rest | item rest |\nitem: @x',
        'start: s "."\ns: @x t | @x\nt: @x s | @x',
    ],
)
def test_how_often_a_part_was_repeated_on_the_right_does_not_matter(source: str) -> None:
    """Each segmentation of the text was a separate parse, and they exceeded a limit."""
    matcher = read(lark(source, constraints={"x": A_OR_MORE}), b"a" * 1000, max_alternatives=8)
    assert matcher._native.memory < 4_000_000
    assert complete(matcher)


def test_ways_to_cut_a_text_that_matter_are_places_of_one_reading() -> None:
    """Each was a separate parse, and they exceeded `max_alternatives`."""
    constraint = lark('start: @x start "b" | "."', constraints={"x": A_OR_MORE})
    matcher = read(constraint, b"a" * 200, max_alternatives=8)
    assert complete(matcher.fork())
    assert matcher.advance(FIRST + ord("."))
    assert matcher.viable_bytes(b"b" * 201) == 200


def test_readings_that_differ_in_how_often_a_rule_was_repeated_are_one() -> None:
    source = 'root ::= [a]+ root | "(" root ")" | "."'
    assert complete(read(gbnf(source), b"a" * 3000, earley_items=30))
    assert complete(read(gbnf(source), b"aaa(aaa(aaa.)", earley_items=30))


def test_other_constraints_repeated_in_a_grammar() -> None:
    schema = json_schema({"type": "array", "items": {"type": "integer"}})
    matcher = read(lark("start: @x*", constraints={"x": schema}), b"[1]" * 200)
    assert complete(matcher)
    matcher = read(lark('start: "b" start | @x start | "."', constraints={"x": regex("a+")}), b"aab" * 5)
    assert complete(matcher)


def test_patterns_that_look_ahead_are_compared_a_bounded_number_of_times() -> None:
    few, many = (
        'start: "x"\n' + f"%ignore /(?!a{b})[a{b}]+/\n" * count for b, count in (("b", 20), ("c", 300))
    )
    lark(few)
    with pytest.raises(LimitExceeded, match="look ahead") as caught:
        lark(many)
    assert caught.value.limit == "terminal_comparisons"
    assert caught.value.where is not None and caught.value.where.startswith("the terminal ")


def test_keywords_that_look_ahead_are_compared_a_few_times_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """First bytes distinguish keywords, and one query covers all terminals that may follow."""
    asked = []
    count = Languages._count
    monkeypatch.setattr(Languages, "_count", lambda self: (asked.append(1), count(self))[1])
    sizes = []
    for n in (20, 80):
        rules = "".join(f"K{i}: /kw{i}(?![a-z0-9])/\n" for i in range(n))
        asked.clear()
        lark(
            "start: ("
            + "|".join(f"K{i}" for i in range(n))
            + "|NAME)+\n"
            + rules
            + "NAME: /[a-z][a-z0-9]*/\n"
            '%ignore " "\n'
        )
        sizes.append(len(asked))
    assert sizes[1] < 6 * sizes[0]
