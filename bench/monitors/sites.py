"""Dereference sites: positions after a dot in real code, whose identifier and the rest of its line are held out.

As in monitor-guided decoding (Agrawal et al., 2023), a model continues from the dot, and the code says what belongs
there. Python's own parser finds Python sites, the library's lexer those of TypeScript. A receiver that is an imported
module or namespace, or part of one, is left out, because models know the contents of public modules.

Invariant: the same seed picks the same sites of the same files. No identifier occurs more than `MOST_ALIKE` times in a
project, and files take turns, so that long ones do not outweigh the others. Cost: parsing each file once.
"""

from __future__ import annotations

import ast
import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from structgen.monitors.languages import language_of
from structgen.monitors.lexer import MEMBER as MEMBER_POSITION
from structgen.monitors.lexer import Lexer
from structgen.monitors.receivers import receiver_before

__all__ = ["IMPORT", "MEMBER", "MOST_ALIKE", "Site", "imports_in", "picked", "sites_in"]

MEMBER, IMPORT = "member", "import"

MOST_ALIKE = 3
_LONGEST_FILE = 200_000

_NAME = re.compile(r"[^\W\d][\w$]*|\$[\w$]*")
_NAMESPACE = re.compile(r"\bimport\s+(?:type\s+)?\*\s+as\s+([\w$]+)")
_ASSIGNED = re.compile(r"\s*(?:=(?!=)|:[^=]*=(?!=))")
_NO_CODE = re.compile(r"\s*(?:import\b|export\s+(?:type\s+)?[*{]|//|\*|/\*)")


@dataclass(frozen=True)
class Site:
    """A site. `file` is relative to the project; `rest` is the text after the dot, with the line's end."""

    project: str
    language: str
    file: str
    offset: int
    identifier: str
    rest: str
    kind: str = MEMBER

    @property
    def is_made(self) -> bool:
        """Whether the line assigns to the name."""
        return _ASSIGNED.match(self.rest, len(self.identifier)) is not None

    def around(self, text: str) -> tuple[str, str]:
        """Return the file's text up to and including the dot, and the text after the line."""
        return text[: self.offset], text[self.offset + len(self.rest) :]


Place = tuple[int, int, str]
"""Where what is held out begins and ends, and the identifier."""


def sites_in(language: str, text: str) -> list[Place]:
    """The positions after dots of a file, up to the ends of their lines; empty where it does not parse."""
    positions = _python(text) if language == "python" else _typescript(text, language)
    return [(offset, text.index("\n", offset) + 1, name) for offset, name in sorted(positions)]


def imports_in(text: str) -> list[Place]:
    """The import statements of a Python file, each as a whole with the line's end, and what they import from."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return []
    lines = [0, *(match.end() for match in re.finditer("\n", text))]
    statements = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom) and node.end_lineno is not None:
            start = lines[node.lineno - 1] + node.col_offset  # nothing before it but spaces
            module = node.names[0].name if isinstance(node, ast.Import) else node.module or "."
            statements.append((start, lines[node.end_lineno], module))
    return statements


def picked(
    project: str,
    language: str,
    folder: Path,
    files: Sequence[Path],
    count: int,
    seed: int = 0,
    *,
    kind: str = MEMBER,
) -> list[Site]:
    """Return at most `count` sites of a project: members, or import statements."""
    chance = random.Random(f"{seed} {project}")
    sites_by_file: list[list[Site]] = []
    for path in files:
        text = path.read_bytes().decode("utf-8", "replace")
        if len(text) > _LONGEST_FILE or "\r" in text or not text.endswith("\n"):
            continue
        name = path.relative_to(folder).as_posix()
        positions = sites_in(language, text) if kind == MEMBER else imports_in(text)
        mine = [
            Site(project, language, name, offset, identifier, text[offset:end], kind)
            for offset, end, identifier in positions
        ]
        sites_by_file.append(chance.sample(mine, len(mine)))
    chance.shuffle(sites_by_file)
    chosen: list[Site] = []
    alike: Counter[str] = Counter()
    while len(chosen) < count and any(sites_by_file):
        for mine in sites_by_file:
            site = next((site for site in mine if alike[site.identifier] < MOST_ALIKE), None)
            if site is None:
                mine.clear()
                continue
            mine.remove(site)
            if len(chosen) < count:
                alike[site.identifier] += 1
                chosen.append(site)
    return chosen


def _python(text: str) -> Iterator[tuple[int, str]]:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return
    modules = {
        alias.asname or alias.name.partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import) or (isinstance(node, ast.ImportFrom) and node.module is None)
        for alias in node.names
    }
    starts = [0]
    for line in text.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    data = text.encode()
    for node in _attributes(tree, within=False):
        root = node.value
        while isinstance(root, ast.Attribute):
            root = root.value
        if isinstance(root, ast.Name) and root.id in modules:
            continue
        if node.attr.startswith("__") or node.end_lineno is None or node.end_col_offset is None:
            continue
        end = starts[node.end_lineno - 1] + node.end_col_offset
        start = end - len(node.attr.encode())
        if data[start - 1 : end] == b"." + node.attr.encode():
            yield len(data[:start].decode()), node.attr


def _attributes(node: ast.AST, *, within: bool) -> Iterator[ast.Attribute]:
    """Yield attributes in bodies of functions, except in f-strings, whose positions are wrong in Python 3.11."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.JoinedStr):
            continue
        if isinstance(child, ast.Attribute) and within:
            yield child
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            for statement in child.body:
                if isinstance(statement, ast.Attribute) and not within:
                    yield statement
                yield from _attributes(statement, within=True)
        else:
            yield from _attributes(child, within=within)


def _typescript(text: str, language: str) -> Iterator[tuple[int, str]]:
    namespaces = set(_NAMESPACE.findall(text))
    lexer = Lexer(language_of(language))
    at, position = lexer.start, None
    for offset, character in enumerate(text):
        for byte in character.encode():
            at, position = lexer.step(at, byte)
        if position != MEMBER_POSITION:
            continue
        name = _NAME.match(text, offset + 1)
        line = text.rfind("\n", 0, offset) + 1
        root = receiver_before(text[: offset + 1]).partition(".")[0]
        if name is None or _NO_CODE.match(text, line) or root in namespaces:
            continue
        yield offset + 1, name[0]
