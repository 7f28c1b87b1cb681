"""Compiled random grammars against lark itself and slow twins.

Each test uses the public matcher. It checks which texts are accepted, that each prefix of a text is live, that masks
equal single steps, and that each text that masks lead to can be completed.
"""

from __future__ import annotations

import functools
import importlib
import itertools
import random
from collections.abc import Callable
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st
from lark import Lark
from lark.exceptions import LarkError
from lark.indenter import Indenter

from structgen.constraints.base import Constraint
from structgen.constraints.grammar.builders import gbnf, lark
from structgen.constraints.grammar.constraint import GrammarConstraint
from structgen.errors import EmptyConstraint, GrammarUnsupported
from structgen.ir.grammar import Body, Grammar, Indentation
from structgen.matcher import Matcher
from structgen.shelf import grammar as shelf_grammar
from structgen.vocabulary import Vocabulary
from tests.core.small_vocabulary import EOS, allowed, byte_vocabulary
from tests.oracles import grammar_texts as twin
from tests.oracles.lark_parser import parser, parses, takes
from tests.oracles.slow_lexer import lexeme
from tests.strategies.bnf_grammars import Drawn
from tests.strategies.bnf_grammars import grammars as gbnf_grammars
from tests.strategies.lark_grammars import grammars as lark_grammars

BYTES = byte_vocabulary()
FIRST = len(EOS)  # the id of byte 0
PIECES = [*"abc! (\n", "aa", "ab", "ba", "bb", "bc", "ca", "a!", "! ", " a", "a b", "bbb"]
SMALL = Vocabulary.from_tokens([None, None, *(piece.encode() for piece in PIECES)], EOS)

quick = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


def matcher_of(constraint: Constraint, vocabulary: Vocabulary) -> Matcher | None:
    """Return the matcher; None if no text satisfies the constraint."""
    try:
        return Matcher(constraint, vocabulary)
    except EmptyConstraint:
        return None


def verdict(constraint: Constraint, text: str) -> tuple[bool, bool]:
    """Return whether `text` is a live prefix, and whether it is a text of the constraint."""
    matcher = matcher_of(constraint, BYTES)
    if matcher is None:
        return False, False
    ids = [FIRST + byte for byte in text.encode()]
    alive = matcher.accepts(ids) == len(ids)
    return alive, alive and all(map(matcher.advance, ids)) and matcher.is_complete()


def walk(constraint: Constraint, rng: random.Random, steps: int = 8) -> str | None:
    """Return a text that masks lead to, completed; masks are compared with single steps at each position."""
    matcher = matcher_of(constraint, SMALL)
    if matcher is None:
        return None
    for _ in range(steps):
        mask = allowed(matcher.mask())
        single = {i for i in range(len(EOS), SMALL.size) if matcher.fork().advance(i)}
        assert mask - set(EOS) == single, matcher.text
        assert (EOS[0] in mask) == matcher.is_complete(), matcher.text
        assert mask, matcher.text
        if not single or (EOS[0] in mask and rng.random() < 0.2):
            break
        assert matcher.advance(rng.choice(sorted(single)))
    rest = matcher.witness_text()
    assert rest is not None, matcher.text
    return (matcher.text + rest).decode()


# Lark's own parser.


@quick
@given(lark_grammars(), st.lists(st.text("aabbc! ", max_size=7), min_size=1, max_size=6), st.integers(0, 99))
@example("start: NAME | AB\nNAME: /[a-c]+/\nAB.1: /ab?(?![ab])/\n", ["ac", "ab", "aa", "aba"], 0)
def test_lark_grammars_accept_what_lark_parses(source: str, texts: list[str], seed: int) -> None:
    try:
        constraint = lark(source)
        parser(source)
    except (GrammarUnsupported, EmptyConstraint, LarkError):
        assume(False)
    for text in texts:
        accepted = verdict(constraint, text)[1]
        assert accepted == parses(source, text), text
        if accepted:
            assert all(verdict(constraint, text[:i])[0] for i in range(len(text))), text
    written = walk(constraint, random.Random(seed))
    if written is not None:
        assert parses(source, written), written


@quick
@given(lark_grammars(), st.lists(st.text("aabbc! ", max_size=7), min_size=1, max_size=6), st.integers(0, 99))
def test_the_rule_longest_cuts_as_its_twin(source: str, texts: list[str], seed: int) -> None:
    try:
        constraint = lark(source, lexer="longest")
    except (GrammarUnsupported, EmptyConstraint):
        assume(False)
    for text in texts:
        assert verdict(constraint, text)[1] == takes(constraint.grammar, text), text
    written = walk(constraint, random.Random(seed))
    if written is not None:
        assert takes(constraint.grammar, written), written


# Without a lexer.


@quick
@given(gbnf_grammars("gbnf"), st.integers(0, 99))
def test_gbnf_against_the_twin(drawn: Drawn, seed: int) -> None:
    inside = twin.language(drawn.grammar, "ab", 4)
    try:
        constraint = gbnf(drawn.source)
    except EmptyConstraint:
        assert not inside
        return
    beginnings = {text[:i] for text in inside for i in range(len(text) + 1)}
    for text in twin.words("ab", 4):
        alive, accepted = verdict(constraint, text)
        assert accepted == (text in inside), text
        assert alive or text not in beginnings, text
    written = walk(constraint, random.Random(seed))
    if written is not None and len(written) <= 12:
        assert twin.accepts(drawn.grammar, written), written


# A contextual lexer.

Kinds = frozenset[tuple[str, ...]]


@functools.cache
def sequences(grammar: Grammar, most: int) -> tuple[Kinds, Kinds]:
    """Return the terminal sequences of a grammar of at most `most` symbols, and the prefixes of all sequences.

    A rule without a sequence has no prefixes either; that is determined first, without lengths.
    """
    bodies = {rule.name: rule.body for rule in grammar.rules}
    productive: set[str] = set()

    def derives(body: Body) -> bool:
        kind = body[0]
        if kind == "rule":
            return body[1] in productive
        if kind in ("sequence", "choice"):
            return (all if kind == "sequence" else any)(map(derives, body[1]))
        return kind == "terminal" or body[2] == 0 or derives(body[1])

    while more := {name for name, body in bodies.items() if name not in productive and derives(body)}:
        productive |= more
    nothing: Kinds = frozenset()
    empty: Kinds = frozenset({()})
    known = {name: (nothing, empty if name in productive else nothing) for name in bodies}

    def chained(left: tuple[Kinds, Kinds], right: tuple[Kinds, Kinds]) -> tuple[Kinds, Kinds]:
        if not right[1] or not left[1]:
            return nothing, nothing
        joined = [
            frozenset(a + b for a in left[0] for b in part if len(a) + len(b) <= most) for part in right
        ]
        return joined[0], left[1] | joined[1]

    def of(body: Body) -> tuple[Kinds, Kinds]:
        kind = body[0]
        if kind == "rule":
            return known[body[1]]
        if kind == "terminal":
            return frozenset({(body[1],)}), frozenset({(), (body[1],)})
        if kind == "choice":
            parts = [of(part) for part in body[1]]
            return nothing.union(*(p[0] for p in parts)), nothing.union(*(p[1] for p in parts))
        if kind == "sequence":
            return functools.reduce(chained, map(of, body[1]), (empty, empty))
        _, inner, low, high = body
        once = of(inner)
        if not once[1]:
            return (empty, empty) if low == 0 else (nothing, nothing)
        found = functools.reduce(chained, [once] * low, (empty, empty))
        more = found
        for _ in range(most + 1 if high is None else high - low):
            more = chained(more, once)
            found = found[0] | more[0], found[1] | more[1]
        return found

    while True:
        now = {name: of(body) for name, body in bodies.items()}
        if now == known:
            return known[grammar.start]
        known = now


def takes_in_context(grammar: Grammar, text: str) -> bool:
    assert grammar.lexer is not None
    whole, beginnings = sequences(grammar, len(text) + 1)
    kinds: tuple[str, ...] = ()
    while text:
        expected = {one.name for one in grammar.lexer.terminals if (*kinds, one.name) in beginnings}
        found = lexeme(grammar.lexer, text, expected | set(grammar.lexer.ignore))
        if found is None:
            return False
        text = text[len(found[1]) :]
        if found[0] not in grammar.lexer.ignore:
            kinds = (*kinds, found[0])
    return kinds in whole


@quick
@given(lark_grammars(), st.lists(st.text("aabbc! ", max_size=5), min_size=1, max_size=6), st.integers(0, 99))
@example("start: C C B | A\nA: /ac/\nB: /c+/\nC: /a/\n", ["aac", "ac", "aaccc", "acc"], 0)
@example("start: C B | A A\nA: /a+/\nB: /bc/\nC: /ab?/\n", ["abc", "abbc", "aa"], 0)
def test_contextual_lexers_against_their_twin(source: str, texts: list[str], seed: int) -> None:
    try:
        constraint = lark(source, lexer="longest", contextual=True)
    except (GrammarUnsupported, EmptyConstraint):
        assume(False)
    for text in texts:
        assert verdict(constraint, text)[1] == takes_in_context(constraint.grammar, text), text
    written = walk(constraint, random.Random(seed), 4)
    if written is not None and len(written) <= 6:
        assert takes_in_context(constraint.grammar, written), written


# Indentation.

INDENTATION = Indentation("_NEWLINE", "_INDENT", "_DEDENT", (), ())
BLOCKS = (
    "start: (NAME _NEWLINE | NAME _NEWLINE _INDENT NAME _NEWLINE _DEDENT)*\n"
    "NAME: /a/\n_NEWLINE: /(\\r?\\n[\\t ]*)+/\n%declare _INDENT _DEDENT"
)


@functools.cache
def blocks(contextual: bool, lexer: str) -> GrammarConstraint:
    return lark(BLOCKS, indenter=INDENTATION, contextual=contextual, lexer=lexer)  # type: ignore[arg-type]


@pytest.mark.parametrize("contextual", [False, True])
@pytest.mark.parametrize("lexer", ["lark", "longest"])
def test_masks_after_a_newline(contextual: bool, lexer: str) -> None:
    """A regression test of masks that examined the ends of a newline one by one."""
    matcher = Matcher(blocks(contextual, lexer), SMALL)
    for text in (b"a", b"\n", b" ", b"a", b"\n", b"a"):
        for token in range(len(EOS), SMALL.size):
            assert (token in allowed(matcher.mask())) == matcher.fork().advance(token), (matcher.text, token)
        assert matcher.advance(next(i for i in range(SMALL.size) if SMALL.token_bytes(i) == text))


class Blocks(Indenter):
    NL_type = "_NEWLINE"
    OPEN_PAREN_types: ClassVar[list[str]] = []
    CLOSE_PAREN_types: ClassVar[list[str]] = []
    INDENT_type = "_INDENT"
    DEDENT_type = "_DEDENT"
    tab_len = 8


def test_indentation_is_read_as_lark_reads_it() -> None:
    theirs = Lark(BLOCKS, parser="earley", lexer="basic", postlex=Blocks())
    ours = blocks(False, "lark")
    for length in range(7):
        for letters in itertools.product("a\n ", repeat=length):
            text = "".join(letters)
            try:
                theirs.parse(text)
                wanted = True
            except (LarkError, AssertionError):
                wanted = False
            assert verdict(ours, text)[1] == wanted, text


# The ready grammars, on bytes.


@pytest.mark.parametrize(
    ("name", "module"), [("json", "json_files"), ("csv", "csv_files"), ("toml", "toml_files")]
)
@pytest.mark.parametrize("seed", range(6))
def test_what_masks_of_the_shelf_lead_to_can_be_read(name: str, module: str, seed: int) -> None:
    """Only bytes that are text by themselves are drawn; the rest of a text is a short completion."""
    is_valid: Callable[[str], bool] = importlib.import_module(f"bench.corpora.{module}").is_valid
    rng = random.Random(seed)
    matcher = Matcher(shelf_grammar(name), BYTES)
    for _ in range(60):
        onwards = [token for token in allowed(matcher.mask()) - set(EOS) if token - FIRST < 128]
        if not onwards:
            break
        assert matcher.advance(rng.choice(sorted(onwards)))
    rest = matcher.witness_text()
    assert rest is not None
    text = (matcher.text + rest).decode()
    assert verdict(shelf_grammar(name), text) == (True, True)
    assert is_valid(text), text
