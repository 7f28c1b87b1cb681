"""What is installed says what it is: one version, one name of the distribution, types for those who check them."""

from __future__ import annotations

import re
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

import structgen

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def test_one_version() -> None:
    assert structgen.__version__ == PROJECT["version"]
    changes = (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert f"\n## {PROJECT['version']}" in changes


def test_the_installed_distribution_is_ours() -> None:
    try:
        version = metadata.version(PROJECT["name"])
    except metadata.PackageNotFoundError:
        pytest.skip(f"{PROJECT['name']} is not installed: this runs from a source tree")
    assert version == structgen.__version__


def test_types_are_told() -> None:
    assert (ROOT / "structgen" / "py.typed").is_file()


def _named() -> list[str]:
    """Each extra that a message or a page tells people to install, with where."""
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "structgen").rglob("*.py")]
    return [
        f"{page.relative_to(ROOT)}: {name}[{extra}]"
        for page in pages
        for name, extras in re.findall(r"\b(structgen(?:-lm)?)\[([\w,-]+)\]", page.read_text("utf-8"))
        for extra in extras.split(",")
    ]


def test_extras_that_are_named_are_there() -> None:
    found = _named()
    assert found
    for line in found:
        assert re.search(r": structgen-lm\[([\w-]+)\]$", line), line
        assert line.rpartition("[")[2][:-1] in PROJECT["optional-dependencies"], line
