"""Texts with regions to cut out: functions of Python and C++, and JSON values of real schemas.

Our own grammars accept every source, so a fault in a filled text comes from what was filled in.
"""

from __future__ import annotations

import ast
import gzip
import importlib.util
import json
import random
import re
import shutil
import subprocess
import textwrap
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jsonschema_rs

import structgen as sg
from bench.corpora import cpp
from structgen.errors import StructgenError

from .train_json import is_held_out

__all__ = ["LANGUAGES", "Source"]

_MODULES = (
    "textwrap", "heapq", "bisect", "fnmatch", "shlex", "string", "statistics", "colorsys", "calendar", "base64",
    "copy", "difflib", "glob", "json.decoder", "json.encoder", "keyword", "linecache", "posixpath", "pprint", "quopri",
    "random", "reprlib", "sched", "stat", "token", "tokenize", "urllib.parse", "zipapp",
)  # fmt: skip
_LINES = range(4, 15)
_OWN = tuple((Path(__file__).parent / "functions.cpp").read_text().replace("}\n\n", "}\n\0").split("\0"))
_PARTS = (
    r"(?<=\()([^()\n;]{3,60})(?=\))",
    r"(?<== )([^;\n{}]{2,60})(?=;)",
    r"(?<=return )([^;\n{}]{1,60})(?=;)",
    r"^ +([^{}\n]{4,80};)$",
)
_FUNCTION = re.compile(
    r"^(?:static |inline |constexpr )*\w[\w:<>*& ]* \w+\([^;{}]*\) (?:const )?\{\n(?:.*\n)*?^\}\n", re.M
)
_SYNTAX = re.compile(r"error: (expected|stray|missing terminating|unterminated|extra|invalid (digit|suffix))")
_VALUE = re.compile(
    r'(?<=": )("(?:[^"\\]|\\.)*"|-?[0-9][0-9.eE+-]*|true|false|null|\[[^\[\]{}]*\]|\{[^\[\]{}]*\})'
)
Region = tuple[int, int]


class Source(NamedTuple):
    """A text with what may be cut out of it, and who says whether it is right."""

    text: str
    regions: Sequence[Region]
    within: sg.Constraint
    is_valid: Callable[[str], bool]
    compiles: Callable[[str], bool | None] = lambda text: None
    """A compiler's verdict, or None for a text that it cannot read."""


# -- Python


def _python(count: int, data: Path | None) -> Iterator[Source]:
    """Functions of the standard library, as they are at the top of a file, without their documentation."""
    sources = []
    for name in _MODULES:
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
            continue
        with open(spec.origin, encoding="utf-8") as file:
            whole = file.read()
        for node in ast.walk(ast.parse(whole)):
            if not isinstance(node, ast.FunctionDef) or node.decorator_list:
                continue
            source = textwrap.dedent(ast.get_source_segment(whole, node, padded=True) or "")
            if ast.get_docstring(node) is not None and len(node.body) > 1:
                lines = source.split("\n")
                first = node.body[0]
                del lines[first.lineno - node.lineno : (first.end_lineno or first.lineno) - node.lineno + 1]
                source = "\n".join(lines)
            if len(source.split("\n")) in _LINES and "{{" not in source and "\t" not in source:
                sources.append(source.rstrip("\n") + "\n")
    random.Random(0).shuffle(sources)
    accepted = 0
    python = sg.grammar("python")
    indented = python.indented_by("    ")
    bytes_ = sg.Vocabulary.of_bytes()
    for source in sources:
        if accepted == count:
            return
        if _parses(source) and sg.Matcher(indented, bytes_).explain(source).ok:
            accepted += 1
            yield Source(source, _python_regions(source), python, _parses)


def _parses(text: str) -> bool:
    try:
        ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return False
    return True


def _python_regions(source: str) -> list[Region]:
    starts = [0]
    for line in source.split("\n"):
        starts.append(starts[-1] + len(line.encode()) + 1)
    data = source.encode()

    def offset_of(line: int, column: int) -> int:
        return len(data[: starts[line - 1] + column].decode())

    spans = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(
            node, ast.Return | ast.Assign | ast.Expr | ast.Call | ast.BinOp | ast.Compare | ast.BoolOp
        ):
            start = offset_of(node.lineno, node.col_offset)
            end = offset_of(node.end_lineno or 1, node.end_col_offset or 0)
            if 4 <= end - start <= 80:
                spans.append((start, end))
    return sorted(set(spans))


# -- C++


def _cpp(count: int, data: Path | None) -> Iterator[Source]:
    """The functions of functions.cpp, then some of public packages."""
    grammar, bytes_ = sg.grammar("cpp"), sg.Vocabulary.of_bytes()
    for source in _OWN[:count]:
        yield Source(source, _cpp_regions(source), grammar, cpp.is_valid, _compiles)
    left = count - len(_OWN)
    for _, text in cpp.files(200) if left > 0 else ():
        for match in _FUNCTION.finditer(text):
            source = match[0]
            long = len(source.split("\n")) not in _LINES
            if long or "{{" in source or "#" in source or not source.isascii():
                continue
            if not cpp.is_valid(source) or not sg.Matcher(grammar, bytes_).explain(source).ok:
                continue
            yield Source(source, _cpp_regions(source), grammar, cpp.is_valid)
            left -= 1
            break
        if left <= 0:
            return


def _cpp_regions(source: str) -> list[Region]:
    """Yield parts of one line: between brackets, up to a semicolon, or to the right of an `=`."""
    return sorted({match.span(1) for pattern in _PARTS for match in re.finditer(pattern, source, re.M)})


def _compiles(text: str) -> bool | None:
    compiler = shutil.which("g++")
    if compiler is None:
        return None
    compiled = subprocess.run(
        [compiler, "-std=c++20", "-fsyntax-only", "-fmax-errors=50", "-x", "c++", "-"],
        input=text, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    return not _SYNTAX.search(compiled.stderr)


# -- JSON


def _json(count: int, data: Path | None) -> Iterator[Source]:
    """Valid instances of MaskBench's schemas, under those that become a grammar without a note."""
    from structgen.constraints.as_grammar import SchemaTexts

    if data is None:
        raise SystemExit("JSON needs --data, a file of MaskBench's records")
    accepted = 0
    with gzip.open(data, "rt") as lines:
        for record in map(json.loads, lines):
            if accepted == count:
                return
            if not is_held_out(record["_file"]):
                continue
            try:
                constraint = sg.json_schema(record["schema"], whitespace="json.dumps")
                if SchemaTexts(constraint).notes:
                    continue
            except StructgenError:
                continue
            text = _instance(record, constraint)
            if text is not None:
                accepted += 1
                yield Source(text, _values(text), constraint, _judge(record["schema"]))


def _instance(record: dict[str, Any], constraint: sg.Constraint) -> str | None:
    matcher = sg.Matcher(constraint, sg.Vocabulary.of_bytes())
    for test in record["tests"]:
        text = json.dumps(test["data"])
        is_fit = test["valid"] and len(text) <= 600 and "{{" not in text and len(_values(text)) >= 3
        if is_fit and matcher.explain(text).ok:
            return text
    return None


def _values(text: str) -> list[Region]:
    return [match.span() for match in _VALUE.finditer(text)]


def _judge(schema: Any) -> Callable[[str], bool]:
    validator = jsonschema_rs.validator_for(schema, validate_formats=True)

    def is_valid(text: str) -> bool:
        try:
            return bool(validator.is_valid(json.loads(text)))
        except ValueError:
            return False

    return is_valid


LANGUAGES: dict[str, Callable[[int, Path | None], Iterator[Source]]] = {
    "python": _python,
    "cpp": _cpp,
    "json": _json,
}
