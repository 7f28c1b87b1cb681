"""Find the turns of phrase that no text of the repository uses (tests/prose_phrases.toml), with their lines.

    python -m tests.prose [PATH ...]        list every place
    python -m tests.prose --count [PATH ...]   count them by file

Each file is read as a whole: comments, docstrings, messages and names alike. Identifiers are split into words.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PHRASES = ROOT / "tests" / "prose_phrases.toml"

# Texts that people read. Data (schemas, expected results, grammars of other projects) is not ours to word.
SUFFIXES = {
    ".py",
    ".pyi",
    ".cpp",
    ".h",
    ".md",
    ".toml",
    ".yml",
    ".yaml",
    ".txt",
    ".lark",
    ".gbnf",
    ".ebnf",
    ".cmake",
    "",
}
DATA = ("tests/data/", "bench/data/", "bench/schemas/held_out.txt", "tests/prose_phrases.toml", "LICENSE")


class Phrase(NamedTuple):
    """A forbidden turn of phrase."""

    pattern: re.Pattern[str]
    write: str


class Hit(NamedTuple):
    """One place where a file uses a forbidden phrase."""

    path: str
    line: int
    found: str
    write: str


def phrases() -> list[Phrase]:
    """Read the phrases from the data file."""
    table = tomllib.loads(PHRASES.read_text())
    return [Phrase(re.compile(one["pattern"], re.IGNORECASE), one["write"]) for one in table["phrase"]]


def words(text: str) -> str:
    """Split identifiers into words, so that names are read like sentences. Line breaks stay where they are."""
    text = re.sub(r"(?<=[a-z])(?=[A-Z][a-z])", " ", text)
    return re.sub(r"(?<=[A-Za-z0-9])_+(?=[A-Za-z0-9])", " ", text)


def hits(path: str, text: str, forbidden: list[Phrase]) -> Iterator[Hit]:
    """Yield each forbidden phrase in a text. A phrase may run over the end of a line, past comment marks."""
    readable = words(text)
    flat = re.sub(r"\n[ \t]*(?://+|#|>|\*)?[ \t]*", lambda found: "\n" + " " * (len(found[0]) - 1), readable)
    for phrase in forbidden:
        # A blank in a pattern stands for any white space.
        pattern = re.compile(phrase.pattern.pattern.replace(" ", r"\s+"), re.IGNORECASE)
        for found in pattern.finditer(flat):
            yield Hit(path, flat.count("\n", 0, found.start()) + 1, " ".join(found[0].split()), phrase.write)


def tracked(root: Path = ROOT) -> list[str]:
    """Return the files of the repository whose text people read."""
    listed = subprocess.run(
        ["git", "ls-files"], cwd=root, capture_output=True, text=True, check=True
    ).stdout.split("\n")
    return [path for path in listed if path and Path(path).suffix in SUFFIXES and not path.startswith(DATA)]


def main(arguments: list[str]) -> int:
    """List the hits under some paths, or count them; return 1 if there is a hit."""
    count = [argument for argument in arguments if argument in ("-c", "--count")]
    chosen = [argument.rstrip("/") for argument in arguments if argument not in count]
    forbidden = phrases()
    found = 0
    for path in tracked():
        if chosen and not any(path == one or path.startswith(one + "/") for one in chosen):
            continue
        in_file = sorted(hits(path, (ROOT / path).read_text(), forbidden), key=lambda hit: hit.line)
        found += len(in_file)
        if count and in_file:
            print(f"{len(in_file):5} {path}")
        elif not count:
            for hit in in_file:
                print(f"{path}:{hit.line}: {hit.found!r}: write {hit.write}")
    if count:
        print(f"{found:5} in all")
    return int(found > 0)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
