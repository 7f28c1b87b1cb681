"""Draws of whole texts by walks down a trie of bounds: rejection, adaptive rejection, CARS and ASAp.

Let P be the model's law of texts (temperature and the cap on tokens are part of it), L the constraint, Q = P given L.
A walk starts at the root and goes from node u to token a in proportion to p(a|u) * theta(ua). Since theta was, when u
was chosen, assumed to be some value and may be known to be smaller by now, the walk goes on with probability
theta(u) / assumed, and is given up otherwise ("survival"). So a text x of L comes out with probability
P(x) / theta(root), whatever was learned on the way and by whom: given that a walk ends in a text, it is drawn from Q.

    rejection            learns nothing: tokens are drawn from the model and looked at afterwards
    adaptive_rejection   learns each token that was refused
    cars                 learns the mask of each node that it comes to: constrained adaptive rejection sampling. To draw
                         unmasked at a new node and to start again after a refused token, as it is published, is the
                         same law as to survive with the allowed mass and to draw masked
    asap                 learns masks as well, and survives always: every walk ends in a text, whose weight is the
                         product of what it would have had to survive. Weighted draws are right; unweighted ones tend
                         to Q

Potentials: a beginning that is refused is a token that is refused. A whole text with the log weight w has the bound w,
so that a walk survives its end with probability exp(w) (asap: weighs as much more). Exact policies need w of at most 0.
The cap: a text has at most `max_tokens` tokens before its end; longer ones are no part of L.
Lanes: several walks may be under way in one batch, on one trie. Their texts are given out in the order in which the
walks began: those that end first are shorter ones.
Invariant: given that a walk ends in a text, its law is Q (asap: with its weight), for every walk, also the first.
Cost: no model call for a prefix that is known; one row of a forward pass for each other, none where it was read ahead.
Source: Park et al. 2024 (ASAp).
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from numpy.typing import NDArray

from structgen.errors import OptionError
from structgen.generation.distributions import allowed_words
from structgen.generation.potentials import Condition

from .bound_trie import TAIL, BoundTrie, Node, rare_token
from .prefixes import LAWS_KEPT, Law, PrefixReader

if TYPE_CHECKING:
    from structgen.protocols import TextMatcher

__all__ = ["Policy", "Walk", "Walks"]

Array = NDArray[Any]
Policy = Literal["rejection", "adaptive_rejection", "cars", "asap"]


@dataclass
class Walk:
    """One attempt at a text."""

    number: int
    tokens: list[int] = field(default_factory=list)
    """Without the end-of-text token."""
    end_token: int | None = None
    accepted: bool = False
    log_weight: float = 0.0
    """asap: log of P(x) over the probability of having drawn x. Otherwise log theta(root) when the walk began, the
    mass that its texts have together with those that were not known to be wrong."""
    log_prob: float = 0.0
    """log P(x) so far."""
    log_mass: float = -math.inf
    """log of P(x) * exp(potentials of x), of a text that was accepted."""
    lost: str = ""
    """What it came to nothing by: "constraint", "refused" by a potential, "max_tokens", "no mass", or "given up"."""


@dataclass
class _Lane:
    walk: Walk
    matcher: TextMatcher
    uniforms: Iterator[float]
    path: list[tuple[Node, int]] = field(default_factory=list)
    node: Node | None = None
    assumed: float = 0.0
    """log theta of the node, as it was when it was chosen."""
    arrived: bool = False
    """Has it survived at this node?"""
    held: Array | None = None
    """The tokens that the node held when one was drawn that it does not; which one is found when the law is there."""


class Walks:
    """Walks under one prompt, one after the other or several at a time."""

    def __init__(
        self,
        reader: PrefixReader,
        matcher: TextMatcher,
        trie: BoundTrie,
        policy: Policy,
        *,
        lanes: int = 1,
        max_tokens: int = 512,
        max_walks: int | None = None,
        condition: Condition | None = None,
        uniforms: Callable[[int], Iterator[float]],
    ) -> None:
        """`uniforms` gives those of each walk by its number; `matcher` stands at the beginning of the text."""
        self._reader = reader
        self._matcher = matcher
        self.trie = trie
        self._policy = policy
        self._max_tokens = max_tokens
        self._max_walks = max_walks
        self._condition = condition or Condition()
        self._uniforms = uniforms
        self._eos = frozenset(matcher.vocabulary.eos_ids)
        self._lanes: list[_Lane | None] = [None] * lanes
        self._laws: OrderedDict[Node, Law] = OrderedDict()
        self._started = 0
        self.checks = 0
        """Masks that were made, or tokens that were looked at."""

    def run(self, go_on: Callable[[], bool]) -> Iterator[Walk]:
        """Walks that have ended, in the order in which they began, until `go_on` says no before a round.

        Walks that are under way then are dropped. Whoever takes the first n texts takes them in this order.
        """
        waiting: dict[int, Walk] = {}
        given = 0
        while go_on():
            self._fill()
            if not any(self._lanes):
                return
            for walk in self._round():
                waiting[walk.number] = walk
            while given in waiting:
                yield waiting.pop(given)
                given += 1

    # -- rounds

    def _fill(self) -> None:
        if self.trie.memory > self.trie.limit:
            # subtle: bounds rise when a node is forgotten, so no walk may be under way; those that are end first.
            if any(self._lanes):
                return
            self.trie.trim()
            self._laws.clear()
        for i, lane in enumerate(self._lanes):
            if lane is None and (self._max_walks is None or self._started < self._max_walks):
                self._lanes[i] = self._start()

    def _start(self) -> _Lane:
        walk = Walk(self._started)
        self._started += 1
        matcher = self._matcher.fork()
        lane = _Lane(walk, matcher, self._uniforms(walk.number), node=self.trie.root)
        if self._policy != "asap" and lane.node is not None:
            lane.assumed = lane.node.step.bound
            walk.log_weight = lane.assumed
        return lane

    def _round(self) -> Iterator[Walk]:
        """Each lane goes as far as it knows the model; then all that have to read read together."""
        wanted: dict[int, tuple[int, ...]] = {}
        matchers: dict[int, TextMatcher] = {}
        for i, lane in enumerate(self._lanes):
            if lane is None:
                continue
            if self._advance(lane, None):
                wanted[i], matchers[i] = tuple(lane.walk.tokens), lane.matcher
            else:
                self._lanes[i] = None
                yield lane.walk
        if not wanted:
            return
        for i, law in self._reader.read(wanted, matchers).items():
            lane = self._lanes[i]
            assert lane is not None
            if not self._advance(lane, law):
                self._lanes[i] = None
                yield lane.walk

    def _advance(self, lane: _Lane, law: Law | None) -> bool:
        """Goes on until the model has to be read (True), or the walk has ended (False).

        `law`: that at this prefix, where it has just been read.
        """
        while True:
            node, is_new = lane.node, lane.node is None
            if node is None:
                if law is None:
                    return True
                node = self._arrive(lane, law)
            self.trie.touch(node)
            if not lane.arrived and not self._survives(lane, node):
                leads_nowhere = is_new and node.step.bound == -math.inf
                at_cap = len(lane.walk.tokens) >= self._max_tokens
                lane.walk.lost = "given up" if not leads_nowhere else "max_tokens" if at_cap else "no mass"
                return self._end(lane, node, 0.0)
            lane.arrived = True
            if lane.held is not None or (token := node.step.draw(next(lane.uniforms))) == TAIL:
                if lane.held is None:
                    lane.held = node.step.tokens
                if law is None:
                    law = self._laws.get(node)
                if law is None:
                    return True
                token, assumed = self._draw_rare(lane, node, law), 0.0
            else:
                assumed = node.step.bound_of(token)
            law = None
            if not self._take(lane, node, token, assumed):
                return False

    def _arrive(self, lane: _Lane, law: Law) -> Node:
        """A node for a prefix that was not known."""
        parent, token = lane.path[-1] if lane.path else (None, 0)
        known = self.trie.root if parent is None else parent.children.get(token)
        if known is None:  # another lane may have been quicker
            known = self.trie.add(parent, token, self._allowed(lane), law)
            self._keep(known, law)
        lane.node = known
        return known

    def _allowed(self, lane: _Lane) -> Array | None:
        """The tokens that may follow, as far as the policy asks, as words of a mask; None: all."""
        at_cap = len(lane.walk.tokens) >= self._max_tokens
        if self._policy in ("cars", "asap"):
            self.checks += 1
            return allowed_words(lane.matcher, at_cap=at_cap)
        return lane.matcher.vocabulary.eos_mask if at_cap else None

    def _survives(self, lane: _Lane, node: Node) -> bool:
        bound = node.step.bound
        loss = bound - lane.assumed
        lane.assumed = bound
        if self._policy == "asap":
            lane.walk.log_weight += loss
            return bound > -math.inf
        if bound == -math.inf:
            return False
        return loss >= 0 or math.log1p(-next(lane.uniforms)) < loss

    def _draw_rare(self, lane: _Lane, node: Node, law: Law) -> int:
        """One of the tokens that were not held when it was decided that it is one of those."""
        # subtle: another lane may have drawn one of them meanwhile, which is held now; it is as likely as before.
        allowed = self._allowed(lane)
        assert lane.held is not None
        token = rare_token(law, allowed, lane.held, next(lane.uniforms))
        lane.held = None
        self.trie.hold(node, token, allowed, law)
        return token

    def _take(self, lane: _Lane, node: Node, token: int, assumed: float) -> bool:
        """Goes to `token`, whose bound was `assumed`; False where the walk has ended."""
        walk = lane.walk
        lane.path.append((node, token))
        walk.log_prob += node.step.log_prob(token)
        if self._policy in ("rejection", "adaptive_rejection"):
            self.checks += 1
        lane.assumed = assumed
        if not lane.matcher.advance(token):
            return self._refuse(lane, "constraint")
        if token in self._eos:
            return self._finish(lane, token)
        child = node.children.get(token)
        if child is None and self._condition.of_prefix(lane.matcher.text) == -math.inf:
            return self._refuse(lane, "refused")
        walk.tokens.append(token)
        lane.node = child
        lane.arrived = False
        return True

    def _refuse(self, lane: _Lane, cause: str) -> bool:
        lane.walk.lost = cause
        return self._end(lane, None, -math.inf)

    def _finish(self, lane: _Lane, token: int) -> bool:
        """The walk's text has ended; what potentials say of it decides."""
        walk = lane.walk
        weight = self._condition.of_text(lane.matcher.text)
        if weight > 0 and self._policy != "asap":
            raise OptionError(
                f"a potential gives the log weight {weight:g} to a text; exact sampling needs at most 0",
                hint="Subtract a bound from it, or use a weighted sampler: structgen.SMC(), structgen.ASAp(). "
                "A predicate returns True or False.",
            )
        if weight == -math.inf:
            return self._refuse(lane, "refused")
        loss = weight - lane.assumed
        if self._policy == "asap":
            walk.log_weight += loss
        elif loss < 0 and math.log1p(-next(lane.uniforms)) >= loss:
            walk.lost = "given up"
            return self._end(lane, None, weight)
        walk.log_mass = walk.log_prob + weight
        walk.end_token = token
        walk.accepted = True
        return self._end(lane, None, weight)

    def _end(self, lane: _Lane, last: Node | None, theta: float) -> bool:
        if self._policy != "rejection":
            self.trie.learn(lane.path, last, theta)
        return False

    def _keep(self, node: Node, law: Law) -> None:
        self._laws[node] = law
        while 2 * len(self._laws) * law.log_p.nbytes > LAWS_KEPT:
            self._laws.popitem(last=False)
