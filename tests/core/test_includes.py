"""The folders of the core include each other in one direction; the README.md of each says what it may include."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

CORE = Path(__file__).resolve().parents[2] / "structgen" / "_core"
ROOMS = sorted(str(page.parent.relative_to(CORE)) for page in CORE.rglob("README.md") if page.parent != CORE)
_INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)


def sources(room: str) -> list[Path]:
    """The C++ files of one folder, without those of its subfolders."""
    return sorted([*(CORE / room).glob("*.h"), *(CORE / room).glob("*.cpp")])


def allowed(room: str) -> set[str]:
    """The folders that the README of a folder permits."""
    found = re.search(r"^May include: (.+?)\.$", (CORE / room / "README.md").read_text(), re.MULTILINE)
    assert found, f"{room}/README.md needs a line 'May include: ...'"
    return set() if found[1] == "nothing" else {name.strip("` ") for name in found[1].split(",")}


def included(file: Path) -> set[str]:
    """The folders whose headers a file includes."""
    return {str(Path(name).parent) for name in _INCLUDE.findall(file.read_text())}


def test_each_file_is_in_a_folder_with_a_readme() -> None:
    every = {file for suffix in ("*.h", "*.cpp") for file in CORE.rglob(suffix)}
    assert every == {file for room in ROOMS for file in sources(room)}
    assert len(ROOMS) > 10


@pytest.mark.parametrize("room", ROOMS)
def test_a_folder_includes_what_its_readme_permits(room: str) -> None:
    permitted = {room, *allowed(room)}
    wrong = {
        f"{file.name} includes {other}/" for file in sources(room) for other in included(file) - permitted
    }
    assert not wrong


@pytest.mark.parametrize("room", ROOMS)
def test_a_readme_permits_no_more_than_is_used(room: str) -> None:
    used = {other for file in sources(room) for other in included(file)}
    assert not allowed(room) - used


def test_no_two_folders_include_each_other() -> None:
    permits = {room: allowed(room) for room in ROOMS}
    while permits:
        lowest = {room for room, others in permits.items() if not others}
        assert lowest, f"these folders include one another: {sorted(permits)}"
        permits = {room: others - lowest for room, others in permits.items() if room not in lowest}
