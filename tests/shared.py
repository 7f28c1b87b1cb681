"""Where the shared data lies: the variable STRUCTGEN_SHARED, or `shared` next to the repository.

The official JSON Schema suite may also come from the variable JSON_SCHEMA_TEST_SUITE: a check-out of it, or the
folder `json` of the source distribution of `jsonschema`.
"""

from __future__ import annotations

import functools
import gzip
import json
import os
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

_SUITE = ("data", "json-schema-test-suite.tar.gz")
_HINT = "set STRUCTGEN_SHARED to its folder"
_HINTS: dict[tuple[str, ...], str] = {
    _SUITE: f"{_HINT}, or JSON_SCHEMA_TEST_SUITE to a check-out of the official suite"
}


def path(*parts: str) -> Path:
    """Return the path of a shared file; skip the test if it does not exist."""
    root = os.environ.get("STRUCTGEN_SHARED") or Path(__file__).resolve().parents[2] / "shared"
    found = Path(root).joinpath(*parts)
    if not found.exists():
        pytest.skip(f"needs {'/'.join(parts)} of the shared data; {_HINTS.get(parts, _HINT)}")
    return found


@dataclass(frozen=True)
class Suite:
    """The official JSON Schema test suite, as raw texts by path."""

    tests: dict[str, str]
    remotes: dict[str, str]

    def groups(self, draft: str) -> Iterator[tuple[str, str]]:
        for name in sorted(self.tests):
            if name.startswith(f"{draft}/"):
                yield name.removeprefix(f"{draft}/"), self.tests[name]


@functools.cache
def schema_suite() -> Suite:
    if folder := os.environ.get("JSON_SCHEMA_TEST_SUITE"):
        return Suite(
            _texts(Path(folder) / "tests"), _texts(Path(folder) / "remotes", "http://localhost:1234/")
        )
    tests, remotes = {}, {}
    with tarfile.open(path(*_SUITE)) as archive:
        for member in archive:
            if not member.isfile() or not member.name.endswith(".json"):
                continue
            stream = archive.extractfile(member)
            assert stream is not None
            text = stream.read().decode("utf-8")
            folder, _, name = member.name.removeprefix("./").partition("/")
            if folder == "tests":
                tests[name] = text
            elif folder == "remotes":
                remotes[f"http://localhost:1234/{name}"] = text
    return Suite(tests, remotes)


def _texts(folder: Path, prefix: str = "") -> dict[str, str]:
    found = {file: file.read_text("utf-8") for file in sorted(folder.rglob("*.json"))}
    return {prefix + file.relative_to(folder).as_posix(): text for file, text in found.items()}


def maskbench(every: int = 1) -> Iterator[dict[str, Any]]:
    """Return all records of MaskBench, or every n-th."""
    with gzip.open(path("data", "maskbench-dev.jsonl.gz"), "rt", encoding="utf-8") as lines:
        for index, line in enumerate(lines):
            if index % every == 0:
                yield json.loads(line)
