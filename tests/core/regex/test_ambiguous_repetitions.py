"""Ambiguous counted repetitions: their bodies' texts can be split in several ways.

After n bytes of `(a|aa){1000}` the state is a union over all counts that are possible. Adjacent counts form one range
(regex_merge.cpp), so such a state stays small. It once had a term for each count, and a walk over one of these patterns
took minutes.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Set
from dataclasses import dataclass, field
from functools import reduce

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from structgen._core._native import RegexSpace
from structgen.constraints.json_schema import json_schema
from structgen.constraints.regex import regex
from structgen.errors import LimitExceeded
from structgen.matcher import Matcher
from tests.core.small_vocabulary import EOS, byte_vocabulary, json_vocabulary

HOSTILE = [
    "(a|aa|ab|aaa|bbbb){1000}",
    "((a|ab)(c|bcd)){500}",
    "(a{1,3}b?){300}",
    "(((a|ab){2,3}){4,7}|b){300}",
    "([ab]{1,3}|[bc]{2,5}){400}",
    "((a|ab){1,9}(b|bc|c){1,9}){100}",
    "(x|(a|aa|ab){20,400}|c)*",
    "(a|aa){1000}(a|ab){1000}",
    "(a|aaa|aaaaaaa){1000}",
]
TEXTS = ["".join(letters) for size in range(7) for letters in itertools.product("ab", repeat=size)]


@dataclass(frozen=True)
class Body:
    """A pattern, and where its matches end in a text, one place after the other: `re` tries them all, for minutes."""

    pattern: str
    ends: Callable[[str, Set[int]], Set[int]] = field(repr=False)

    def matches(self, text: str) -> bool:
        return len(text) in self.ends(text, {0})


def words(pattern: str, *texts: str) -> Body:
    return Body(
        pattern, lambda text, begins: {at + len(w) for w in texts for at in begins if text.startswith(w, at)}
    )


def repeated(body: Body, least: int, more: int) -> Body:
    def ends(text: str, begins: Set[int]) -> Set[int]:
        for _ in range(least):
            begins = body.ends(text, begins)
        found = begins
        for _ in range(more):
            begins = body.ends(text, begins)
            found = found | begins
        return found

    return Body(f"({body.pattern}){{{least},{least + more}}}", ends)


def either(bodies: list[Body]) -> Body:
    pattern = f"({'|'.join(body.pattern for body in bodies)})"
    return Body(pattern, lambda text, begins: set().union(*(body.ends(text, begins) for body in bodies)))


def in_turn(bodies: list[Body]) -> Body:
    pattern = "".join(body.pattern for body in bodies)
    return Body(pattern, lambda text, begins: reduce(lambda at, body: body.ends(text, at), bodies, begins))


def counted(inner: st.SearchStrategy[Body]) -> st.SearchStrategy[Body]:
    few = st.lists(inner, min_size=2, max_size=3)
    return st.one_of(
        st.builds(repeated, inner, st.integers(0, 3), st.integers(0, 3)), few.map(either), few.map(in_turn)
    )


LEAVES = [("a", "a"), ("b", "b"), ("ab", "ab"), ("aa", "aa"), ("[ab]", "a", "b"), ("a?", "", "a")]
bodies = st.recursive(st.sampled_from([words(*leaf) for leaf in LEAVES]), counted, max_leaves=7)


@settings(max_examples=60)
@given(bodies)
def test_texts_are_those_that_match(body: Body) -> None:
    space = RegexSpace()
    r = space.compile(regex(body.pattern).lower()[1])
    for text in TEXTS:
        assert space.matches(r, text.encode()) == body.matches(text), text


@settings(max_examples=60)
@given(bodies, st.text("ab", max_size=4))
def test_completions_by_structure(body: Body, start: str) -> None:
    space = RegexSpace()
    r = space.compile(regex(body.pattern).lower()[1])
    for byte in start.encode():
        r = space.derivative(r, byte)
    if r != space.EMPTY:
        rest = space.witness(r)
        assert rest is not None
        assert body.matches(start + rest.decode())


@pytest.mark.parametrize("pattern", HOSTILE)
def test_long_texts_are_read_quickly(pattern: str) -> None:
    space = RegexSpace()
    r = space.compile(regex(pattern).lower()[1])
    start = time.process_time()
    for _ in range(40):
        for byte in b"aabacaaab":
            after = space.derivative(r, byte)
            r = after if after != space.EMPTY else r
    rest = space.witness(r)
    assert rest is not None
    assert space.matches(r, rest)
    assert space.size < 200_000
    assert time.process_time() - start < 20


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("pattern", HOSTILE)
def test_walks_end(pattern: str, inside: bool) -> None:
    constraint = json_schema({"type": "string", "pattern": f"^{pattern}$"}) if inside else regex(pattern)
    matcher = Matcher(constraint, json_vocabulary())
    start = time.process_time()
    for byte in (b'"' if inside else b"") + b"aabaabaaabaa":
        matcher.mask()
        matcher.advance(len(EOS) + byte)
    rest = matcher.witness()
    assert rest is not None
    assert all(matcher.advance(token) for token in rest)
    assert matcher.is_complete()
    assert time.process_time() - start < 20


def test_unions_that_cannot_be_merged_meet_a_limit() -> None:
    # Counts that never touch: states have hundreds of terms, and count as so many more.
    vocabulary = byte_vocabulary(b"ab").with_limits(automaton_states=2_000)
    matcher = Matcher(regex("(a|aaa|[ab]{7}|b{9}a{4}){100000}"), vocabulary)
    start = time.process_time()
    with pytest.raises(LimitExceeded, match="automaton_states"):
        all(matcher.advance(len(EOS) + token) for token in [0, 0, 1] * 20_000)
    assert time.process_time() - start < 20
    assert len(matcher.tokens) < 1_900  # so many would be the states of the text alone


def test_a_constraint_after_one_that_met_the_limit() -> None:
    vocabulary = byte_vocabulary(b"abc").with_limits(regex_nodes=20_000)
    matcher = Matcher(regex("(a|aaa|[ab]{7}|b{9}a{4}|ab?c){100000}"), vocabulary)
    with pytest.raises(LimitExceeded, match="regex_nodes"):
        all(matcher.advance(len(EOS) + token) for token in [0, 0, 1] * 20_000)
    assert Matcher(regex("(ab|abc){3}"), vocabulary).witness_text() == b"ababab"
