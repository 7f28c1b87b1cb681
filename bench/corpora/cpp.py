"""C++: sources and headers in npm, PyPI and Debian packages, as they are before the preprocessor.

The tool is tree-sitter's parser of C++, because compilers read a file only with all its headers and macros. It does not
accept files with macros in positions of syntax that it does not know. `python -m bench.corpora.cpp` counts over all
files, including those.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

from bench.corpora import debian, npm, pypi, sample, texts, tool

__all__ = ["NAME", "all_files", "files", "is_valid"]

NAME = "cpp"

_NPM = ("leveldown@6.1.1", "node-addon-api@8.5.0", "nan@2.22.0", "re2@1.21.4")
_SDISTS = ("lightgbm==4.5.0", "pybind11==2.13.6", "fasttext==0.9.3")
_DEBIAN = (
    "libfmt-dev",
    "nlohmann-json3-dev",
    "libgtest-dev",
    "libleveldb-dev",
    "libspdlog-dev",
    "rapidjson-dev",
    "catch2",
    "libyaml-cpp-dev",
    "libgoogle-glog-dev",
    "libabsl-dev",
    "libpugixml-dev",
)
_ENDINGS = (".cc", ".cpp", ".cxx", ".h", ".hpp")


def all_files(limit: int | None = None) -> list[tuple[str, str]]:
    """Files of these packages, without regard to the verdict of a tool."""
    return sample(texts(_folders(), *_ENDINGS), limit)


def files(limit: int | None = None) -> Iterator[tuple[str, str]]:
    """Files that tree-sitter parses without an error."""
    files = all_files(None if limit is None else 3 * limit)
    yield from islice(((name, text) for name, text in files if is_valid(text)), limit)


def is_valid(text: str) -> bool:
    """Return whether tree-sitter parses the text without an error."""
    return not _parser().parse(text.encode()).root_node.has_error


def _folders() -> Iterator[Path]:
    yield from map(npm, _NPM)
    for requirement in _SDISTS:
        yield pypi(requirement, source=True)
    yield from map(debian, _DEBIAN)


@cache
def _parser() -> Any:
    tree_sitter = tool("tree-sitter==0.26.1", "tree_sitter")
    language = tool("tree-sitter-cpp==0.23.4", "tree_sitter_cpp").language()
    return tree_sitter.Parser(tree_sitter.Language(language))


def main() -> None:
    """Counts how many of all files the grammar accepts."""
    import structgen as sg
    from bench.shelf import Reader

    reader = Reader(sg.grammar(NAME))
    files = all_files()
    accepted = sum(reader.accepts(text) for _, text in files)
    print(f"{accepted} of {len(files)} files accepted, {100 * accepted / len(files):.1f} %")


if __name__ == "__main__":
    main()
