"""Monitors of programs: what they make of a server's answers, and real servers in a small project."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

import structgen as sg
from structgen.errors import LanguageServerMissing, OptionError
from structgen.matcher import open_matcher
from structgen.monitors import ArgumentMonitor, DiagnosticsMonitor, ImportMonitor, MemberMonitor, monitored
from structgen.monitors.language_server import (
    Analyser,
    Completion,
    Completions,
    Diagnostic,
    Health,
    Parameter,
    Signature,
    Signatures,
    analyser,
)

from .test_answers import is_whole, read

BYTES = sg.Vocabulary.of_bytes()


class Canned:
    """An analyser with fixed results: the names after the end of a text, signatures of callees, complaints."""

    name = "canned"
    health = Health("canned")

    def __init__(self, **known: Any) -> None:
        self.known, self.asked = known, []  # type: ignore[var-annotated]

    def completions(self, path: Path, text: str, offset: int) -> Future[Completions | None]:
        self.asked.append(text[:offset])
        found = next((some for end, some in self.known.items() if text[:offset].endswith(end)), None)
        if not isinstance(found, Completions | None):
            found = Completions(tuple(Completion(name) for name in found))
        return _done(found)

    def signatures(self, path: Path, text: str, offset: int) -> Future[Signatures | None]:
        self.asked.append(text[:offset])
        callee = text[: offset - 1].split()[-1].split("(")[-1].split(".")[-1]
        found = self.known.get(callee)
        return _done(None if found is None else Signatures(tuple(found)))

    def diagnostics(self, path: Path, text: str) -> Future[Sequence[Diagnostic] | None]:
        self.asked.append(text)
        found = [
            Diagnostic(start, start + len(word), f"no {word}", "error", "name")
            for word in self.known.get("wrong", ())
            if (start := text.find(word)) >= 0
        ]
        return _done(None if self.known.get("broken") else tuple(found))

    def close(self) -> None:
        pass


def _done(result: Any) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_result(result)
    return future


def signature(*parameters: str) -> Signature:
    """Return the signature of parameters written as ``a``, ``b=`` (with a default), ``*c``, ``**d``, ``/`` or ``*``."""
    found: list[Parameter] = []
    kind: Any = "positional"
    for one in parameters:
        if one == "/":
            found = [Parameter(old.name, "positional-only", old.has_default) for old in found]
        elif one == "*":
            kind = "keyword"
        elif one.startswith("**"):
            found.append(Parameter(one[2:], "var-keyword"))
        elif one.startswith("*"):
            found.append(Parameter(one[1:], "var-positional"))
            kind = "keyword"
        else:
            found.append(Parameter(one.rstrip("="), kind, one.endswith("=")))
    return Signature(str(parameters), tuple(found))


def members(analyser: Any, **options: Any) -> Any:
    return monitored(None, MemberMonitor(analyser), language="python", **options)


def test_a_new_member_of_self_may_be_made() -> None:
    known = Canned(**{"self.": ["size"], "other.": ["size"]})
    constraint = members(known)
    for right in (
        "self.size + 1",
        "self.name = 1\n",
        "self.name: int = 1\n",
        "self.name: int\n",
        "x = self.size\n",
    ):
        assert is_whole(constraint, right), right
    for wrong in ("self.name == 1", "self.name + 1", "self.name()", "x = self.name = 1", "other.name = 1"):
        assert not is_whole(constraint, wrong), wrong


def test_members_unknown_to_the_server_are_unconstrained() -> None:
    some = Completions((Completion("size"),), is_incomplete=True)
    for known in (None, some, Completions(())):
        assert is_whole(members(Canned(**{"x.": known})), "x.anything ")
    marked = Completions(
        (Completion("size"), Completion("far", adds_import=True), Completion("if", "keyword"))
    )
    assert read(members(Canned(**{"x.": marked})), "x.far") == "x."


def test_a_receiver_is_queried_once_in_a_statement() -> None:
    known = Canned(**{"x.": ["a", "b"]})
    constraint = members(known)
    assert is_whole(constraint, "f(x.a, x.b, x.a)\n")
    assert len(known.asked) == 1
    assert is_whole(constraint, "y = x.a if x.b else x.a\n")
    assert len(known.asked) == 3, "a receiver that an expression narrows is queried again"
    assert read(constraint, "f(x.a, x.c") == "f(x.a, x."
    assert len(known.asked) == 3


@pytest.mark.parametrize(
    ("parameters", "right", "wrong"),
    [
        (["a", "b="], ["f(1)", "f(1, 2)", "f(a=1)", "f(1, b=2)", "f(b=1, a=2)", "f(1, 2,)", "f(x == 1)"],
         ["f()", "f(1, 2, 3)", "f(b=1)", "f(c=1)", "f(1, a=2)", "f(1, c =2)", "f(a=1, a=2)", "f(a=1, 2)"]),
        ([], ["f()", "f( )", "f(*x)"], ["f(1)", "f(a=1)"]),
        (["*a"], ["f()", "f(1, 2, 3)", "f(g(1, 2), [3, 4])"], ["f(a=1)"]),
        (["a", "**b"], ["f(1, c=2, d=3)", "f(c=2, a=1)"], ["f()", "f(c=1)", "f(1, 2)"]),
        (["a", "/", "b"], ["f(1, 2)", "f(1, b=2)"], ["f(a=1", "f(1)"]),
        (["*", "a", "b="], ["f(a=1)", "f(b=1, a=(2, 3))", "f(a=1, **x)"], ["f(1)", "f()", "f(b=1)"]),
        (["a"], ["f(*x)", "f(**x)", "f(1, *x)", "f(lambda y: y)", "f(\n    1,\n)", "f('a=b')", "f(x if y else z)"],
         ["f(1, y)"]),
    ],
)  # fmt: skip
def test_arguments_fit_the_signature(parameters: list[str], right: list[str], wrong: list[str]) -> None:
    known = Canned(f=[signature(*parameters)])
    constraint = monitored(None, ArgumentMonitor(known), language="python")  # type: ignore[arg-type]
    for text in right:
        assert is_whole(constraint, text + "\n"), text
    for text in wrong:
        assert not is_whole(constraint, text + "\n"), text
    assert is_whole(constraint, "g(anything, at=all)\n"), "an unknown call is free"


def test_arguments_may_fit_any_overload() -> None:
    known = Canned(f=[signature("a"), signature("a", "b", "*", "c")])
    constraint = monitored(None, ArgumentMonitor(known), language="python")  # type: ignore[arg-type]
    for text, is_right in [("f(1)", True), ("f(1, 2, c=3)", True), ("f(1, 2, 3)", False), ("f()", False)]:
        assert is_whole(constraint, text) == is_right, text
    unknown = Canned(f=[signature("a"), Signature("f(...)", (), is_open=True)])
    assert is_whole(monitored(None, ArgumentMonitor(unknown), language="python"), "f(1, 2)")  # type: ignore[arg-type]


def test_arguments_without_names() -> None:
    known = Canned(f=[signature("a", "b=")])
    constraint = monitored(None, ArgumentMonitor(known, keywords=False), language="typescript")  # type: ignore[arg-type]
    for text, is_right in [
        ("f(1)", True),
        ("f(x = 1, 2)", True),
        ("f(1, 2, ...x)", True),
        ("f(() => { g(1, 2, 3); })", True),
        ("f()", False),
        ("f(1, 2, 3)", False),
    ]:
        assert is_whole(constraint, text) == is_right, text


def test_imports() -> None:
    known = Canned(
        **{"from ": ["shop"], "shop.": ["cart"], "cart import ": ["Cart", "Item"], "import ": ["shop"]}
    )
    constraint = monitored(None, ImportMonitor(known), language="python")  # type: ignore[arg-type]
    for text, is_right in [
        ("from shop.cart import Cart, x\n", True),
        ("from shop.cart import (Cart)\n", True),
        ("from . import x\n", True),
        ("import shop as s\n", True),
        ("from store import x\n", False),
        ("from shop.cart import Basket\n", False),
        ("import os\n", False),
    ]:
        assert is_whole(constraint, text) == is_right, text


def test_faults_are_those_of_the_generated_text() -> None:
    known = Canned(wrong=["bad", "old"])
    constraint = monitored(
        None,
        DiagnosticsMonitor(known),
        language="python",
        before="old = 1\n",
        after="\nold()\n",  # type: ignore[arg-type]
    )
    matcher = open_matcher(constraint, BYTES)
    for byte in b"x = bad\n":
        matcher.advance(byte)
    assert matcher.first_fault() == len("x = ")
    assert matcher.report.left == ("no bad",)
    broken = monitored(None, DiagnosticsMonitor(Canned(broken=True)))  # type: ignore[arg-type]
    matcher = open_matcher(broken, BYTES)
    matcher.advance(ord("x"))
    assert matcher.first_fault() is None
    assert matcher.report.unchecked


def test_a_missing_server_names_what_installs_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(OptionError, match="project"):
        sg.code("python", monitors=["members"])
    with pytest.raises(OptionError, match="monitors holds"):
        sg.code("python", project=tmp_path, monitors=["types"])
    with pytest.raises(OptionError, match="no folder"):
        sg.code("python", project=tmp_path / "nowhere")
    monkeypatch.setenv("PATH", str(tmp_path))
    if shutil.which("tsgo") is None:
        with pytest.raises(LanguageServerMissing, match="npm install"):
            sg.code("typescript", project=tmp_path)
    assert is_whole(sg.code("python", monitors=[]), "x.anything(at='all')\n")
    for wrong, said in (
        ({"monitors": None}, "no language server to query"),
        ({"monitors": "members", "project": tmp_path}, "Write a list"),
        ({"file": "main.txt", "project": tmp_path}, "no python"),
        ({"file": 3, "project": tmp_path}, "file is 3"),
        ({"file": "../main.py", "project": tmp_path}, "not in the project"),
        ({"file": "/etc/main.py", "project": tmp_path}, "not in the project"),
    ):
        with pytest.raises(OptionError, match=said):
            sg.code("python", **wrong)  # type: ignore[arg-type]


SHOP = """
from dataclasses import dataclass
from enum import Enum


class Colour(Enum):
    RED = 1
    GREEN = 2


@dataclass
class Item:
    title: str
    price: float
    colour: Colour = Colour.RED

    def reduced(self, percent: float, *, floor: float = 0.0) -> "Item":
        return self


class Cart:
    def __init__(self) -> None:
        self.items: list[Item] = []

    def add(self, item: Item) -> None: ...
"""
BEFORE = """from shop import Cart, Colour, Item


def fill(cart: Cart, item: Item) -> None:
    """
RIGHT = [
    "cart.add(item)",
    "cart.items[0].price += 1",
    "cart.items.append(item.reduced(5, floor=1.0))",
    "item.colour = Colour.GREEN",
    "Item('a', 1.0, colour=Colour.RED)",
    "print([x.title.upper() for x in cart.items])",
    "item.reduced(percent=3).reduced(1)",
]
WRONG = [
    ("cart.insert(item)", "cart."),
    ("cart.items[0].prize", "cart.items[0].pri"),
    ("item.colour = Colour.BLUE", "item.colour = Colour."),
    ("item.reduced(5, flor=1.0)", "item.reduced(5, flo"),
    ("item.reduced()", "item.reduced("),
    ("item.reduced(1, 2)", "item.reduced(1, "),
    ("cart.add()", "cart.add("),
    ("item.title.upcase()", "item.title.up"),
]


@pytest.fixture(scope="module", params=["ty", "zuban", "jedi"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Analyser]:
    folder = tmp_path_factory.mktemp("project")
    (folder / "shop.py").write_text(SHOP)
    try:
        found = analyser("python", folder, request.param, timeout=600.0, warm_up=600.0)
    except LanguageServerMissing as error:
        pytest.skip(str(error).splitlines()[0])
    yield found
    found.close()


def _code(server: Analyser, **options: Any) -> Any:
    return sg.code("python", server=server, file="main.py", before=BEFORE, patience=600.0, **options)


@pytest.mark.parametrize("right", RIGHT)
def test_known_members_are_generated(server: Analyser, right: str) -> None:
    constraint = _code(server, monitors=["members", "arguments", "imports"])
    assert read(constraint, right + "\n") == right + "\n"


@pytest.mark.parametrize(("wrong", "taken"), WRONG)
def test_wrong_members_are_not_generated(server: Analyser, wrong: str, taken: str) -> None:
    if server.name == "zuban" and wrong == "item.reduced(1, 2)":
        pytest.skip("zuban leaves the star out of signatures")
    found = read(_code(server, monitors=["members", "arguments", "imports"]), wrong + "\n")
    assert found != wrong + "\n"
    assert found.startswith(taken)


def test_a_server_judges(server: Analyser) -> None:
    if server.name == "jedi":
        pytest.skip("jedi reports no types")
    constraint = _code(server, monitors=["diagnostics"])
    for text, place in [
        ("cart.add(item)\n", None),
        ("cart.add(1)\n", 9),
        ("x = 1\n    item.colour = nothing\n", 24),
    ]:
        matcher = open_matcher(constraint, BYTES)
        for byte in text.encode():
            assert matcher.advance(byte)
        assert matcher.first_fault() == place
