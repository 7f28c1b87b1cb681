"""Sites of the monitors benchmark: positions after dots of real code, balanced, and the same for the same seed."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.monitors.sites import IMPORT, MEMBER, MOST_ALIKE, imports_in, picked, sites_in
from bench.monitors.tables import wilson

PYTHON = '''import os
from typing import Any

class Shop:
    place = os.curdir

    def sell(self, item: Any) -> str:
        """A dot. In a string."""
        self.count = 1  # é.a
        os.path.join("a.b", item.name)
        print(f"{self.owner}", "é", self.owner.name.upper())
        return item.__class__

    def many(self) -> None:
        self.a.a
        self.a.a
        self.a.a
'''

TYPESCRIPT = """import * as core from './core.js'
// a.comment
export const sum = (list: Item[]) => list.map(one => one?.price ?? core.zero)
    .length + `${list.name} a.b` + 1.5
"""


def test_python_sites_are_attributes_in_functions() -> None:
    found = sites_in("python", PYTHON)
    assert all(PYTHON[offset - 1] == "." and PYTHON.startswith(name, offset) for offset, _, name in found)
    assert all(PYTHON[end - 1] == "\n" for _, end, _ in found)
    assert [name for _, _, name in found] == ["count", "name", "owner", "name", "upper", *"aaaaaa"]


def test_typescript_sites_are_members_of_values() -> None:
    assert [name for _, _, name in sites_in("typescript", TYPESCRIPT)] == ["map", "price", "length", "name"]


def test_a_file_that_does_not_parse_has_no_sites() -> None:
    assert sites_in("python", "def f(:\n") == imports_in("def f(:\n") == []


def test_imports_are_whole_statements() -> None:
    text = "if x:\n    from a.b import (\n        c,\n    )\nimport d\n"
    assert {text[start:end] for start, end, _ in imports_in(text)} == {
        "from a.b import (\n        c,\n    )\n",
        "import d\n",
    }


@pytest.mark.parametrize("kind", [MEMBER, IMPORT])
def test_sites_are_picked_alike_and_are_balanced(tmp_path: Path, kind: str) -> None:
    files = [tmp_path / "a.py", tmp_path / "b.py"]
    for path in files:
        path.write_text(PYTHON)
    sites = picked("shop", "python", tmp_path, files, 100, seed=3, kind=kind)
    assert sites == picked("shop", "python", tmp_path, files, 100, seed=3, kind=kind)
    assert {one.file for one in sites} == {"a.py", "b.py"}
    names = [one.identifier for one in sites]
    assert max(map(names.count, names)) <= MOST_ALIKE
    for site in sites:
        before, after = site.around(PYTHON)
        assert before + site.rest + after == PYTHON
        assert len(picked("shop", "python", tmp_path, files, 2, kind=kind)) == 2


def test_what_a_line_makes_is_known(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(PYTHON)
    sites = picked("shop", "python", tmp_path, [tmp_path / "a.py"], 100)
    assert {one.identifier for one in sites if one.is_made} == {"count"}


def test_intervals_hold_the_share() -> None:
    assert wilson(0, 0) == (0.0, 1.0)
    for hits, count in ((0, 10), (3, 10), (10, 10)):
        low, high = wilson(hits, count)
        assert 0 <= low <= hits / count <= high + 1e-12 <= 1 + 1e-9
    assert wilson(5, 10) == pytest.approx((0.2366, 0.7634), abs=1e-3)
