"""What a campaign keeps in its folder, so that a later one goes on: inputs that led to something new, and findings.

    FOLDER/TARGET/inputs/HASH           one input a file, UTF-8 with lone surrogates as they are
    FOLDER/TARGET/findings/HASH.json    kind, the smallest input that shows it, the one that it came from, an account
    FOLDER/TARGET/figures.json          how many inputs and seconds there were, over all runs

Invariant: nothing is written outside the folder; a file that is there is never changed but for the figures.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

__all__ = ["Corpus", "Figures", "Finding"]


@dataclass
class Finding:
    """A kind of finding with the smallest input that shows it."""

    kind: str
    text: str
    found_in: str
    detail: str
    seed: int


@dataclass
class Figures:
    """The figures of all runs of a target on this folder."""

    inputs: int = 0
    seconds: float = 0.0
    fine: int = 0
    refused: int = 0
    slow_judge: int = 0
    findings: int = 0
    features: int = 0
    slowest: float = 0.0
    peak_mib: int = 0
    kinds: dict[str, int] = field(default_factory=dict)


class Corpus:
    """The folder of one target."""

    def __init__(self, folder: Path, target: str) -> None:
        self._root = folder / target
        for name in ("inputs", "findings"):
            (self._root / name).mkdir(parents=True, exist_ok=True)

    def inputs(self) -> Iterator[str]:
        """Yield the inputs kept so far."""
        for path in sorted((self._root / "inputs").iterdir()):
            yield path.read_bytes().decode("utf-8", "surrogatepass")

    def keep(self, text: str) -> None:
        """Keep an input."""
        data = text.encode("utf-8", "surrogatepass")
        (self._root / "inputs" / hashlib.sha256(data).hexdigest()[:20]).write_bytes(data)

    def report(self, finding: Finding) -> Path:
        """Keep a finding; one of each kind."""
        path = self._root / "findings" / (hashlib.sha256(finding.kind.encode()).hexdigest()[:12] + ".json")
        path.write_text(json.dumps(asdict(finding), indent=1) + "\n", "utf-8")
        return path

    def findings(self) -> list[Finding]:
        """Return the findings reported so far."""
        return [
            Finding(**json.loads(path.read_text("utf-8")))
            for path in sorted((self._root / "findings").iterdir())
        ]

    def figures(self) -> Figures:
        """Return the figures of the runs so far."""
        path = self._root / "figures.json"
        return Figures(**json.loads(path.read_text("utf-8"))) if path.exists() else Figures()

    def write(self, figures: Figures) -> None:
        """Set the figures."""
        (self._root / "figures.json").write_text(json.dumps(asdict(figures), indent=1) + "\n", "utf-8")
