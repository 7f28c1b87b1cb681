"""Each limit has a public name that the documentation lists, and each error that names one says what to do.

The names are read from the source: of every `LimitExceeded` that Python makes, and of every message of the core.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import structgen
from structgen import _core
from structgen.constraints.failures import limit_exceeded
from structgen.vocabulary import _LIMITS

PACKAGE = Path(structgen.__file__).parent
DOCS = PACKAGE.parent / "docs"
PUBLIC = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
CHOSEN = {
    "account.stopped": ("max_seconds", "max_calls", "max_attempts", "cancel", "patience"),
    "account.stopped or ''": ("max_seconds", "max_calls", "max_attempts", "cancel"),
    "task.account.stopped or ''": ("max_seconds", "max_calls", "max_attempts", "cancel"),
    "_LIMIT_NAMES[name]": (
        "grammar_length", "grammar_entries", "grammar_depth", "repetition_count", "dispatch_tags",
        "dispatch_tag_length",
    ),
    "limit_name": ("max_chars", "part_tokens"),
    "limit": ("context_length", "max_tokens", "closed", "worker", "compile_seconds", "step_seconds"),
}  # fmt: skip
"""The names that an expression may stand for."""
PASSED_ON = "constraints/failures.py"  # names of the core


def _made() -> Iterator[tuple[str, ast.Call]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        text = path.read_text()
        if "LimitExceeded" not in text:
            continue
        file = path.relative_to(PACKAGE).as_posix()
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] == "LimitExceeded":
                yield f"{file}:{node.lineno}", node


def _names_in_python(files: tuple[str, ...] = ("",)) -> dict[str, str]:
    """Return the names that files with these beginnings raise, each with the place of one of the calls."""
    names = {}
    for place, call in _made():
        if not place.startswith(files):
            continue
        keywords = {one.arg: one.value for one in call.keywords}
        assert "limit" in keywords, f"{place} names no limit"
        assert "hint" in keywords, f"{place} does not say what to do"
        value = keywords["limit"]
        if isinstance(value, ast.Constant):
            names[str(value.value)] = place
        elif not place.startswith(PASSED_ON):
            names |= dict.fromkeys(CHOSEN[ast.unparse(value)], place)
    return names


def _names_in_core() -> dict[str, str]:
    names = {}
    for path in sorted([*(PACKAGE / "_core").rglob("*.cpp"), *(PACKAGE / "_core").rglob("*.h")]):
        for thrown in re.finditer(
            r"throw (?:Limit|Call)(?:Error|Limit)\((.*?)\);\s*?\n", path.read_text(), re.DOTALL
        ):
            named = re.search(r"\(limit (\w+)\)", thrown[1])
            assert named, f"{path.name} names no limit: {thrown[0]}"
            names[named[1]] = path.name
    return names


def _documented(page: str) -> set[str]:
    section = (DOCS / page).read_text().split("\n## Limits\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (`.+?) \|", section, re.MULTILINE)
    return {name for row in rows for name in re.findall(r"`(\w+)`", row)}


def test_each_name_is_public_and_documented() -> None:
    names = _names_in_python() | _names_in_core()
    assert len(names) > 60
    private = {name: place for name, place in names.items() if not PUBLIC.fullmatch(name)}
    assert not private
    documented = _documented("core.md")
    assert not {name: place for name, place in names.items() if name not in documented}
    # Some options of a vocabulary end a search or empty a cache without an error.
    assert documented - names.keys() <= set(_LIMITS)
    assert set(_LIMITS) <= documented


def test_the_page_of_grammars_lists_what_grammars_raise() -> None:
    files = ("constraints/grammar/", "constraints/expressions.py", "constraints/choice.py")
    documented = _documented("grammars.md")
    assert _names_in_python(files).keys() <= documented
    assert documented <= _names_in_python(files).keys() | _names_in_core().keys()


@pytest.mark.parametrize("name", sorted(_names_in_core()))
def test_limits_of_the_core_say_what_to_do(name: str) -> None:
    error = limit_exceeded(_core.LimitError(f"it is too large (limit {name})"))
    assert error.limit == name and error.hint
    if not name.startswith("canvas_"):  # a canvas has hints of its own
        assert ("with_limits" in error.hint) == (name in _LIMITS)
