"""Draft trees: tokens that may come next, and after those.

What: nodes in the order in which they were added, each behind its parent; the parent of the first ones is `ROOT`, the
end of what the row has so far. Children of a node are distinct tokens. A chain is a tree whose nodes have one child.
Invariant: a node stands behind its parent, so that the first nodes of a tree are a tree.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from structgen.generation.drafting import ROOT

__all__ = ["ROOT", "DraftTree"]


class DraftTree:
    """See the module's text."""

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.parents: list[int] = []
        self.padding = 0
        """Nodes at the end that are guesses of nobody."""
        self.reach: list[float] = []
        """The chance that the text goes through the node, as it was estimated."""
        self._places: dict[tuple[int, int], int] = {}

    def __len__(self) -> int:
        return len(self.tokens)

    def add(self, parent: int, token: int, reach: float = 1.0) -> int:
        """A child of `parent`; the same token twice is one node."""
        place = self._places.get((parent, token))
        if place is None:
            if not ROOT <= parent < len(self.tokens):
                raise IndexError(f"there is no node {parent} among {len(self.tokens)}")
            place = self._places[parent, token] = len(self.tokens)
            self.tokens.append(token)
            self.parents.append(parent)
            self.reach.append(reach)
        return place

    def has(self, parent: int, token: int) -> bool:
        """Whether the node has such a child."""
        return (parent, token) in self._places

    def path(self, tokens: Sequence[int]) -> list[int]:
        """The nodes that `tokens` go through, from the first on, as far as there are some."""
        found: list[int] = []
        node: int | None = ROOT
        for token in tokens:
            node = self._places.get((ROOT if node is None else node, token))
            if node is None:
                break
            found.append(node)
        return found

    def above(self, node: int) -> Iterator[int]:
        """The node and its ancestors, from below."""
        while node != ROOT:
            yield node
            node = self.parents[node]

    def text_to(self, node: int) -> list[int]:
        """The tokens from the first to that of the node."""
        return [self.tokens[place] for place in self.above(node)][::-1]

    def cut(self, size: int) -> None:
        """Keep the first `size` nodes."""
        for place in range(size, len(self.tokens)):
            del self._places[self.parents[place], self.tokens[place]]
        del self.tokens[size:], self.parents[size:], self.reach[size:]

    @property
    def is_chain(self) -> bool:
        """Whether each node but the last has the next as its child."""
        return all(parent == place - 1 for place, parent in enumerate(self.parents))
