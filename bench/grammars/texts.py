"""Independent texts for the grammar benchmark, from public packages.

Texts that a benchmark's author writes may favour an engine; these are taken unchanged. A text is timed only if all
engines accept it.

Invariant: packages are pinned and the order is seeded, so that two runs see the same texts. Cost: the network once for
each package (`bench.corpora`), then seconds to read files.
"""

from __future__ import annotations

import ast
import random
import re
import sysconfig
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

from bench.corpora import arithmetic_files, json_files, npm, pypi

__all__ = ["candidates"]

_SHORTEST = {"json": 60, "sql": 40, "python": 40, "cpp": 60, "arithmetic": 40}
_LONGEST = 2000
"""Characters of a text."""


def candidates(language: str, characters: int, seed: int = 0) -> list[str]:
    """Texts of a language in an order drawn with `seed`, with about as many characters together."""
    texts = sorted({text for text in _SOURCES[language]() if _SHORTEST[language] <= len(text) <= _LONGEST})
    random.Random(f"{seed} {language}").shuffle(texts)
    chosen, total = [], 0
    for text in texts:
        if total >= characters:
            break
        chosen.append(text)
        total += len(text)
    return chosen


def _json() -> Iterator[str]:
    """Files of public packages."""
    for _, text in json_files.files():
        yield text.strip()


def _arithmetic() -> Iterator[str]:
    """Expressions in the source of scientific packages."""
    for _, text in arithmetic_files.files():
        yield text


def _sql() -> Iterator[str]:
    """sqlglot's fixtures: statements one a line, and the TPC-H and TPC-DS queries without their comments."""
    (package,) = pypi("sqlglot==27.8.0", source=True).glob("sqlglot-*")
    fixtures = package / "tests" / "fixtures"
    for line in (fixtures / "identity.sql").read_text("utf-8").splitlines():
        if re.match(r"(SELECT|WITH|INSERT|UPDATE|DELETE|CREATE|DROP|VALUES|\()\b", line):
            yield line
    for path in sorted(fixtures.glob("optimizer/tpc-*/*.sql")):
        text = re.sub(r"--[^\n]*", "", path.read_text("utf-8"))
        yield from (statement.strip() for statement in text.split(";"))


def _python() -> Iterator[str]:
    """Runs of simple statements on lines of their own in the standard library, without their indentation."""
    folder = Path(sysconfig.get_path("stdlib"))
    for path in sorted(folder.glob("*.py")):
        source = path.read_text("utf-8", errors="replace")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            tree = ast.parse(source)
        lines = source.splitlines()
        for node in ast.walk(tree):
            for body in (getattr(node, field, None) for field in ("body", "orelse", "finalbody")):
                if isinstance(body, list):
                    yield from _runs(body, lines)


_BLOCKS: tuple[type[ast.stmt], ...] = (
    ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.If, ast.For, ast.AsyncFor, ast.While, ast.With,
    ast.AsyncWith, ast.Try, ast.TryStar, ast.Match,
)  # fmt: skip


def _runs(body: list[ast.stmt], lines: list[str]) -> Iterator[str]:
    run: list[str] = []
    previous = -1
    for statement in body:
        is_simple = not isinstance(statement, _BLOCKS) and statement.lineno == statement.end_lineno
        line = lines[statement.lineno - 1].strip()
        is_simple &= lines[statement.lineno - 1][: statement.col_offset].isspace()
        if is_simple and line.isascii() and "#" not in line and ";" not in line:
            if run and statement.lineno != previous + 1:
                yield "\n".join(run)
                run = []
            run.append(line)
            previous = statement.lineno
        elif run:
            yield "\n".join(run)
            run = []
    if run:
        yield "\n".join(run)


def _cpp() -> Iterator[str]:
    """Function definitions at the left margin of C++ files, with comments taken out."""
    folders = [npm("leveldown@6.1.1"), npm("node-addon-api@8.2.1")]
    for folder in folders:
        for path in sorted((*folder.rglob("*.cc"), *folder.rglob("*-inl.h"))):
            source = path.read_text("utf-8", errors="replace")
            for match in re.finditer(r"^(?=[a-z])[^\n#;{}]+(\n[^\n#;{}]+)*\{\n.*?^\}$", source, re.M | re.S):
                text = re.sub(r"[ \t]*//[^\n]*", "", match[0])
                if "#" not in text and text.isascii():
                    yield text


_SOURCES: dict[str, Callable[[], Iterator[str]]] = {
    "json": _json,
    "sql": _sql,
    "python": _python,
    "cpp": _cpp,
    "arithmetic": _arithmetic,
}
