"""Draft trees.

What: nodes in the order in which they were added, each with a token and a parent. The parent of the first ones is
`ROOT`, the end of the row. Children of a node have distinct tokens. A chain is a tree whose nodes have one child each.
Invariant: a parent comes before its children, so the first nodes of a tree are a tree.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from structgen.generation.drafting import ROOT

__all__ = ["ROOT", "DraftTree"]


class DraftTree:
    """A tree of draft tokens."""

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.parents: list[int] = []
        self.padding = 0
        """The number of padding nodes at the end, which are no drafts."""
        self.reach: list[float] = []
        """The estimated probability that the text passes through each node."""
        self.probes: list[int] = []
        """The nodes, or `ROOT`, after which a drafter's embeddings are read."""
        self._indices: dict[tuple[int, int], int] = {}

    def __len__(self) -> int:
        return len(self.tokens)

    def add(self, parent: int, token: int, reach: float = 1.0) -> int:
        """Add a child of `parent` and return it; a child with the same token is returned as it is."""
        index = self._indices.get((parent, token))
        if index is None:
            if not ROOT <= parent < len(self.tokens):
                raise IndexError(f"there is no node {parent} among {len(self.tokens)}")
            index = self._indices[parent, token] = len(self.tokens)
            self.tokens.append(token)
            self.parents.append(parent)
            self.reach.append(reach)
        return index

    def has(self, parent: int, token: int) -> bool:
        """Return whether the node has a child with this token."""
        return (parent, token) in self._indices

    def path(self, tokens: Sequence[int]) -> list[int]:
        """Return the nodes along `tokens`, as far as the tree has them."""
        path: list[int] = []
        node: int | None = ROOT
        for token in tokens:
            node = self._indices.get((ROOT if node is None else node, token))
            if node is None:
                break
            path.append(node)
        return path

    def above(self, node: int) -> Iterator[int]:
        """Yield the node and its ancestors, the node first."""
        while node != ROOT:
            yield node
            node = self.parents[node]

    def text_to(self, node: int) -> list[int]:
        """Return the tokens on the path to the node, its own last."""
        return [self.tokens[index] for index in self.above(node)][::-1]

    def cut(self, size: int) -> None:
        """Keep the first `size` nodes."""
        for index in range(size, len(self.tokens)):
            del self._indices[self.parents[index], self.tokens[index]]
        del self.tokens[size:], self.parents[size:], self.reach[size:]

    def likely_ends(self, most: int) -> list[int]:
        """Return the nodes, or `ROOT`, after which the text most probably leaves the tree, the first one first."""
        chances = [1.0, *self.reach]
        for parent, reach in zip(self.parents, self.reach, strict=True):
            chances[parent + 1] -= reach
        return [place - 1 for place in sorted(range(len(chances)), key=lambda place: -chances[place])[:most]]

    @property
    def is_chain(self) -> bool:
        """Whether each node has at most one child, the next node."""
        return all(parent == index - 1 for index, parent in enumerate(self.parents))
