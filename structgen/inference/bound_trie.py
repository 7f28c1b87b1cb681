"""What is known of a model and a constraint under one prompt: a sparse trie of laws and of bounds.

Why: exact samplers draw many times under one prompt. What the model said is not asked for again, and what turned out to
lead nowhere is left out of every later draw.
What: a node stands for a prefix. It holds the model's law over the tokens that may follow (those that the mask allows,
or all), as log probabilities of the likely ones and the mass of the others, and for each token an upper bound
theta on the mass of valid completions behind it, 1 (log 0) when nothing is known. `bound` is theta of the node itself,
the sum of p * theta over its tokens.
Invariant: theta never falls below the true mass; everything is in log space; a node forgotten is theta = 1 again,
which is a bound as well, so that forgetting costs draws and never correctness.
Cost: a node is a few hundred bytes and 28 for each likely token, not a vocabulary.
Source: Park et al. 2024 (ASAp); constrained adaptive rejection sampling, 2025.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structgen._core import StepBounds
from structgen.generation.distributions import bits_of, drawn_place

from .prefixes import Law, Prefix

__all__ = ["TAIL", "BoundTrie", "Node", "rare_token"]

Array = NDArray[Any]

TAIL = -1
"""Drawn instead of a token: one of those that are not held one by one."""

_LIKELY = 2.0**-10
"""Tokens that are at least this share of the mass allowed are held one by one: a thousand at most, mostly dozens."""

_FEW = 32
"""A law of so many tokens is held as a whole: to look for the likely ones would take longer."""

_TINY = 1e-20
"""A mass below which a float32 loses digits of the tokens that make it up."""

_TRIMMED_TO = 0.9
"""Of the limit: to look for leaves is not free."""


class Node:
    """A prefix: what follows its parent's prefix by `token`."""

    __slots__ = ("children", "parent", "step", "token")

    def __init__(self, parent: Node | None, token: int, step: StepBounds) -> None:
        self.parent = parent
        self.token = token
        self.step = step
        """The law of what follows, with what is known of each token."""
        self.children: dict[int, Node] = {}

    def memory(self) -> int:
        """Bytes, about."""
        return 400 + 28 * len(self.step)


def rare_token(law: Law, allowed: Array | None, held: Array, uniform: float) -> int:
    """The token that `uniform` selects among those allowed that were not `held` one by one. There must be mass."""
    masses = law.masses.copy() if allowed is None else law.masses * bits_of(allowed, len(law.masses))
    masses[held] = 0
    if float(masses.sum(dtype=np.float64)) < _TINY:
        scores = law.log_p.astype(np.float64)
        if allowed is not None:
            scores[bits_of(allowed, len(scores)) == 0] = -np.inf
        scores[held] = -np.inf
        masses = np.exp(scores - scores.max())
    return drawn_place(masses, uniform)


class BoundTrie:
    """All nodes under one prompt, one constraint and one law of the model.

    `limit` bounds the bytes: what was visited longest ago is forgotten first, when `trim` is called.
    """

    def __init__(self, limit: int = 256 << 20) -> None:
        self.root: Node | None = None
        self.limit = limit
        self._used: OrderedDict[int, Node] = OrderedDict()  # by id; the latest last
        self._bytes = 0

    @property
    def nodes(self) -> int:
        """How many prefixes are known."""
        return len(self._used)

    @property
    def memory(self) -> int:
        """Bytes, about."""
        return self._bytes

    def add(self, parent: Node | None, token: int, allowed: Array | None, law: Law) -> Node:
        """A node for what follows `token` after `parent`; `allowed`: words of a mask, None: all tokens."""
        return self._add(Node(parent, token, StepBounds(law.log_p, law.masses, allowed, _LIKELY, _FEW)))

    def _add(self, node: Node) -> Node:
        if node.parent is None:
            self.root = node
        else:
            node.parent.children[node.token] = node
        self._used[id(node)] = node
        self._bytes += node.memory()
        return node

    def hold(self, node: Node, token: int, allowed: Array | None, law: Law) -> None:
        """Takes a token out of a node's tail, if it is there; the law is as when the node was made."""
        before = node.memory()
        node.step.hold(token, law.log_p, law.masses, allowed)
        self._bytes += node.memory() - before

    def touch(self, node: Node) -> None:
        """It was visited."""
        self._used.move_to_end(id(node))

    def learn(self, path: list[tuple[Node, int]], last: Node | None, theta: float) -> None:
        """What was found out at the end of a walk, for all nodes on its way.

        `path` are the nodes from the root on with the token that was taken at each; behind the last token the bound
        is that of `last`, or `theta`.
        """
        bound = theta if last is None else last.step.bound
        for node, token in reversed(path):
            bound = node.step.learn(token, bound)

    def trim(self) -> int:
        """Forgets leaves until there is room again; how many. No walk may be under way: bounds rise again."""
        forgotten, enough = 0, 0
        while self._bytes > (enough or self.limit):
            enough = int(self.limit * _TRIMMED_TO)
            leaves = [node for node in self._used.values() if not node.children and node.parent]
            for node in leaves:  # the one visited longest ago first; what they hang on are leaves next time
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
        """All nodes, each behind its parent, by when they were visited as far as that goes."""
        order: list[Node] = []
        place: dict[int, int] = {}
        for node in self._used.values():
            way = [node]
            while way[-1].parent is not None and id(way[-1].parent) not in place:
                way.append(way[-1].parent)
            for one in reversed(way):
                if id(one) not in place:
                    place[id(one)] = len(order)
                    order.append(one)
        return order

    def restore(self, parent: Node | None, token: int, step: StepBounds) -> Node:
        """A node as it was."""
        return self._add(Node(parent, token, step))

    def prefix(self, node: Node) -> Prefix:
        """The tokens that lead to a node."""
        tokens: list[int] = []
        while node.parent is not None:
            tokens.append(node.token)
            node = node.parent
        return tuple(reversed(tokens))
