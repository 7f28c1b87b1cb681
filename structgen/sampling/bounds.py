"""What is known of a model and a constraint under one prompt: a sparse trie of laws and of bounds.

Why: exact samplers draw many times under one prompt. What the model said is not asked for again, and what turned out to
lead nowhere is left out of every later draw.
What: a node stands for a prefix. It holds the model's law over the tokens that may follow (those that the mask allows,
or all), as log probabilities of the likely ones and the mass of the others, and for each token an upper bound
theta on the mass of valid completions behind it, 1 (log 0) when nothing is known. `bound` is theta of the node itself,
the sum of p * theta over its tokens.
Invariant: theta never falls below the true mass; everything is in log space; a node forgotten is theta = 1 again,
which is a bound as well, so that forgetting costs draws and never correctness.
Cost: a node is a few hundred bytes and 20 for each likely token, not a vocabulary; a draw is one pass over these.
Source: Park et al. 2024 (ASAp); constrained adaptive rejection sampling, 2025.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .law import place_of
from .prefixes import Law, Prefix

__all__ = ["TAIL", "BoundTrie", "Node"]

Array = NDArray[Any]

TAIL = -1
"""Drawn instead of a token: one of those that are not held one by one."""

_LIKELY = 2.0**-10
"""Tokens of at least this probability are held one by one: at most a thousand, mostly a few dozen."""

_FEW = 32
"""A law of so many tokens is held as a whole: to look for the likely ones would take longer."""

_TRIMMED_TO = 0.9
"""Of the limit: to look for leaves is not free."""


class Node:
    """The law after one prefix. `tokens` are sorted; `log_p` and `theta` run along with them."""

    __slots__ = ("_cumulative", "bound", "children", "log_p", "parent", "tail", "theta", "token", "tokens")

    def __init__(self, parent: Node | None, token: int, allowed: Array | None, law: Law) -> None:
        """`allowed`: 1 for each token that may follow, 0 for others; None: all may."""
        self.parent = parent
        self.token = token
        count = len(law.masses) if allowed is None else int(np.count_nonzero(allowed.view(np.bool_)))
        likely = _likely(law, allowed) if count > _FEW else np.empty(0, np.int64)
        is_whole = count <= 2 * len(likely) + _FEW
        if is_whole:
            # Of booleans it is several times as fast.
            likely = np.flatnonzero(law.masses if allowed is None else allowed.view(np.bool_))
            likely = likely[law.masses[likely] > 0]
        self.tokens: Array = likely.astype(np.int32)
        self.log_p: Array = law.log_p[likely].astype(np.float64)
        self.tail = -math.inf if is_whole else _tail(law, allowed, likely)
        if allowed is not None and not len(likely) and self.tail == -math.inf:
            # subtle: probabilities below all that a float32 can tell from 0 are held by their logarithms.
            likely = np.flatnonzero((allowed != 0) & (law.log_p > -math.inf))
            self.tokens = likely.astype(np.int32)
            self.log_p = law.log_p[likely].astype(np.float64)
        self.theta: Array = np.zeros(len(likely))
        self.children: dict[int, Node] = {}
        self.bound = 0.0
        self._cumulative: Array | None = None
        self.settle()

    def settle(self) -> None:
        """Sums the bound up from the tokens'."""
        self._cumulative = None
        scores = self.log_p + self.theta
        peak = max(float(scores.max()) if scores.size else -math.inf, self.tail)
        if peak == -math.inf:
            self.bound = -math.inf
            return
        masses = np.empty(len(scores) + 1)
        np.exp(scores - peak, out=masses[:-1])
        masses[-1] = math.exp(self.tail - peak)
        np.cumsum(masses, out=masses)
        self._cumulative = masses
        self.bound = min(0.0, peak + math.log(masses[-1]))

    def draw(self, uniform: float) -> int:
        """A token, in proportion to p * theta; `TAIL` for one that is not held. There must be mass."""
        assert self._cumulative is not None
        place = place_of(self._cumulative, uniform)
        return TAIL if place == len(self.tokens) else int(self.tokens[place])

    def place(self, token: int) -> int:
        """Where a token is held."""
        place = int(np.searchsorted(self.tokens, token))
        assert place < len(self.tokens) and self.tokens[place] == token
        return place

    def hold(self, token: int, allowed: Array | None, law: Law) -> None:
        """Takes a token out of the tail, if it is there; the law is as when the node was made."""
        place = int(np.searchsorted(self.tokens, token))
        if place < len(self.tokens) and self.tokens[place] == token:
            return
        self.tokens = np.insert(self.tokens, place, token)
        self.log_p = np.insert(self.log_p, place, float(law.log_p[token]))
        self.theta = np.insert(self.theta, place, 0.0)
        self.tail = _tail(law, allowed, self.tokens)
        self.settle()

    def memory(self) -> int:
        """Bytes, about."""
        return 400 + 28 * len(self.tokens)


def _likely(law: Law, allowed: Array | None) -> Array:
    """The tokens that are held one by one, unless all are."""
    likely = np.flatnonzero(law.masses >= _LIKELY)
    return likely if allowed is None else likely[allowed[likely] != 0]


def _tail(law: Law, allowed: Array | None, held: Array) -> float:
    """The log mass of what may follow and is not held."""
    # Summed up by itself: what the whole leaves of it would be rounding, mostly.
    rest = np.ones(len(law.masses), law.masses.dtype) if allowed is None else allowed.astype(law.masses.dtype)
    rest[held] = 0
    left = float(np.dot(law.masses, rest))
    return math.log(left) if left > 0 else -math.inf


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
        """A node for what follows `token` after `parent`."""
        return self._add(Node(parent, token, allowed, law))

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
        node.hold(token, allowed, law)
        self._bytes += node.memory() - before

    def touch(self, node: Node) -> None:
        """It was visited."""
        self._used.move_to_end(id(node))

    def learn(self, path: list[tuple[Node, int]], last: Node | None, theta: float) -> None:
        """What was found out at the end of a walk, for all nodes on its way.

        `path` are the nodes from the root on with the token that was taken at each; behind the last token the bound
        is that of `last`, or `theta`.
        """
        bound = theta if last is None else last.bound
        for node, token in reversed(path):
            place = node.place(token)
            if node.theta[place] != bound:
                node.theta[place] = bound
                node.settle()
            bound = node.bound

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
            parent.theta[parent.place(token)] = bound
            parent.settle()
            bound, token, parent = parent.bound, parent.token, parent.parent

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

    def restore(self, parent: Node | None, token: int, law: tuple[Array, Array, Array, float]) -> Node:
        """A node as it was: its tokens, their log probabilities and bounds, and the log mass of the others."""
        node = Node.__new__(Node)
        node.parent, node.token = parent, token
        node.tokens, node.log_p, node.theta, node.tail = law
        node.children = {}
        node.bound = 0.0
        node.settle()
        return self._add(node)

    def prefix(self, node: Node) -> Prefix:
        """The tokens that lead to a node."""
        tokens: list[int] = []
        while node.parent is not None:
            tokens.append(node.token)
            node = node.parent
        return tuple(reversed(tokens))
