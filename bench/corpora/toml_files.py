"""TOML: the suite toml-test, as tomlkit brings it, and pyproject.toml and Cargo.toml; judged by `tomllib`.

Its version is that of Python 3.11 to 3.14, which reads TOML 1.0.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator

from bench.corpora import debian, pypi, sample, texts

NAME = "toml"

_SDISTS = """
    tomlkit==0.13.2 tomli==2.0.1 poetry-core==1.9.1 validate-pyproject==0.23 hatchling==1.25.0 flit==3.10.1
    build==1.2.2 packaging==24.1 pip==24.3.1 graphql-core==3.2.6 jsonschema==4.23.0 attrs==24.2.0 rich==13.9.4
    httpx==0.27.2 black==24.10.0 agate==1.13.0
"""
_DEBIAN = """
    librust-serde-dev librust-clap-dev librust-regex-dev librust-rand-dev librust-syn-dev librust-hyper-dev
    librust-tokio-dev librust-log-dev librust-libc-dev librust-time-dev
"""
_DEFINED_TWICE = ("Cannot declare", "Cannot overwrite", "Cannot mutate", "Cannot redefine", "Duplicate")


def files(limit: int | None = None) -> Iterator[tuple[str, str]]:
    """TOML files of these packages."""
    folders = [*(pypi(name, source=True) for name in _SDISTS.split()), *map(debian, _DEBIAN.split())]
    files = texts(folders, ".toml", ".toml.orig")
    yield from sample(((name, text) for name, text in files if is_valid(text)), limit)


def is_valid(text: str) -> bool:
    """The verdict of `tomllib`."""
    return _complaint(text) is None


def beyond_form(text: str) -> bool:
    """Return whether `tomllib` rejects the text for a key or table that is defined twice."""
    complaint = _complaint(text)
    return complaint is not None and complaint.startswith(_DEFINED_TWICE)


def _complaint(text: str) -> str | None:
    try:
        tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        return str(error)
    return None
