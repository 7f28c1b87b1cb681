"""Every text of the repository is in plain English: no forbidden phrase, and summaries that say what is done."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import prose

PACKAGE = prose.ROOT / "structgen"
_TABLE = tomllib.loads(prose.PHRASES.read_text())
NOT_VERBS = frozenset(_TABLE["summaries"]["not_verbs"].split())
ENDS_IN_S = frozenset(_TABLE["summaries"]["verbs_in_s"].split())
EXAMPLES = [(example["text"], example.get("found")) for example in _TABLE["example"]]


def summaries(tree: ast.Module) -> Iterator[tuple[int, str, str]]:
    """Yield the line, the name and the first line of the docstring of each public function and method."""

    def visit(node: ast.AST) -> Iterator[tuple[int, str, str]]:
        for inner in ast.iter_child_nodes(node):
            if isinstance(inner, ast.ClassDef) and not inner.name.startswith("_"):
                yield from visit(inner)
            if not isinstance(inner, (ast.FunctionDef, ast.AsyncFunctionDef)) or inner.name.startswith("_"):
                continue
            if any("property" in ast.unparse(decorator) for decorator in inner.decorator_list):
                continue
            if docstring := ast.get_docstring(inner):
                yield inner.lineno, inner.name, docstring.split("\n", 1)[0]

    return visit(tree)


def is_imperative(summary: str) -> bool:
    """Return whether a summary begins with a verb in the imperative, as far as its first word shows."""
    first = summary.split()[0].strip("`*,.:;\"'()").lower()
    if not first.isalpha() or first in NOT_VERBS:
        return False
    return not first.endswith("s") or first in ENDS_IN_S


needs_a_check_out = pytest.mark.skipif(
    not (prose.ROOT / ".git").exists(),
    reason="not a check-out of the repository, so its files are not listed",
)


@needs_a_check_out
def test_no_text_uses_a_forbidden_phrase() -> None:
    forbidden = prose.phrases()
    found = [
        hit
        for path in prose.tracked()
        for hit in prose.hits(path, (prose.ROOT / path).read_text(), forbidden)
    ]
    assert not found, "\n".join(
        f"{hit.path}:{hit.line}: {hit.found!r}: write {hit.write}" for hit in found[:50]
    )


def test_summaries_of_public_functions_begin_with_a_verb() -> None:
    wrong = [
        f"{path.relative_to(prose.ROOT)}:{line}: {name}: {summary}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for line, name, summary in summaries(ast.parse(path.read_text()))
        if not is_imperative(summary)
    ]
    assert not wrong, f"{len(wrong)} summaries:\n" + "\n".join(wrong[:50])


@pytest.mark.parametrize(("text", "found"), EXAMPLES)
def test_phrases_are_found_in_names_and_across_lines_and_nowhere_else(text: str, found: str | None) -> None:
    hits = {hit.found for hit in prose.hits("one.py", text, prose.phrases())}
    assert hits == (set() if found is None else {found})


@pytest.mark.parametrize(
    ("summary", "right"), [("Return the mask.", True), ("The mask.", False), ("Returns it.", False)]
)
def test_what_is_imperative(summary: str, right: bool) -> None:
    assert is_imperative(summary) is right


@needs_a_check_out
def test_every_text_file_is_looked_at() -> None:
    looked_at = set(prose.tracked())
    assert {"README.md", "structgen/api.py", "Makefile", "structgen/_core/README.md"} <= looked_at
    assert not any(Path(path).suffix == ".json" for path in looked_at)
