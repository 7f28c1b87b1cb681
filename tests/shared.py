"""Where the shared data lies: the variable STRUCTGEN_SHARED, or `shared` beside the repository."""

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


def path(*parts: str) -> Path:
    """The path of a shared file; the test is skipped when it is not there."""
    root = os.environ.get("STRUCTGEN_SHARED") or Path(__file__).resolve().parents[2] / "shared"
    found = Path(root).joinpath(*parts)
    if not found.exists():
        pytest.skip(f"needs {'/'.join(parts)} of the shared data; set STRUCTGEN_SHARED to its folder")
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
    tests, remotes = {}, {}
    with tarfile.open(path("data", "json-schema-test-suite.tar.gz")) as archive:
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


def maskbench(every: int = 1) -> Iterator[dict[str, Any]]:
    """The records of MaskBench, each, or every n-th."""
    with gzip.open(path("data", "maskbench-dev.jsonl.gz"), "rt", encoding="utf-8") as lines:
        for index, line in enumerate(lines):
            if index % every == 0:
                yield json.loads(line)
