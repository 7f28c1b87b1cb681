"""Parameters out of labels, as ty, zuban, pyright and tsgo write them."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from structgen.monitors.language_server.analysis import Parameter
from structgen.monitors.language_server.signatures import Dialect, read_label, read_signatures

LABEL = "(by: float, /, other: int = 2, *args: int, exact: bool = False, **kw: Any) -> Square"


def test_python_kinds() -> None:
    assert read_label(LABEL, "python").parameters == (
        Parameter("by", "positional-only", False, "float"),
        Parameter("other", "positional", True, "int"),
        Parameter("args", "var-positional", False, "int"),
        Parameter("exact", "keyword", True, "bool"),
        Parameter("kw", "var-keyword", False, "Any"),
    )


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        ("() -> None", []),
        ("f(a, *, b)", [("a", "positional", False), ("b", "keyword", False)]),
        (
            "(a: Any, b: Any =, c: Any) -> A",
            [("a", "positional", False), ("b", "positional", True), ("c", "positional", False)],
        ),
        ('(sep: str | None = ",)", end="\\")")', [("sep", "positional", True), ("end", "positional", True)]),
        (
            "(f: Callable[[int, str], bool], d: dict[str, int] = {'a': 1, 'b': (2, 3)})",
            [("f", "positional", False), ("d", "positional", True)],
        ),
        (
            "(f: (x: int, /) -> str, g: Literal['=', ','])",
            [("f", "positional", False), ("g", "positional", False)],
        ),
        ("def f[T](x: T) -> T", [("x", "positional", False)]),
    ],
)
def test_python_labels(label: str, expected: list[tuple[str, str, bool]]) -> None:
    found = read_label(label, "python")
    assert not found.is_open
    assert [(one.name, one.kind, one.has_default) for one in found.parameters] == expected


NAMES = st.lists(st.sampled_from("abcdefgh"), unique=True, min_size=0, max_size=8)


@given(NAMES, st.data())
def test_python_labels_are_read_as_python_reads_them(names: list[str], data: st.DataObject) -> None:
    kinds = sorted(
        data.draw(
            st.lists(st.sampled_from(list(inspect._ParameterKind)), min_size=len(names), max_size=len(names))
        )
    )
    once = {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}
    parameters: list[inspect.Parameter] = []
    has_default = False
    for name, kind in zip(names, kinds, strict=True):
        if kind in once and any(other.kind == kind for other in parameters):
            continue
        has_default = kind not in once and (data.draw(st.booleans()) or (has_default and kind < 2))
        parameters.append(
            inspect.Parameter(name, kind, default=(1, ")") if has_default else inspect.Parameter.empty)
        )
    found = read_label(str(inspect.Signature(parameters)), "python").parameters
    words = ["positional-only", "positional", "var-positional", "keyword", "var-keyword"]
    assert [(one.name, one.kind, one.has_default) for one in found] == [
        (one.name, words[one.kind], one.default is not inspect.Parameter.empty) for one in parameters
    ]


def test_typescript_kinds() -> None:
    label = "scale<T extends (a: B) => C>(by: number, other?: string, ...rest: number[]): Square"
    assert read_label(label, "typescript").parameters == (
        Parameter("by", "positional", False, "number"),
        Parameter("other", "positional", True, "string"),
        Parameter("rest", "var-positional", False, "number[]"),
    )


def test_typescript_patterns_and_functions() -> None:
    second = "{ c, d }: { c: (x: number) => void; d: string; }"
    label = f"g([a, b]: [number, string], {second}, cb?: (x: number, y?: string) => void): void"
    found = read_label(label, "typescript").parameters
    assert [(one.name, one.has_default) for one in found] == [
        ("[a, b]", False),
        ("{ c, d }", False),
        ("cb", True),
    ]
    assert found[2].annotation == "(x: number, y?: string) => void"


@pytest.mark.parametrize("label", ["(...) -> Unknown", "nothing here", "(a, b", "(1, 2)", ""])
def test_signatures_that_cannot_be_parsed_are_open(label: str) -> None:
    found = read_label(label, "python")
    assert found.is_open and found.parameters == ()


@pytest.mark.parametrize(
    ("parameters", "active", "expected"),
    [
        ([[1, 10], [15, 29], [31, 41], [43, 62], [64, 73]], 1, 1),  # ty: without the marks
        ([[1, 10], [12, 13], [15, 29], [31, 41], [43, 62], [64, 73]], 2, 1),  # pyright: with them
        ([[1, 3], [15, 20], [31, 35], [43, 48], [64, 66]], 3, 3),  # zuban: names alone
        (["by: float", "other: int = 2", "*args: int"], 2, 2),
        ([[1, 10], [15, 29]], 7, None),
        ([[1, 10]], -1, None),
        ([], 0, 0),
    ],
)
def test_the_active_parameter_is_found_by_its_place(
    parameters: list[Any], active: int, expected: int | None
) -> None:
    item = {"label": LABEL, "parameters": [{"label": one} for one in parameters]}
    found = read_signatures({"signatures": [item], "activeSignature": 0, "activeParameter": active}, "python")
    assert found is not None and found.active_parameter == expected
    item["activeParameter"] = active
    found = read_signatures({"signatures": [item], "activeParameter": 99}, "python")
    assert found is not None and found.active_parameter == expected


def test_overloads_keep_their_order() -> None:
    items = [
        {"label": "h(a: string): number", "parameters": []},
        {"label": "h(b?: string): string", "parameters": []},
    ]
    found = read_signatures({"signatures": items, "activeSignature": 1}, "typescript")
    assert found is not None and found.active == 1 and found.items[1].parameters[0].name == "b"


@pytest.mark.parametrize(
    ("result", "dialect"),
    [
        (None, "python"),
        ({"signatures": []}, "python"),
        ({"signatures": [{"label": "(...) -> Unknown", "parameters": []}]}, "python"),
        ({"signatures": [{"label": "() -> Any"}]}, "python"),
    ],
)
def test_unknown_calls_have_no_signatures(result: Any, dialect: Dialect) -> None:
    assert read_signatures(result, dialect) is None


def test_other_languages_have_what_the_server_lists() -> None:
    item = {"label": "f(int a, char b)", "parameters": [{"label": [2, 7]}, {"label": "char b"}]}
    found = read_signatures({"signatures": [item], "activeParameter": 1}, "other")
    assert found is not None and [one.name for one in found.items[0].parameters] == ["int a", "char b"]
    assert found.active_parameter == 1


@given(st.text(alphabet="ab(),:=[]{}<>'\"*/.? -", max_size=40))
def test_no_label_crashes_the_reader(label: str) -> None:
    for dialect in ("python", "typescript"):
        read_label(label, dialect)
