"""Checks of sessions that read trees: malformed trees and paths, and other calls before `keep`."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from structgen.errors import ModelError

__all__ = ["check_decided", "check_path", "check_probes", "check_trees"]


def check_trees(trees: Sequence[tuple[Sequence[int], Sequence[int]]]) -> None:
    """Raise `ModelError` unless each node has a parent, which comes before it."""
    for row, (nodes, parents) in enumerate(trees):
        if len(nodes) != len(parents):
            raise ModelError(f"the tree of row {row} has {len(nodes)} nodes and {len(parents)} parents")
        for node, parent in enumerate(parents):
            if not -1 <= parent < node:
                raise ModelError(f"in the tree of row {row} the parent of node {node} is node {parent}")


def check_probes(
    trees: Sequence[tuple[Sequence[int], Sequence[int]]], after: Sequence[Sequence[int]]
) -> None:
    """Raise `ModelError` unless embeddings are read after nodes of the trees, or after the end of the row."""
    for row, ((nodes, _), ends) in enumerate(zip(trees, after, strict=True)):
        for end in ends:
            if not -1 <= end < len(nodes):
                raise ModelError(
                    f"embeddings follow node {end} of row {row}, whose tree has {len(nodes)} nodes"
                )


def check_decided(undecided: Collection[int]) -> None:
    """Raise `ModelError` if a row has read a tree and `keep` was not called."""
    if undecided:
        raise ModelError(
            f"rows {sorted(undecided)} have read trees, and keep() was not called for them",
            hint="Call keep(row, nodes) for each row first.",
        )


def check_path(row: int, parents: Sequence[int] | None, nodes: Sequence[int]) -> None:
    """Raise `ModelError` unless the nodes are a path from the root; `parents` are those of the row's tree, if any."""
    if parents is None:
        raise ModelError(f"row {row} has no tree to choose from")
    above = -1
    for node in nodes:
        if not 0 <= node < len(parents) or parents[node] != above:
            raise ModelError(
                f"nodes {list(nodes)} are not a path in the tree of row {row}",
                hint="Each node is a child of the one before it, the first one of the end of the run.",
            )
        above = node
