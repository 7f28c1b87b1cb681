"""GraphQL: schemas and queries out of packages, from files and from strings in tests; judged by graphql-core."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

from bench.corpora import npm, pypi, sample, texts, tool

NAME = "graphql"

_TOOL = "graphql-core==3.2.6"
_SDISTS = (_TOOL, "ariadne==0.23.0", "ariadne-codegen==0.13.0", "gql==3.5.0", "sgqlc==16.4", "graphene==3.3")
_NPM = ("@octokit/graphql-schema@15.25.0", "graphql-language-service@5.2.2", "@linear/sdk@29.0.0")


def files(limit: int | None = None) -> Iterator[tuple[str, str]]:
    """GraphQL files of these packages, and strings in their Python files that are GraphQL."""
    folders = [*(pypi(name, source=True) for name in _SDISTS), *map(npm, _NPM)]
    files = [*texts(folders, ".graphql", ".graphqls", ".gql"), *strings_in(folders)]
    yield from sample(((name, text) for name, text in files if is_valid(text)), limit)


def is_valid(text: str) -> bool:
    """The verdict of graphql-core's parser."""
    graphql = tool(_TOOL, "graphql")
    try:
        graphql.parse(text, no_location=True)
    except (graphql.GraphQLSyntaxError, RecursionError, IndexError):  # IndexError: a backslash at the end
        return False
    return True


def strings_in(folders: Iterable[Path]) -> Iterator[tuple[str, str]]:
    """Strings with braces in the Python files below the folders, each once."""
    seen: set[str] = set()
    for name, source in texts(folders, ".py", most=1 << 20):
        try:
            tree = ast.parse(source)
        except (SyntaxError, ValueError):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value not in seen:
                seen.add(node.value)
                if "{" in node.value:
                    yield f"{name}:{node.lineno}", node.value
