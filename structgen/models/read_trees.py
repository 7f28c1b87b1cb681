"""What sessions that read trees refuse: trees and paths that are none, and other calls before all rows have kept."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from structgen.errors import ModelError

__all__ = ["check_decided", "check_path", "check_trees"]


def check_trees(trees: Sequence[tuple[Sequence[int], Sequence[int]]]) -> None:
    """Each node has a parent, which comes before it."""
    for row, (nodes, parents) in enumerate(trees):
        if len(nodes) != len(parents):
            raise ModelError(f"the tree of row {row} has {len(nodes)} nodes and {len(parents)} parents")
        for node, parent in enumerate(parents):
            if not -1 <= parent < node:
                raise ModelError(f"in the tree of row {row} node {node} stands behind node {parent}")


def check_decided(undecided: Collection[int]) -> None:
    """No row has read a tree of which nobody has said what is kept."""
    if undecided:
        raise ModelError(
            f"rows {sorted(undecided)} have read trees, and nobody has said what they keep",
            hint="Call keep(row, nodes) for each row first.",
        )


def check_path(row: int, parents: Sequence[int] | None, nodes: Sequence[int]) -> None:
    """The nodes are a path from the first one down. `parents`: those of the row's tree, None where there is none."""
    if parents is None:
        raise ModelError(f"row {row} has no tree to choose from")
    above = -1
    for node in nodes:
        if not 0 <= node < len(parents) or parents[node] != above:
            raise ModelError(
                f"nodes {list(nodes)} are no path in the tree of row {row}",
                hint="Each node stands behind the one before it, the first one behind the run.",
            )
        above = node
