"""Regular expressions by derivatives, compared with a slow twin and with `re`, and at their limits."""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from structgen._core._native import LimitError, RegexSpace
from structgen.constraints.regex import regex
from tests.oracles.regex_twin import accepts

RE = tuple[Any, ...]

# Every text of up to four letters, and characters of two, three and four bytes.
TEXTS = ["".join(t) for n in range(5) for t in itertools.product("ab", repeat=n)]
TEXTS += ["é", "aé", "éa", "ébé", "€", "a€b", "𝄞", "𝄞a", "\n"]

A: RE = ("class", ((97, 97),))
B: RE = ("literal", "b")
ANY: RE = ("any",)
TEXT: RE = ("text",)
LEAVES: list[RE] = [
    A,
    B,
    ANY,
    TEXT,
    ("class", ((97, 98), (0xE0, 0xFF))),
    ("class", ((0, 96), (99, 0x10FFFF))),
    ("literal", "ab"),
    ("literal", ""),
    ("literals", ("a", "ab", "bb", "")),
    ("empty",),
]


def concat(*parts: RE) -> RE:
    return ("concat", parts)


def look(kind: str, body: RE) -> RE:
    return ("look", kind[1] != "<", kind[-1] == "!", body)


def _larger(inner: st.SearchStrategy[RE]) -> st.SearchStrategy[RE]:
    some = st.lists(inner, min_size=1, max_size=3).map(tuple)
    return st.one_of(
        some.map(lambda x: ("concat", x)),
        some.map(lambda x: ("concat", x)),
        some.map(lambda x: ("alternate", x)),
        some.map(lambda x: ("intersect", x)),
        inner.map(lambda x: ("complement", x)),
        st.tuples(inner, st.integers(0, 2), st.sampled_from([None, 0, 1, 2])).map(
            lambda t: ("repeat", t[0], t[1], None if t[2] is None else t[1] + t[2])
        ),
    )


def _looking(inner: st.SearchStrategy[RE]) -> st.SearchStrategy[RE]:
    looks = st.tuples(st.booleans(), st.booleans(), inner).map(lambda t: ("look", *t))
    return st.one_of(_larger(inner), looks, inner.map(lambda x: ("scope", x)))


plain = st.recursive(st.sampled_from(LEAVES), _larger, max_leaves=10)
with_looks = st.recursive(st.sampled_from(LEAVES), _looking, max_leaves=10)


def walk(space: RegexSpace, r: int, text: str) -> int:
    for byte in text.encode():
        r = space.derivative(r, byte)
    return r


def check(ir: RE) -> None:
    space = RegexSpace(emptiness_budget=3000)
    r = space.compile(ir)
    wanted = [text for text in TEXTS if accepts(ir, text)]
    assert [text for text in TEXTS if space.matches(r, text.encode())] == wanted
    assert [text for text in TEXTS if space.nullable(walk(space, r, text))] == wanted
    assert space.alive(r) or not wanted
    found = space.witness(r)
    if space.unproven:
        return
    # Emptiness is decided, so a witness exists, and it is a shortest one.
    assert (found is not None) == space.alive(r)
    if found is None:
        assert space.min_length(r) == -1
        return
    text = found.decode()
    if len(text) <= 8:
        assert accepts(ir, text)
    assert len(found) <= min((len(t.encode()) for t in wanted), default=len(found))
    shortest = space.min_length(r)
    assert shortest <= len(text) and space.has_length(r, shortest, shortest)
    assert shortest == 0 or not space.has_length(r, 0, shortest - 1)


@settings(max_examples=400, deadline=None)
@given(plain)
def test_languages_are_those_of_the_twin(ir: RE) -> None:
    check(ir)


@settings(max_examples=600, deadline=None)
@given(with_looks)
def test_look_arounds_are_those_of_the_twin(ir: RE) -> None:
    check(ir)


@settings(max_examples=200, deadline=None)
@given(with_looks, st.integers(0, 3), st.integers(0, 2))
def test_lengths_are_those_of_enumeration(ir: RE, low: int, more: int) -> None:
    space = RegexSpace(emptiness_budget=3000)
    answer = space.has_length(space.compile(ir), low, low + more)
    # An expression of these leaves tells apart no more characters than these.
    texts = ("".join(t) for n in range(low, low + more + 1) for t in itertools.product("abéß€", repeat=n))
    if not space.unproven:
        assert answer == any(accepts(ir, text) for text in texts)


@settings(max_examples=200, deadline=None)
@given(with_looks, st.sampled_from(TEXTS))
def test_live_states_have_completions(ir: RE, text: str) -> None:
    space = RegexSpace(emptiness_budget=3000)
    state = space.compile(ir)
    before = b""
    for byte in text.encode():
        state = space.derivative(state, byte)
        before += bytes([byte])
        if state == space.EMPTY or space.unproven:
            return
        rest = space.witness(state)
        assert rest is not None and space.matches(space.compile(ir), before + rest)


PATTERNS: list[tuple[str, RE]] = [
    (r"(?=.*b)a*b?", concat(look("?=", concat(TEXT, B)), ("repeat", A, 0, None), ("repeat", B, 0, 1))),
    (r".*(?<=ab).*", concat(TEXT, look("?<=", ("literal", "ab")), TEXT)),
    (r".*(?<!a)b", concat(TEXT, look("?<!", A), B)),
    (r"(?:(?!ab).)*", ("repeat", concat(look("?!", ("literal", "ab")), ANY), 0, None)),
    (
        r"(?:a(?=b)|b(?!b))*",
        ("repeat", ("alternate", (concat(A, look("?=", B)), concat(B, look("?!", B)))), 0, None),
    ),
    (
        r"(?:(?=a)|b){2}a*",
        concat(("repeat", ("alternate", (look("?=", A), B)), 2, 2), ("repeat", A, 0, None)),
    ),
    (r".*(?<=a(?=b)).*", concat(TEXT, look("?<=", concat(A, look("?=", B))), TEXT)),
    (r".*(?<!(?<=a)b).", concat(TEXT, look("?<!", concat(look("?<=", A), B)), ANY)),
    (r"(?!.*(?!a)b).*", concat(look("?!", concat(TEXT, look("?!", A), B)), TEXT)),
    (r"(?:a|(?<=a)b){3}", ("repeat", ("alternate", (A, concat(look("?<=", A), B))), 3, 3)),
]


@pytest.mark.parametrize(("pattern", "ir"), PATTERNS, ids=[p for p, _ in PATTERNS])
def test_look_arounds_are_those_of_re(pattern: str, ir: RE) -> None:
    space = RegexSpace()
    r = space.compile(ir)
    compiled = re.compile(pattern, re.DOTALL)
    for n in range(8):
        for letters in itertools.product("ab", repeat=n):
            text = "".join(letters)
            assert space.matches(r, text.encode()) == bool(compiled.fullmatch(text)), text


def test_a_scope_hides_the_text_around_it() -> None:
    space = RegexSpace()
    inside = concat(look("?<!", A), B, look("?!", A))
    assert not space.matches(space.compile(concat(A, inside)), b"ab")
    assert space.matches(space.compile(concat(A, ("scope", inside), A)), b"aba")
    # Operands of Boolean operators are scopes.
    assert space.matches(space.compile(concat(A, ("intersect", (inside, B)), A)), b"aba")


def test_complement_stays_in_utf8() -> None:
    space = RegexSpace()
    r = space.compile(("complement", ("literal", "é")))
    for bad in (
        b"\xc3",
        b"\xff",
        b"\x80",
        b"\xc0\x80",
        b"\xed\xa0\x80",
        b"\xf4\x90\x80\x80",
        b"\xe0\x80\x80",
        b"\xc3a",
    ):
        assert not space.matches(r, bad), bad
    for good in ("", "e", "éé", "\U0010ffff", "\ud7ff", "\ue000"):
        assert space.matches(r, good.encode()), good


def test_every_character_is_one_of_its_class() -> None:
    space = RegexSpace()
    edges = [
        0,
        0x7F,
        0x80,
        0x7FF,
        0x800,
        0xFFF,
        0x1000,
        0xD7FF,
        0xE000,
        0xFFFF,
        0x10000,
        0x3FFFF,
        0x40000,
        0x10FFFF,
    ]
    for low, high in itertools.combinations(edges, 2):
        r = space.compile(("class", ((low, high),)))
        for edge in edges:
            for c in {edge, max(edge - 1, 0), min(edge + 1, 0x10FFFF)} - set(range(0xD800, 0xE000)):
                assert space.matches(r, chr(c).encode()) == (low <= c <= high)


def test_bytes_that_cannot_be_spelled_leave_the_alphabet() -> None:
    space = RegexSpace(spellable=b"ab\xc3\xa9")
    assert space.compile(("literal", "c")) == space.EMPTY
    assert space.compile(("class", ((99, 120),))) == space.EMPTY
    assert space.witness(space.compile(concat(("class", ((99, 0xFF),)), ANY))) == "éa".encode()
    assert not space.alive(space.compile(("class", ((0xEA, 0xFF),))))
    assert not space.alive(
        space.compile(("intersect", (ANY, ("complement", ("class", ((97, 98), (0xE9, 0xE9)))))))
    )


def test_simplifications_find_equal_expressions() -> None:
    space = RegexSpace()
    star = ("repeat", A, 0, None)
    assert space.compile(("repeat", ANY, 0, None)) == space.ANY_TEXT
    assert space.compile(("complement", ("empty",))) == space.ANY_TEXT
    assert space.compile(("complement", ("complement", star))) == space.compile(star)
    assert space.compile(("repeat", ("repeat", A, 1, 3), 2, 5)) == space.compile(("repeat", A, 2, 15))
    assert space.compile(("alternate", (("repeat", A, 2, 3), ("repeat", A, 4, 9)))) == space.compile(
        ("repeat", A, 2, 9)
    )
    assert space.compile(("intersect", (star, ("complement", star)))) == space.EMPTY
    assert space.concat(space.concat(2, space.compile(A)), 2) == space.concat(
        2, space.concat(space.compile(A), 2)
    )


def test_counters_stay_symbolic() -> None:
    space = RegexSpace()
    r = space.compile(("intersect", (("repeat", A, 0, 10**9), ("repeat", ("literal", "aa"), 3, 10**12))))
    assert space.min_length(r) == 6
    assert space.has_length(space.compile(("repeat", ("literal", "abc"), 0, None)), 3 * 10**9, 3 * 10**9)
    assert not space.has_length(space.compile(concat(("repeat", A, 5, 7), B)), 9, None)
    assert space.size < 1000


def test_a_hundred_thousand_literals() -> None:
    texts = tuple(f"{i * 7919 % 1_000_003:07d}-é" for i in range(100_000))
    space = RegexSpace()
    start = time.process_time()
    r = space.compile(("literals", texts))
    assert time.process_time() - start < 20
    assert all(space.matches(r, text.encode()) for text in texts[::997])
    assert not space.matches(r, texts[0].encode()[:-1])
    assert space.min_length(r) == 9


def _nested(wrap: Callable[[RE], RE], depth: int) -> RE:
    ir: RE = A
    for _ in range(depth):
        ir = wrap(ir)
    return ir


@pytest.mark.parametrize(
    "wrap",
    [
        lambda x: ("complement", ("concat", (A, x))),
        lambda x: ("concat", (A, x)),
        lambda x: ("alternate", (B, ("concat", (x, A)))),
        lambda x: ("repeat", ("alternate", (x, B)), 1, 3),
        lambda x: ("concat", (("look", True, True, x), A)),
        lambda x: ("look", False, True, x),
    ],
    ids=["complement", "concat", "alternate", "repeat", "look-ahead", "look-behind"],
)
def test_nesting_ends_in_an_answer_or_a_limit(wrap: Callable[[RE], RE]) -> None:
    with pytest.raises(LimitError, match="nested more than 1000 deep"):
        RegexSpace().compile(_nested(wrap, 100_000))
    space = RegexSpace(max_nodes=50_000)
    try:
        space.alive(space.compile(_nested(wrap, 300)))
    except LimitError as error:
        assert "regex_nodes" in str(error)


def test_expressions_built_deep_need_no_stack() -> None:
    space = RegexSpace()
    ab = space.compile(("class", ((97, 98),)))
    r = space.compile(A)
    for _ in range(50_000):
        r = space.alternate(space.concat(space.complement(r), ab), ab)
    assert space.matches(r, b"a")
    assert space.describe(r, limit=50).endswith("...")


def test_shared_parts_are_read_and_derived_once() -> None:
    ir: RE = A
    for _ in range(200):
        ir = ("alternate", (("concat", (ir, B)), ("concat", (B, ir)), ("complement", ir)))
    space = RegexSpace()
    r = space.compile(ir)
    assert space.matches(r, b"abba") in (True, False)


def test_catastrophes_are_bounded() -> None:
    fifty = concat(TEXT, A, ("repeat", ANY, 50, 50))
    other = concat(TEXT, B, ("repeat", ANY, 49, 49))
    letters = tuple(look("?=", concat(TEXT, ("literal", chr(97 + i)))) for i in range(26))
    for ir in (
        ("complement", ("repeat", fifty, 10, 10)),
        ("intersect", (("complement", fifty), other)),
        concat(*letters, ("repeat", ANY, 8, 64)),
    ):
        space = RegexSpace(max_nodes=300_000, emptiness_budget=10_000)
        start = time.process_time()
        try:
            r = space.compile(ir)
            assert space.alive(r)
            for byte in b"abcabcabc" * 5:
                r = space.derivative(r, byte)
        except LimitError as error:
            assert "regex_nodes" in str(error)
        assert time.process_time() - start < 20
        assert space.memory < 300_000 * 300


def test_a_space_survives_its_limit() -> None:
    space = RegexSpace(max_nodes=2000)
    kept = space.compile(("literal", "kept"))
    with pytest.raises(LimitError, match=r"more than 2000 nodes \(limit regex_nodes\)"):
        space.compile(("literal", "ab" * 5000))
    assert space.matches(kept, b"kept")
    assert space.alive(kept)


def test_bad_ir_is_refused() -> None:
    space = RegexSpace()
    for bad in (
        ("nonsense", 1),
        (),
        "text",
        ("literal", "\ud800"),
        ("concat",),
        ("class", ((1,),)),
        ("repeat", A, "x", 2),
    ):
        with pytest.raises((ValueError, IndexError, TypeError, RuntimeError)):
            space.compile(bad)


def test_descriptions_can_be_read() -> None:
    space = RegexSpace()
    r = space.compile(concat(("literal", "ab"), ("complement", ("repeat", ("class", ((48, 57),)), 1, 3))))
    assert space.describe(r) == "('ab'~({1,3}([0-9])))"


@pytest.mark.parametrize(
    ("pattern", "most"),
    [
        ("[a-z]{1,50}", 50),
        ("[a-z][a-z0-9]{0,62}", 63),
        ("[a-z]([-a-z]{0,61}[a-z])?", 63),
        ("x.{5,40}yz", 43),
        ("a|bc|[a-z]{3,30}", 30),
        ("[a-z]{1,50}|.{60}", None),
        ("[a-z]{1,50}[0-9]{1,50}", None),
        ("(ab){1,50}", None),
        ("[a-z]{3,5}", None),
        ("[a-z]*", None),
    ],
)
def test_counts_beside_lengths(pattern: str, most: int | None) -> None:
    space = RegexSpace()
    counted = space.compile(regex(pattern).lower()[1])
    found = space.bounded_by_length(counted)
    assert (found and found[1]) == most
    if found:
        any_character = space.compile(ANY)
        bounded = space.intersect(found[0], space.repeat(any_character, 0, found[1]))
        for one, other in ((bounded, counted), (counted, bounded)):
            assert not space.alive(space.intersect(one, space.complement(other)))


def test_powers_of_a_class_are_counted() -> None:
    space = RegexSpace()
    both = [space.compile(regex(p).lower()[1]) for p in ("(.|..|...){5,9}", ".{5,27}")]
    assert both[0] == both[1]
    assert space.compile(regex("(.|...){2}").lower()[1]) != space.compile(regex(".{2,6}").lower()[1])
