"""JSON: the JSON Schema test suite, data sets and package metadata; judged by Python's `json`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import NoReturn

from bench.corpora import npm, pypi, sample, texts

NAME = "json"

_WHEELS = ("vega_datasets==0.9.0", "jsonschema-specifications==2024.10.1")
_SDISTS = ("jsonschema==4.23.0", "tomlkit==0.13.2")
_NPM = ("mdn-data@2.12.2", "country-json@2.3.0", "smiles-drawer@2.1.7", "graphql@16.9.0", "typescript@5.6.3")


def files(limit: int | None = None) -> Iterator[tuple[str, str]]:
    """JSON files of these packages."""
    folders = [*map(pypi, _WHEELS), *(pypi(name, source=True) for name in _SDISTS), *map(npm, _NPM)]
    files = texts(folders, ".json", ".webmanifest", ".geojson", ".map")
    yield from sample(((name, text) for name, text in files if is_valid(text)), limit)


def is_valid(text: str) -> bool:
    """The verdict of `json`, without its extensions NaN and Infinity."""
    try:
        json.loads(text, parse_constant=_no_constant, parse_int=str, parse_float=str)
    except (ValueError, RecursionError):
        return False
    return True


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")
