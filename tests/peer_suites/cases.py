"""The cases of the peers' suites, out of the shared archive."""

from __future__ import annotations

import functools
import io
import json
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .. import shared

__all__ = ["PEERS", "Case", "cases"]

PEERS = (
    "xgrammar",
    "llguidance",
    "outlines-core",
    "lm-format-enforcer",
    "llama.cpp",
    "guidance",
    "syncode",
    "formatron+kbnf",
    "vllm",
)


@dataclass(frozen=True)
class Case:
    """One schema, grammar or pattern of a peer's suite, with the peer's verdicts."""

    peer: str
    line: int
    record: Mapping[str, Any]

    @property
    def kind(self) -> str:
        return str(self.record["kind"])

    @property
    def spec(self) -> Any:
        return self.record["spec"]

    @property
    def source(self) -> str:
        return str(self.record["source"])

    @property
    def options(self) -> Mapping[str, Any]:
        return self.record.get("options") or {}

    @functools.cached_property
    def written(self) -> str:
        """The specification as text, to look for words in it."""
        return self.spec if isinstance(self.spec, str) else json.dumps(self.spec, ensure_ascii=False)


def cases(peer: str) -> Iterator[Case]:
    """All cases of a peer; the test is skipped where the shared data is absent."""
    # Not splitlines(): texts hold other line separators of Unicode.
    for line, text in enumerate(_archive()[f"{peer}.jsonl"].rstrip("\n").split("\n")):
        yield Case(peer, line, json.loads(text))


@functools.cache
def _archive() -> dict[str, str]:
    with tarfile.open(shared.path("data", "peer-suites.tar.xz")) as archive:
        found: dict[str, str] = {}
        for member in archive:
            name = member.name.removeprefix("./")
            if member.isfile() and name.endswith(".jsonl") and "/" not in name:
                file = archive.extractfile(member)
                assert isinstance(file, io.BufferedIOBase)
                found[name] = file.read().decode()
        return found
