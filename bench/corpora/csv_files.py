"""CSV: the data sets that statistics packages bring; judged by Python's `csv`, strict, and RFC 4180.

The RFC is stricter than `csv` in that a field with a quote in it must be quoted; and control characters are no text.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator

from bench.corpora import pypi, sample, texts

NAME = "csv"

_WHEELS = (
    "statsmodels==0.14.4",
    "vega_datasets==0.9.0",
    "lifelines==0.30.0",
    "pingouin==0.5.5",
    "rdkit==2024.3.5",
)
_SDISTS = ("agate==1.13.0", "csvkit==2.0.1")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_QUOTED = re.compile(r'(?<![^,\n])"(?:[^"]|"")*"(?![^,\r\n])')


def files(limit: int | None = None) -> Iterator[tuple[str, str]]:
    """CSV files of these packages whose fields are separated by commas."""
    folders = [*map(pypi, _WHEELS), *(pypi(name, source=True) for name in _SDISTS)]
    files = texts(folders, ".csv", encoding="utf-8-sig")
    yield from sample(((name, text) for name, text in files if "," in text and is_valid(text)), limit)


def is_valid(text: str) -> bool:
    """The verdicts of ``csv.reader(strict=True)`` and of RFC 4180 about quotes and control characters."""
    unquoted = _QUOTED.sub("", text)
    if not text or '"' in unquoted or "\r" in unquoted.replace("\r\n", "") or _CONTROL.search(text):
        return False
    try:
        for _ in csv.reader(io.StringIO(text, newline=""), strict=True):
            pass
    except csv.Error:
        return False
    return True
