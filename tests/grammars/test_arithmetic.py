"""The shelf's arithmetic is Python's, of names, calls and decimal numbers."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.corpora.arithmetic_files import is_valid
from tests.grammars.reading import assert_accepted, assert_rejected, disagreements, reader

ACCEPTED = [
    "1", "0", "00", "1.5", "1.", ".5", "1e5", "1.e-5", ".5E+05", "012.5", "09e1", "a", "_a1", "1+2",
    " 1 - 2\t", "1*2/3//4%5", "-1", "+-+1", "2**-1", "-2**2", "2**3**4", "(1)", "((1 + 2) * 3)", "f()",
    "f(1)", "f( 1 , 2, )", "f(g(x))(y)", "math.sqrt(x)", "a . b . c", "a.b(1).c(2)(3)", "(a + b).c",
    "(a)(b)", "1 -1", "1--1", "x*-y", "android", "a.ins(none)", "_if", "a%b", "a" + " " * 20 + "+b",
]  # fmt: skip

REJECTED = [
    "‸", "1+‸", "‸*1", "(‸)", "(1‸", "1‸)", "1 ‸2", "a ‸b", "2‸x", "x2(‸", "1.‸.2", "1.2‸.3", "012‸", "1e‸",
    "1e+‸", "0‸x10", "1‸_000", "1‸j", "f(‸", "f(‸,)", "f(1 ‸2)", "f(1,‸,2)", "f(x‸=1)", "f(‸*a)",
    "1 + ‸* 2", "a**‸*b", "a//‸/b", "a‸^b", "a.‸", ".‸a", "a.‸1", "1 ‸if b", "a‸[1]", "a ‸@ b", "‸~a",
    "a ‸== b", "a‸\n+b", "a ‸# b", "‸'a'", "‸é", "--‸", "(1+2)*(3‸", "5‸(", "f().‸", "lambda‸",
    "1 + not‸ + 2", "f(a.in‸)", "None‸()", "a" + " " * 20 + "‸ +b",
]  # fmt: skip

numbers = st.integers(0, 10**20).map(str) | st.floats(0, allow_infinity=False).map(repr)
expressions = st.recursive(
    numbers | st.sampled_from(["x", "_y1", "a.b"]),
    lambda inner: (
        st.tuples(inner, st.sampled_from(["+", "-", " * ", "/", "//", "%", "**"]), inner).map("".join)
        | inner.map("({})".format)
        | inner.map("-{}".format)
        | st.lists(inner, max_size=3).map(lambda items: f"f({', '.join(items)})")
    ),
)


@pytest.mark.parametrize("text", ACCEPTED)
def test_accepted(text: str) -> None:
    assert is_valid(text)
    assert_accepted("arithmetic", text)


@pytest.mark.parametrize("text", REJECTED)
def test_rejected(text: str) -> None:
    assert_rejected("arithmetic", text)


@given(expressions)
def test_what_python_reads_and_writes(text: str) -> None:
    assert reader("arithmetic").accepts(text)
    assert reader("arithmetic").accepts(ast.unparse(ast.parse(text)))


@pytest.mark.parametrize("seed", range(20))
def test_edited_texts_have_the_verdict_of_python(seed: int) -> None:
    assert disagreements("arithmetic", ACCEPTED[:-1], is_valid, seed=seed) == []
