"""The shelf's Python is that of Python 3.12's own parser, but within the braces of f-strings."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable

import pytest

import structgen as sg
from bench.corpora.python import drawn, is_valid, reads_3_12, standard_library
from bench.shelf import Reader
from tests.grammars.reading import assert_accepted, assert_rejected, disagreements, reader

EXPRESSIONS = [
    "(x := 1)", "f(x := 1)", "x[a := 1]", "x[a := 1, b := 2]", "x[*a]", "x[*a, 1:2, ::3, ...]",
    "{**a, 'b': 1}", "{*a, b}", "{a: b for a in c}", "{a := 1, b}", "{a := 1 for b in c}",
    "[a := 1 for b in c]", "(*a,)", "*a", "*a,", "*a = 1", "*a, b = 1", "a = *b", "a = *b, c", "a = yield",
    "a = yield x, *y", "a += yield", "(a) += 1", "[a] = 1", "f().a = 1", "f()[0] = 1", "a = b = c",
    "(a) = b", "(a): int = 1", "a.b: int = 1", "a[0]: int", "a: int = yield", "a: int = *b, c", "() = x",
    "[] = x", "f(*a, b=1, *c, **d, e=2)", "f(a, b=1, **c,)", "f(a for a in b)", "f((a for a in b), c)",
    "[x for x in a if b if c for y in d]", "[x for x in (a if b else c)]", "(x for x in y)(z)",
    "a if b else c if d else e", "not a in b", "a not in b", "a is not b", "not not a", "a < b > c == d",
    "-a ** -b", "await a.b", "-await a", "a.b.c()()[0].d", "1 .a", "1..a", "...", "....a", "a = ...",
    "print >>f, x", "yield", "yield x", "yield from x", "x = yield from y", "await x", "1e+5J",
    "1_000.000_1e1_0", "é = 'é'", "a = \\\n  b", "# comment only", "", "__debug__", "a, = b", "(a, *b) = c",
    "a = (b, *c)", "a @= b @ c", "a //= b // c", "\n1", "1\n\n   ", "x = 1\n   ", "1if x else y",
    "0xfor x in y", "00", "0_0", "1e5_0", "1_000j", "08.5", "09j", "é=1", "ﬁ=1", "\n\x0cx=1", "\x0c\nx=1",
    "# -*- coding: latin-1 -*-\nx", "# -*- coding: foo -*-\nx", "[x async for x in y if await z]",
]  # fmt: skip

STRINGS = [
    '"a" "b" f"c{d}" r\'e\'', 'b"a" rb\'\\x\' br"\\""', "'''a\nb'''", '"""doc"""', 'u\'x\' U"x"',
    'f"{x:{\'a\' if b else \'c\'}}" f\'{x["a"]}\'', 'f"{{}}" f"{{{x}}}" f"{x}{y}"',
    'f"{x!r}" f"{x!r:a}" f"{x = !s}"', 'f"{f"{f"a"}"}"', 'f\'{d["a"]["b"](c, [1, (2, {3})])}\'',
    'rf"\\{x}\\d" fR\'{x}\\\'\'', "f'{x!r }'", "f'{x !r}'", "f'{ x = }'", "f'{*a}'", "f'{yield}'",
    "f'{x:=5}'", "f'{x,}'", "f'{x!=1}'", "f'{x!=1!r}'", "f'{\nx}'", "f'{x#a\n}'", "rf'\\{x}'", "f'\\{x}'",
    "rf'\\N{x}'", "f'}}'", "f'{a['b']}'", "f'{f'{f'{1}'}'}'", "b'\\u12'", "r'\\u12'", "f'{x!r:>{w}}'",
    "f'{x!r:}'", "f'{'a' 'b'}'", "f'{''}'", "f'{x==1}'", "f'{x=!r:^20}'", "f'{not x}'", "f'{x\\\n}'",
    "f'''{\n'a' # c }\n}'''", "F'{x}'", "Rb'a'", "rf'(\\{{%)'",
]  # fmt: skip

STATEMENTS = [
    "with (a as b, c as d,): pass", "with (a, b) as c: pass", "with (a as b): pass", "with (yield): pass",
    "with (a for a in b) as c: pass", "with a as (b, [c, *d]): pass", "with a as b.c, d as e[0]: pass",
    "try: pass\nexcept* A: pass", "try: pass\nexcept (A, B) as e: pass\nelse: pass\nfinally: pass",
    "try: pass\nexcept A: pass\nelse: pass", "try:\n    pass\nexcept A:\n    pass\nfinally: x",
    "if x: y\nelif z: w\nelse: v", "if x: y; z;", "for x in y: pass\nelse: pass",
    "for x, *y in *a, b: pass", "for (x) in y: pass", "for (x, y), [z] in w: pass", "while x := y: pass",
    "del a, b.c, d[0], (e, [f])", "del ()", "del a,", "assert x, y", "raise x from y", "return *a, b",
    "global a, b", "nonlocal a", "import a.b as c, d", "from . import a", "from ... import a",
    "from .... import a", "from .a.b import (c as d, e,)", "from a import *", "from .... a import b",
    "return (yield)", "break; continue", "if (a\n    + b): # c\n    x = [1,\n2, # d\n\n  3]\n    y",
    "if x:\n\ty\n\tz", "if x:\n    a\n\n    # c\n  # d\n    b\nelse: pass", "if a:\\\n  b",
    "with a: pass; b", "with (a, b,) as c, d: pass", "with (): pass", "with (a := b): pass",
    "for x in a if b else c: pass", "for *x in y: pass", "if x:\n\x0c    y", "if x:\n    y\n\x0c\n    z",
    "async def f():\n    async for x in y: pass\n    async with a as b, c: pass\n    await x ** await y",
]  # fmt: skip

DEFINITIONS = [
    "def f(a, /, b=1, *c, d, **e): pass", "def f(a, b=1, /, c=2, *, d, e=3, **k,): pass",
    "def f(*, a): pass", "def f(*a: *Ts): pass", "lambda: 1", "lambda a, /, b=1, *c, d, **e: 1",
    "lambda a,: 1", "lambda *a, b: (yield)", "type X = int", "type X[T: int, *Ts, **P] = list[T]",
    "type X[T,] = int", "type = 1", "type(x)", "type X = int; y", "type X = (yield)",
    "def f[T: (int, str)](x: T) -> T: ...", "class A[T](B, metaclass=C): x: T", "class A(): pass",
    "class A(*b, **c): pass", "class A: pass; x = 1", "@a.b[c](d)\ndef f(): pass", "@a := b\nclass A: pass",
    "@a\n@b\n\n# c\nasync def f(): pass", "lambda: a if b else c",
    "def f(): pass\nclass A:\n    def g(self): pass\n\n    x = 1\n    class B: pass",
    'def f():\n    """doc"""\n    return\n# end',
    "def f():\n    if x:\n        y\n    elif z: w\n    else:\n        try: a\n        except: b",
    "def f() -> (yield): pass",
]  # fmt: skip

MATCHES = [
    "match x:\n    case f(): pass\n    case 1: pass\npass", "match (x):\n    case 1: pass", "match(x)",
    "match = case = type = _ = 1", "match, case = 1", "match x, y:\n    case 1, 2: pass",
    "match *x, y:\n    case 1, 2: pass", "match x,:\n    case 1: pass", "match -x:\n    case 1: pass",
    "match[x]: int", "match.x", "match * x", "match", "match x:\n case f'a':\n  pass",
    "match x:\n case *_,:\n  pass", "match x:\n case -1j:\n  pass",
    'match x:\n    case 1 | -2 | 3.0 | 1 + 2j | "a" "b" | None | True: pass',
    "match x:\n    case a.b.c: pass", 'match x:\n    case {"a": 1, b.c: d, **rest,}: pass',
    "match x:\n    case {1: _, }: pass", 'match x:\n    case {"a": 1, -1: [a, *_, b], **rest}: pass',
    "match x:\n    case []: pass", "match x:\n    case (): pass", "match x:\n    case (a): pass",
    "match x:\n    case (a,): pass", "match x:\n    case a, b: pass", "match x:\n    case *a,: pass",
    "match x:\n    case [*a]: pass", "match x:\n    case (*a,): pass", "match x:\n    case A(): pass",
    "match x:\n    case a.B(1, x, c=2, d=[e],): pass", "match x:\n    case (a | b) as c if d: pass",
    "match x:\n    case _: pass",
]  # fmt: skip

NO_EXPRESSIONS = [
    "[x for x in 5a‸sync for y in z]", "raise 1‸from x", "1if x else‸y",
    "x = lambda: yield‸", "await ‸= 1", "x\n ‸y", "x;‸; y", "‸;", "x :‸= 1", "(x.y ‸:= 1)",
    "f(a = x ‸:= 1)", "x[a:=1‸:2]", "x[‸]", "x[a ‸b]", "{**a ‸for a in b}", "{*a ‸for a in b}",
    "{a: b, c‸}", "{a, b:‸ c}", "{a: b ‸:= 1}", "(*a‸)", "a, b +‸= 1", "(a, b) +‸= 1", "[a, b] +‸= 1",
    "f() =‸ 1", "None =‸ 1", "x.None‸ = 1", "a = 1 =‸ b", "a + b =‸ c", "(a, b)‸: int", "f()‸: int",
    "a: ‸*b", "f(*a, **b, c=1, *‸d)", "f(**a, b‸)", "f(a.b=‸1)", "f(a for a in b‸, c)",
    "f(a, *b ‸for b in c)", "f(None=‸1)", "f(a=1, a ‸for a in b)", "f(‸,)", "f(a,‸,b)",
    "[x for x in 1‸, 2]", "[x for x in a if b ‸else c]", "[x for x in lambda‸: y]",
    "[x for x in a if lambda‸: y]", "[x if y ‸for x in z]", "[x, y ‸for x in z]", "[*x ‸for x in z]",
    "[for‸ x in z]", "a if b‸", "a if lambda‸: b else c", "a not ‸b", "a not i‸s b", "a == not‸ b",
    "- not‸ a", "a + not‸ b", "a <‸> b", "a ** not‸ b", "await ‸-a", "await await‸ a", "a.‸1", "a.‸.b",
    "1.a‸", "x = 1 if y else‸", 'print ‸"x"', 'exec ‸"x"', "yield from x‸, y", "x = (1,‸", "x = 1‸)",
    "x = [1‸}", "a ‸$ b", "a ‸? b", "a = ‸`b`", "a!‸", "a !‸ = b", "a : ‸= b", "(a :‸ = b)", "0777‸",
    "0x‸g", "1_‸_0", "1e‸", "0b10‸2", "\\‸", "a = \\‸ \n  b", "x: int = y‸: int", "a = b if c else ‸*d",
    "a,‸, = b", "a -‸>= b", "0o‸8", "1_‸", "08‸", "x‸²=1", "print(*a ‸for a in b)", "f(a=1,b‸)",
    "f(**a,*‸b)", "f(x for x in y‸,1)", "f(x for x in y‸,)", "‸\ufeffx", "a<‸>b",
]  # fmt: skip

NO_STRINGS = [
    '"a" ‸b\'c\'', "'abc‸", '"""a""""‸', "'a' 'b‸", 'f"{{x}‸" ', 'f"{x}}‸"', "f'{x!‸ r}'", "f'{x!‸z}'",
    "f'{x:}}‸'", "f'{x:‸\\N{DASH}}'", "f'{x#}'‸", "f'\\x4‸'", "f'{{}‸'", "b'‸é'", "'\\x4‸'", "b'\\x4‸'",
    "'\\u12‸'", "'\\U001‸10000'", "'a' ‸b'b'", "f'{x:‸'a'}'", "f'{x!s‸=}'", "f'{a:{b}‸'", "f'{‸}'",
    "f'{ ‸}'", "f'{!‸r}'", "f'{‸:a}'", "f'{x‸;y}'", "fb‸'a'", "uf‸'a'", "ur‸'a'",
]  # fmt: skip

NO_STATEMENTS = [
    "async ‸x = 1", "async w‸hile x: pass", "with (a, b as c)‸, d: pass", "with a as b, ‸: pass",
    "with a as f()‸: pass", "try: pass\nexcept*‸: pass", "try: pass\nexcept A‸, B: pass",
    "try: pass\ne‸lse: pass", "try: pass\nfinally: pass\nelse‸: pass",
    "try: pass\nexcept A: pass\nexcept‸* B: pass", "if x: y\nelse: v\nelif‸ z: w",
    "if x:\n    y\n  ‸else:\n    z", "if x:\n‸y", "if x: if‸ y: z", "if x: ‸;", "for f() ‸in y: pass",
    "for x in y‸", "del f()‸", "del‸", "del ‸*a", "assert x, y‸, z", "raise x‸, y", "raise from‸ y",
    "global a‸.b", "global a,‸", "import a,‸", "import ‸(a)", "from a import (‸*)", "from a import b,‸",
    "from a import (‸)", "from import‸ a", "from a.b import c‸.d", "pass ‸pass", "if x:\n    a\n   ‸b",
    "with a, b as c,‸: pass", "with (a as b, c)‸, d: pass", "with a :‸= b: pass", "for x in y :‸= z: pass",
    "for *‸*x in y: pass", "if True:\n    pass\n    if x:\n        pass\n  ‸y",
]  # fmt: skip

NO_DEFINITIONS = [
    "def f(a=1, /, b‸): pass", "def f(‸/): pass", "def f(a, /, ‸/): pass", "def f(*, ‸/): pass",
    "def f(*‸): pass", "def f(*,‸): pass", "def f(*, ‸**k): pass", "def f(**k, ‸a): pass",
    "def f(*a, *‸b): pass", "def f(a, ‸(b, c)): pass", "def f(a: ‸*Ts): pass", "def f(a,‸,b): pass",
    "def f(‸,): pass", "lambda *‸: 1", "lambda a: int‸: 1", "type X[‸] = int", "type X[T] = ‸*a", "type x‸",
    "type X‸: int", "class A‸", "@a\n‸x = 1", "@a‸", "@a‸, b\ndef f(): pass", "def f() -> a‸, b: pass",
    "def f()‸\n    pass", "def f‸:\n    pass", "def ‸(): pass", "class ‸(): pass", "class A[T‸=int]: pass",
    "def f[*Ts‸: int](): pass", "class A(x ‸for x in y): pass",
]  # fmt: skip

NO_MATCHES = [
    "match x:\n    case A(c=1, ‸2): pass", "match x:\n    case *a‸: pass", "match x:\n    case (*a‸): pass",
    "match x:\n    case a ‸+ b: pass", "match x:\n    case -‸a: pass", "match x:\n    ‸pass",
    "match x: ‸case 1: pass", "match x:\n    case 1:‸", "match *x‸:\n    case 1: pass", "match x‸",
    "case ‸1", "match x:\n case _‸():\n  pass", "match x:\n case _‸.a:\n  pass",
    "match x:\n case a as _‸:\n  pass", "match x:\n case {**_‸}:\n  pass", "match x:\n case 1+2‸:\n  pass",
    "match x:\n case 1j‸+2j:\n  pass", 'match x:\n    case {**rest, ‸"a": 1}: pass',
    "match x:\n    case {a‸: 1}: pass",
]  # fmt: skip

KNOWN_AS_TOO_MUCH = [
    " x", "x = 1\\\n", "if x: y\n\\\n else: z", "'\\N{no such character}'", 'f"{x y}"', 'f"{**x}"',
    'f"{lambda x: 1}"', 'f"{x" + "y}"', 'f"{(x]}"',
]  # fmt: skip
"""The header of the grammar says that these are accepted, which are not Python."""

KNOWN_AS_TOO_LITTLE = [
    "if x:\n    y\n  ", "if x:\n    y\n  # z", "x\u0302 = 1", "\U0001d431 = 1", "x\ry",
    "x\n  \x0cy", "\x0cx", "x \x0c+ y",
    'f"{ {1: 2}[1] }"',
    'f"{((((((x))))))}"', "f'{x:\\n}'",
]  # fmt: skip
"""And that these are rejected, which are Python."""


def _plain(texts: Iterable[str]) -> list[str]:
    return [text.replace("‸", "") for text in texts]


judged = pytest.mark.skipif(not reads_3_12(), reason="needs Python 3.12 or later beside this one")


@pytest.mark.parametrize("text", EXPRESSIONS + STRINGS + STATEMENTS + DEFINITIONS + MATCHES)
def test_accepted(text: str) -> None:
    assert_accepted("python", text)


@pytest.mark.parametrize("text", NO_EXPRESSIONS + NO_STRINGS + NO_STATEMENTS + NO_DEFINITIONS + NO_MATCHES)
def test_rejected(text: str) -> None:
    assert_rejected("python", text)


@judged
def test_python_has_the_same_verdicts() -> None:
    accepted = EXPRESSIONS + STRINGS + STATEMENTS + DEFINITIONS + MATCHES + KNOWN_AS_TOO_LITTLE
    assert [text for text in _plain(accepted) if not is_valid(text)] == []
    rejected = NO_EXPRESSIONS + NO_STRINGS + NO_STATEMENTS + NO_DEFINITIONS + NO_MATCHES + KNOWN_AS_TOO_MUCH
    assert [text for text in _plain(rejected) if is_valid(text)] == []


@pytest.mark.parametrize("text", KNOWN_AS_TOO_MUCH)
def test_known_as_too_much(text: str) -> None:
    assert_accepted("python", text)


@pytest.mark.parametrize("text", KNOWN_AS_TOO_LITTLE)
def test_known_as_too_little(text: str) -> None:
    assert not reader("python").accepts(text)


@pytest.mark.parametrize("text", EXPRESSIONS + STRINGS + STATEMENTS + DEFINITIONS + MATCHES)
def test_newlines(text: str) -> None:
    """A last one may be there or not, more may follow, and each may be of two characters."""
    for other in (text + "\n", text + "\n\n  # z\n\n", "\n# a\n" + text, (text + "\n").replace("\n", "\r\n")):
        assert reader("python").accepts(other), other


def test_statements_may_follow_one_another() -> None:
    whole = "\n".join(EXPRESSIONS + STATEMENTS + DEFINITIONS + MATCHES).replace("\x0c", "")
    assert reader("python").accepts(whole)
    assert reader("python").accepts("if x:\n" + "\n".join("    " + line for line in whole.split("\n")))


@judged
@pytest.mark.parametrize("seed", range(4))
def test_edited_texts_have_the_verdict_of_python(seed: int) -> None:
    texts = EXPRESSIONS + STATEMENTS + DEFINITIONS + MATCHES
    wrong = disagreements("python", texts, is_valid, seed=seed)
    assert [text for text, _ in wrong if not _is_known(text)] == []


def _is_known(text: str) -> bool:
    """Does it hold what the header names: white space or a backslash at its ends, stray returns and form feeds?"""
    stray = re.search(r"\r(?!\n)|(?<!\n)\f(?!\n)", text)
    return text[:1] in (" ", "\t") or text.endswith("\\\n") or stray is not None


def test_files_of_the_standard_library() -> None:
    packages = ("asyncio", "email", "importlib", "json", "multiprocessing", "unittest", "xml")
    files = list(drawn([standard_library() / name for name in packages], 30))
    assert len(files) == 30
    assert [name for name, text in files if not reader("python").accepts(text)] == []


@pytest.mark.parametrize(
    "text", ["x", "x, y\n", "\nx if y else z\n\n  ", "[x\n for y in z]", "lambda: (yield)"]
)
def test_expression(text: str) -> None:
    assert _expressions().accepts(text)


@pytest.mark.parametrize("text", ["", "x = 1", "*x", "x\ny", "x;", "x := 1", "yield"])
def test_no_expression(text: str) -> None:
    assert not _expressions().accepts(text)


@functools.cache
def _expressions() -> Reader:
    return Reader(sg.grammar("python", start="eval_input"))
