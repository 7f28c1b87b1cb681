"""Holes in code, filled by SmolLM2 from the left: one, two and three regions, free and under the language's grammar.

Python: functions of the standard library; regions are statements and expressions of theirs. C++: functions of public
packages, and those of functions.cpp; regions are parts of lines. Both ways keep to the template, and are completed in a
short way after the same number of tokens; "free" takes any text for a hole, "grammar" what leaves the whole a text of
the language. Judges: `ast.parse` (Python) and tree-sitter (C++), and for functions.cpp `g++ -fsyntax-only`, of which
messages about syntax count. Sources are such as our grammars read. Restored: holes that hold what stood there.
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import random
import re
import shutil
import subprocess
import textwrap
import time
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import structgen as sg
from bench.corpora import cpp
from bench.monitors.tables import wilson
from structgen.errors import StructgenError
from structgen.progress import ProgressBar

__all__ = ["main"]

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
Region = tuple[int, int]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.diffusion.infilling",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--count", type=int, default=12, help="functions of each language (12)")
    parser.add_argument("--languages", nargs="+", default=["python", "cpp"])
    parser.add_argument("--regions", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--room", type=int, default=24, help="tokens for each region (24)")
    parser.add_argument("--show", type=int, default=0, help="texts to print (0)")
    chosen = parser.parse_args(arguments)
    model = sg.load()
    print("| language | regions | way | texts | valid | 95 % | g++ | restored | seconds a text |")
    print("|---|--:|---|--:|--:|---|--:|--:|--:|")
    for language in chosen.languages:
        sources = list(_python(chosen.count) if language == "python" else _cpp(chosen.count))
        for count in chosen.regions:
            _compare(model, language, sources, count, chosen)


def _compare(
    model: Any, language: str, sources: Sequence[str], count: int, chosen: argparse.Namespace
) -> None:
    chance = random.Random(count)
    cases = []
    for source in sources:
        regions = _python_regions(source) if language == "python" else _cpp_regions(source)
        picked = _apart(regions, count, chance)
        if picked is not None:
            cases.append((source, picked))
    for way in ("free", "grammar"):
        valid, compiled, restored, seconds = 0, [0, 0], 0, 0.0
        with ProgressBar(len(cases), f"{language}, {count}, {way}", True) as bar:
            for number, (source, picked) in enumerate(cases):
                template, gone = _template(source, picked)
                within = sg.grammar(language) if way == "grammar" else None
                begun = time.perf_counter()
                try:
                    found = sg.infill(
                        model, template, within=within, method="left-to-right",
                        max_tokens=chosen.room, options={"temperature": 0},
                    )  # fmt: skip
                except StructgenError as error:
                    print(f"{type(error).__name__}: {error}: {template!r:.300}")
                    seconds += time.perf_counter() - begun
                    bar.advance()
                    continue
                seconds += time.perf_counter() - begun
                right = _is_valid(language, found.text)
                valid += right
                if way == "grammar" and not right:
                    print(f"refused by the judge: {found.text!r}")
                if language == "cpp" and source in _OWN and (told := _compiles(found.text)) is not None:
                    compiled[0] += told
                    compiled[1] += 1
                restored += sum(found.holes[name].strip() == text.strip() for name, text in gone.items())
                if number < chosen.show:
                    print(textwrap.indent(f"{template}\n---- {way}\n{found.text}", "    "))
                bar.advance()
        low, high = wilson(valid, len(cases))
        own = f"{compiled[0]}/{compiled[1]}" if compiled[1] else ""
        print(
            f"| {language} | {count} | {way} | {len(cases)} | {valid / len(cases):.3f} | {low:.2f}–{high:.2f} | {own} "
            f"| {restored / (count * len(cases)):.3f} | {seconds / max(1, len(cases)):.1f} |",
            flush=True,
        )


def _template(source: str, regions: Sequence[Region]) -> tuple[str, dict[str, str]]:
    parts, gone, at = [], {}, 0
    for number, (start, end) in enumerate(regions):
        parts += [source[at:start], f"{{{{r{number}}}}}"]
        gone[f"r{number}"] = source[start:end]
        at = end
    return "".join([*parts, source[at:]]), gone


def _apart(regions: Sequence[Region], count: int, chance: random.Random) -> list[Region] | None:
    """So many that do not touch, in the order of the text."""
    for _ in range(200):
        if len(regions) < count:
            return None
        picked = sorted(chance.sample(regions, count))
        if all(a[1] < b[0] for a, b in pairwise(picked)):
            return picked
    return None


# -- Python


def _python(count: int) -> Iterator[str]:
    """Functions of the standard library, as they are at the top of a file, without their documentation."""
    found = []
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
                found.append(source.rstrip("\n") + "\n")
    random.Random(0).shuffle(found)
    taken = 0
    python = sg.grammar("python").indented_by("    ")
    bytes_ = sg.Vocabulary.of_bytes()
    for source in found:
        if taken == count:
            return
        if _is_valid("python", source) and sg.Matcher(python, bytes_).explain(source).ok:
            taken += 1
            yield source


def _python_regions(source: str) -> list[Region]:
    starts = [0]
    for line in source.split("\n"):
        starts.append(starts[-1] + len(line.encode()) + 1)
    data = source.encode()

    def place(line: int, column: int) -> int:
        return len(data[: starts[line - 1] + column].decode())

    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(
            node, ast.Return | ast.Assign | ast.Expr | ast.Call | ast.BinOp | ast.Compare | ast.BoolOp
        ):
            start = place(node.lineno, node.col_offset)
            end = place(node.end_lineno or 1, node.end_col_offset or 0)
            if 4 <= end - start <= 80:
                found.append((start, end))
    return sorted(set(found))


# -- C++


def _cpp(count: int) -> Iterator[str]:
    """The functions above, then some of public packages."""
    yield from _OWN[:count]
    left = count - len(_OWN)
    grammar, bytes_ = sg.grammar("cpp"), sg.Vocabulary.of_bytes()
    for _, text in cpp.files(200) if left > 0 else ():
        for match in _FUNCTION.finditer(text):
            source = match[0]
            if (
                len(source.split("\n")) not in _LINES
                or "{{" in source
                or "#" in source
                or not source.isascii()
            ):
                continue
            if not cpp.is_valid(source) or not sg.Matcher(grammar, bytes_).explain(source).ok:
                continue
            yield source
            left -= 1
            break
        if left <= 0:
            return


def _cpp_regions(source: str) -> list[Region]:
    """What is between brackets, up to a semicolon, or right of an `=`, on one line."""
    return sorted({match.span(1) for pattern in _PARTS for match in re.finditer(pattern, source, re.M)})


def _compiles(text: str) -> bool | None:
    compiler = shutil.which("g++")
    if compiler is None:
        return None
    told = subprocess.run(
        [compiler, "-std=c++20", "-fsyntax-only", "-fmax-errors=50", "-x", "c++", "-"],
        input=text, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    return not _SYNTAX.search(told.stderr)


def _is_valid(language: str, text: str) -> bool:
    if language == "cpp":
        return cpp.is_valid(text)
    try:
        ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return False
    return True


if __name__ == "__main__":
    main()
