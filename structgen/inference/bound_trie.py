"""A sparse trie of next-token distributions and bounds: what is known of a model and a constraint under one prompt.

Why: exact samplers draw many times under one prompt. A distribution is read once, and a prefix that leads nowhere is
excluded from every later draw.
What: a node stands for a prefix. It holds the model's distribution over the tokens that may follow (those that the mask
allows, or all): log probabilities of the likely tokens and the total of the others, the *tail*. For each token it has
an upper bound theta on the probability of valid completions after it, which is 1 (log 0) if nothing is known. `bound`
is theta of the node itself, the sum of p * theta over its tokens.
Invariant: theta is never below the true probability. All is in log space. A forgotten node has theta = 1 again, which
is a bound as well: forgetting costs draws and never correctness.
Cost: a node takes a few hundred bytes plus 28 for each likely token, not a vocabulary.
Source: Park et al. 2024 (ASAp); constrained adaptive rejection sampling, 2025.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structgen._core import StepBounds
from structgen.generation.distributions import bits_of, sample_index_by_blocks

from .prefixes import Distribution, Prefix

__all__ = ["TAIL", "BoundTrie", "Node", "rare_token"]

Array = NDArray[Any]

TAIL = -1
"""Drawn instead of a token: one of the tail, whose tokens are not held one by one."""

_LIKELY_FRACTION = 2.0**-10
"""Tokens with at least this fraction of the allowed probability are held one by one: dozens, at most a thousand."""

_MAX_HELD_WHOLE = 32
"""A distribution over at most this many tokens is held as a whole, which is faster than selecting the likely ones."""

_SMALLEST_EXACT_SUM = 1e-20
"""A probability below which float32 loses digits of the tokens that it is the sum of."""

_TRIMMED_FRACTION = 0.9
"""Fraction of the limit to which `trim` reduces the memory, because searching for leaves is not free."""


class Node:
    """A prefix: the prefix of its parent, followed by `token`."""

    __slots__ = ("children", "parent", "step", "token")

    def __init__(self, parent: Node | None, token: int, step: StepBounds) -> None:
        self.parent = parent
        self.token = token
        self.step = step
        """The distribution of the next token, with the bound of each token."""
        self.children: dict[int, Node] = {}

    def memory(self) -> int:
        """Return the approximate size in bytes."""
        return 400 + 28 * len(self.step)


def rare_token(distribution: Distribution, allowed: Array | None, held: Array, uniform: float) -> int:
    """Return the token that `uniform` selects among the allowed ones not `held`; their total must be positive."""
    masses = (
        distribution.masses.copy()
        if allowed is None
        else distribution.masses * bits_of(allowed, len(distribution.masses))
    )
    masses[held] = 0
    if float(masses.sum(dtype=np.float64)) < _SMALLEST_EXACT_SUM:
        scores = distribution.log_p.astype(np.float64)
        if allowed is not None:
            scores[bits_of(allowed, len(scores)) == 0] = -np.inf
        scores[held] = -np.inf
        masses = np.exp(scores - scores.max())
    return sample_index_by_blocks(masses, uniform)


class BoundTrie:
    """All nodes under one prompt, one constraint and one model.

    Args:
        limit: The largest memory in bytes. `trim` removes the least recently visited nodes first.
    """

    def __init__(self, limit: int = 256 << 20) -> None:
        self.root: Node | None = None
        self.limit = limit
        self._used: OrderedDict[int, Node] = OrderedDict()  # by id; the last visited one last
        self._bytes = 0

    @property
    def nodes(self) -> int:
        """The number of known prefixes."""
        return len(self._used)

    @property
    def memory(self) -> int:
        """The approximate size in bytes."""
        return self._bytes

    def add(self, parent: Node | None, token: int, allowed: Array | None, distribution: Distribution) -> Node:
        """Add the node of `token` after `parent`; `allowed` is a mask (int32 words), or None for all tokens."""
        return self._add(
            Node(
                parent,
                token,
                StepBounds(
                    distribution.log_p, distribution.masses, allowed, _LIKELY_FRACTION, _MAX_HELD_WHOLE
                ),
            )
        )

    def _add(self, node: Node) -> Node:
        if node.parent is None:
            self.root = node
        else:
            node.parent.children[node.token] = node
        self._used[id(node)] = node
        self._bytes += node.memory()
        return node

    def hold(self, node: Node, token: int, allowed: Array | None, distribution: Distribution) -> None:
        """Move a token from a node's tail to those held one by one; `distribution` is as when the node was made."""
        before = node.memory()
        node.step.store(token, distribution.log_p, distribution.masses, allowed)
        self._bytes += node.memory() - before

    def touch(self, node: Node) -> None:
        """Note that the node was visited."""
        self._used.move_to_end(id(node))

    def learn(self, path: list[tuple[Node, int]], last: Node | None, theta: float) -> None:
        """Update the bounds of all nodes on a path after a walk.

        Args:
            path: The nodes from the root on, with the token that was taken at each.
            last: The node after the last token, whose bound applies; None if `theta` applies.
            theta: The log bound after the last token.
        """
        bound = theta if last is None else last.step.bound
        for node, token in reversed(path):
            bound = node.step.learn(token, bound)

    def trim(self) -> int:
        """Remove leaves until the limit holds; return their number. No walk may be in progress: bounds rise."""
        forgotten, enough = 0, 0
        while self._bytes > (enough or self.limit):
            enough = int(self.limit * _TRIMMED_FRACTION)
            leaves = [node for node in self._used.values() if not node.children and node.parent]
            for (
                node
            ) in leaves:  # the least recently visited one first; their parents are leaves the next time
                if self._bytes <= enough:
                    break
                self._forget(node)
                forgotten += 1
            if not leaves:
                break
        return forgotten

    def _forget(self, node: Node) -> None:
        assert node.parent is not None
        del self._used[id(node)]
        self._bytes -= node.memory()
        parent: Node | None = node.parent
        del node.parent.children[node.token]
        bound, token = 0.0, node.token
        while parent is not None:
            bound = parent.step.learn(token, bound)
            token, parent = parent.token, parent.parent

    def in_order(self) -> list[Node]:
        """Return all nodes, each after its parent, as far as possible in the order of their last visit."""
        order: list[Node] = []
        position_of: dict[int, int] = {}
        for node in self._used.values():
            path = [node]
            while path[-1].parent is not None and id(path[-1].parent) not in position_of:
                path.append(path[-1].parent)
            for ancestor in reversed(path):
                if id(ancestor) not in position_of:
                    position_of[id(ancestor)] = len(order)
                    order.append(ancestor)
        return order

    def restore(self, parent: Node | None, token: int, step: StepBounds) -> Node:
        """Add a node with a given step."""
        return self._add(Node(parent, token, step))

    def prefix(self, node: Node) -> Prefix:
        """Return the tokens that lead to a node."""
        tokens: list[int] = []
        while node.parent is not None:
            tokens.append(node.token)
            node = node.parent
        return tuple(reversed(tokens))
