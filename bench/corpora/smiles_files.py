"""SMILES: molecules out of RDKit's and other packages' data, one text each; judged by RDKit's parser.

RDKit reads without sanitisation, so valence and aromaticity play no part.
"""

from __future__ import annotations

import functools
import logging
import re
from collections.abc import Iterator
from types import ModuleType

from bench.corpora import npm, pypi, sample, texts, tool

NAME = "smiles"

_TOOL = "rdkit==2024.3.5"
_BEYOND_FORM = ("unclosed ring", "ring closure", "duplicated ring", "Can't kekulize")


def files(limit: int | None = None) -> Iterator[tuple[str, str]]:
    """Molecules of these packages that RDKit reads, each once."""
    molecules = dict.fromkeys(_molecules())
    yield from sample(((text, text) for text in molecules if is_valid(text)), limit)


def _molecules() -> Iterator[str]:
    """Columns of tables that hold SMILES, whether or not anything can read them."""
    for _, table in texts([pypi(_TOOL)], ".smi", most=1 << 20):
        yield from (line.split()[0] for line in table.splitlines() if line.strip())
    for _, table in texts([pypi("chemicals==1.3.2")], ".tsv", most=1 << 23):
        rows = (line.split("\t") for line in table.splitlines())
        yield from (row[4] for row in rows if len(row) > 7 and row[4])
    for _, script in texts([npm("smiles-drawer@2.1.7")], "drugbank.js", most=1 << 23):
        yield from re.findall(r'"([^"\s]+)"', script)


def is_valid(text: str) -> bool:
    """The verdict of RDKit's parser."""
    return _complaint(text) is None


def beyond_form(text: str) -> bool:
    """Return whether RDKit rejects the text for its ring closures."""
    complaint = _complaint(text)
    return complaint is not None and any(words in complaint for words in _BEYOND_FORM)


def _complaint(text: str) -> str | None:
    chemistry, log = _rdkit()
    if not text or any(character.isspace() or not character.isprintable() for character in text):
        return "white space ends a SMILES"
    log.clear()
    return None if chemistry.MolFromSmiles(text, sanitize=False) is not None else "\n".join(log)


@functools.cache
def _rdkit() -> tuple[ModuleType, list[str]]:
    """RDKit's chemistry, and the list that its messages go to."""
    chemistry = tool(_TOOL, "rdkit.Chem")
    messages: list[str] = []

    class Collector(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            messages.append(record.getMessage())

    tool(_TOOL, "rdkit.rdBase").LogToPythonLogger()
    logger = logging.getLogger("rdkit")
    logger.handlers = [Collector()]
    logger.propagate = False
    return chemistry, messages
