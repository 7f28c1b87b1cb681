"""The real servers, where they are installed: types of the project in unsaved text, and what unknown looks like."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from structgen.errors import LanguageServerMissing, OptionError
from structgen.monitors.language_server import Analyser, InProcess, LanguageServer, analyser

from .conftest import eventually

SHAPES = """
from __future__ import annotations
import enum
from typing import Any
class Colour(enum.Enum):
    RED = 1
    GREEN = 2
class Base:
    def __init__(self) -> None:
        self.inherited = 1
        self._private = 2
    def area(self) -> float: return 0.0
class Square(Base):
    side: int = 3
    def scale(self, by: float, other: int = 2, *args: int, exact: bool = False) -> Square: return self
def anything() -> Any: ...
"""
SHAPES_TS = """
export enum Colour { Red, Green }
export class Base { inherited = 1; private hidden = 2; area(): number { return 0 } }
export class Square extends Base {
  side = 3; "with space" = 1;
  scale(by: number, other?: string, ...rest: number[]): Square { return this }
}
export function anything(): any { return 0 }
"""
PYTHON = "from shapes import Square, Base, Colour, anything\nx = Square()\n"
TYPESCRIPT = 'import { Square, Base, Colour, anything } from "./shapes.js";\nconst x = new Square();\n'
SLOW = {"timeout": 60.0, "warm_up": 60.0}


@pytest.fixture(scope="module", params=["ty", "zuban", "pyright", "jedi"])
def python(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Analyser]:
    folder = tmp_path_factory.mktemp("project")
    (folder / "shapes.py").write_text(SHAPES)
    (folder / "many.py").write_text(
        "".join(f"name_{number} = 1\nother_{number} = 1\n" for number in range(600))
    )
    try:
        found = analyser("python", folder, request.param, **({} if request.param == "jedi" else SLOW))
    except LanguageServerMissing as missing:
        pytest.skip(str(missing))
    yield found
    found.close()


@pytest.fixture(scope="module")
def typescript(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Analyser]:
    folder = tmp_path_factory.mktemp("project")
    (folder / "shapes.ts").write_text(SHAPES_TS)
    (folder / "tsconfig.json").write_text('{"compilerOptions": {"strict": true, "module": "nodenext"}}')
    try:
        found = analyser("typescript", folder, **SLOW)
    except LanguageServerMissing as missing:
        pytest.skip(str(missing))
    yield found
    found.close()


def names(server: Analyser, text: str, path: str = "new.py") -> frozenset[str] | None:
    found = server.completions(Path(path), text, len(text)).result()
    return None if found is None else found.names()


@pytest.mark.parametrize(
    ("end", "some", "none"),
    [
        ("x.", {"inherited", "_private", "area", "side", "scale", "__eq__"}, {"Square", "x"}),
        ("x.s", {"side", "scale"}, {"area"}),
        ("Colour.", {"RED", "GREEN"}, {"side"}),
        ("print(x.scale(1).", {"side"}, {"print"}),
        (
            "class A:\n    def __init__(self):\n        self.own = 1\n    def f(self):\n        self.",
            {"own", "f"},
            {"x"},
        ),
        ("s = '\U0001f600'; x.", {"side"}, {"x"}),
        ("if True:\r\n    x.", {"side"}, {"x"}),
    ],
)
def test_python_members(python: Analyser, end: str, some: set[str], none: set[str]) -> None:
    found = names(python, PYTHON + end)
    assert found is not None and some <= found and not none & found


@pytest.mark.parametrize(
    "end",
    [
        "anything().",
        "nope.",
        "def f(y):\n    y.",
        "import missing_module\nmissing_module.",
        "z = 'a.",
        "z = 1.",
    ],
)
def test_unknown_python_receivers(python: Analyser, end: str) -> None:
    found = python.completions(Path("new.py"), PYTHON + end, len(PYTHON + end)).result()
    assert found is None


def test_python_names_of_imports(python: Analyser) -> None:
    assert names(python, "from shapes import Squ") == {"Square"}
    found = names(python, PYTHON + "Squ")
    assert found is not None and "Square" in found and all(name.startswith("Squ") for name in found)


def test_a_long_list_is_whole_or_says_that_it_is_not(python: Analyser) -> None:
    text = "import many\nmany."
    found = python.completions(Path("new.py"), text, len(text)).result()
    assert found is not None
    every = {f"{word}_{number}" for word in ("name", "other") for number in range(600)}
    assert every <= found.names() or found.is_incomplete


def test_changed_files_are_read_after_a_notification(python: Analyser) -> None:
    assert isinstance(python, (LanguageServer, InProcess))
    text = "import later\nlater."
    assert "early" not in (names(python, text) or ())
    folder = python.project
    for content in ("early = 1\n", "early = 1\nthe_second_time = 2\n"):
        (folder / "later.py").write_text(content)
        if isinstance(python, LanguageServer):
            python.files_changed([Path("later.py")])
        expected = {line.split()[0] for line in content.splitlines()}
        assert eventually(lambda expected=expected: expected <= (names(python, text) or set()))  # type: ignore[misc]


def test_the_packages_of_this_python_are_seen(python: Analyser) -> None:
    text = "import hypothesis\nhypothesis."
    found = names(python, text)
    if found is None and sys.prefix == sys.base_prefix:
        pytest.skip("this Python is in no virtual environment")
    assert found is not None and "given" in found


def test_python_signatures(python: Analyser) -> None:
    text = PYTHON + "x.scale(1,"
    found = python.signatures(Path("new.py"), text, len(text)).result()
    assert found is not None and found.active_parameter == 1
    parameters = found.items[0].parameters
    assert [one.name for one in parameters] == ["by", "other", "args", "exact"]
    assert [one.has_default for one in parameters] == [False, True, False, True]
    assert [one.kind for one in parameters] == ["positional", "positional", "var-positional", "keyword"]
    unknown = PYTHON + "nope("
    assert python.signatures(Path("new.py"), unknown, len(unknown)).result() is None


def test_python_diagnostics(python: Analyser) -> None:
    text = PYTHON + "s = '\U0001f600'; x.nope\n"
    found = python.diagnostics(Path("new.py"), text).result()
    assert found is not None
    if python.name != "jedi":
        (one,) = (one for one in found if "nope" in one.message)
        assert one.severity == "error" and text[one.start : one.end].endswith("nope")
        good = python.diagnostics(Path("new.py"), PYTHON).result()
        assert good is not None and not [one for one in good if one.severity == "error"]
    broken = python.diagnostics(Path("new.py"), "def f(:\n").result()
    assert broken and broken[0].severity == "error"


@pytest.mark.parametrize(
    ("end", "some", "none"),
    [
        ("x.", {"inherited", "area", "side", "scale"}, {"hidden", "x", "with space"}),
        ("x.s", {"side", "scale"}, {"area"}),
        ("Colour.", {"Red", "Green"}, {"side"}),
        ("const s = '\U0001f600'; x.", {"side"}, {"x"}),
        ("class A { #hash = 1; f() { this.", {"#hash", "f"}, {"x"}),
    ],
)
def test_typescript_members(typescript: Analyser, end: str, some: set[str], none: set[str]) -> None:
    found = names(typescript, TYPESCRIPT + end, "new.ts")
    assert found is not None and some <= found and not none & found


def test_typescript_marks_what_needs_more_than_typing(typescript: Analyser) -> None:
    text = TYPESCRIPT + "function f(y: Square | null) { return y."
    found = typescript.completions(Path("new.ts"), text, len(text)).result()
    assert found is not None and found.items and all(item.changes_before for item in found.items)
    assert names(typescript, TYPESCRIPT + "function f(y: Square | null) { return y?.", "new.ts") or set() >= {
        "side"
    }


@pytest.mark.parametrize("end", ["anything().", "nope.", "function f(y) { y.", "const s = 'x."])
def test_unknown_typescript_receivers(typescript: Analyser, end: str) -> None:
    assert names(typescript, TYPESCRIPT + end, "new.ts") is None


def test_javascript_words_are_not_members(typescript: Analyser) -> None:
    found = names(typescript, "const some_word = {a: 1};\nsome_word.", "new.js")
    assert found == {"a"}
    assert names(typescript, "function f(y) { const some_word = 1; y.", "new.js") is None


def test_typescript_signatures_and_diagnostics(typescript: Analyser) -> None:
    text = TYPESCRIPT + "x.scale(1, "
    found = typescript.signatures(Path("new.ts"), text, len(text)).result()
    assert found is not None and found.active_parameter == 1
    assert [one.kind for one in found.items[0].parameters] == ["positional", "positional", "var-positional"]
    assert [one.has_default for one in found.items[0].parameters] == [False, True, False]
    text = TYPESCRIPT + "x.nope;\n"
    (one,) = (
        one for one in typescript.diagnostics(Path("new.ts"), text).result() or () if "nope" in one.message
    )
    assert (text[one.start : one.end], one.code) == ("nope", "2339")


def test_jedi_after_its_end(tmp_path: Path) -> None:
    pytest.importorskip("jedi")
    with_jedi = InProcess(tmp_path)
    assert isinstance(with_jedi, Analyser)
    with_jedi.close()
    with_jedi.close()
    assert with_jedi.completions(Path("a.py"), "x.", 2).result() is None
    assert with_jedi.health.faults == {"closed": 1}
    with pytest.raises(OptionError):
        with_jedi.completions(Path("a.py"), "x.", 3)


def test_an_exception_of_jedi_gives_no_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("jedi")
    with_jedi = InProcess(tmp_path, timeout=0.0)
    monkeypatch.setattr(with_jedi, "_script", lambda *_: 1 / 0)
    assert with_jedi.diagnostics(Path("a.py"), "x").result() is None
    with_jedi.close()
    assert with_jedi.health.failed == 1 and "ZeroDivisionError" in str(with_jedi.health)
    assert with_jedi.health.faults == {"crash": 1, "late": 1}
