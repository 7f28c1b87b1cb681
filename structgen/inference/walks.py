"""Walks down a trie of bounds, which draw whole texts: rejection, adaptive rejection, CARS and ASAp.

Let P be the model's distribution of texts (temperature and the cap on tokens are part of it), L the constraint, and Q
be P conditioned on L. A node u is a prefix. Its bound theta(u) is an upper bound of the probability that a text of P
is in L, given that it starts with u (`bound_trie`).

A walk starts at the root and goes from node u to token a with probability p(a|u) * theta(ua) / theta(u). When it
arrives at a node, the bound may have become smaller than the bound that the draw used ("assumed"): a mask was computed,
or another walk has learned something. The walk corrects for this: it continues with probability theta(ua) / assumed (it
survives), and is given up otherwise. The factors cancel along the walk, so a text x of L is drawn with probability
P(x) / theta(root). Hence a walk that ends in a text has drawn it from Q, also while bounds change.

    rejection            learns nothing: tokens are drawn from the model and tested afterwards
    adaptive_rejection   learns each token that was refused
    cars                 learns the mask of each node that it reaches: constrained adaptive rejection sampling. In the
                         published form a new node draws without mask and restarts after a refused token. To survive
                         with the allowed probability and draw with the mask gives the same distribution
    asap                 learns masks as well, and always survives: every walk ends in a text, whose weight is the
                         product of the survival probabilities. Weighted draws are right; unweighted ones tend to Q

Potentials: a prefix that is rejected is a token that is refused. A whole text with the log weight w has the bound w, so
a walk survives its end with probability exp(w) (asap: its weight is multiplied by it). Exact policies need w <= 0.
The cap: a text has at most `max_tokens` tokens before its end; longer ones do not belong to L.
Parallel walks: several walks advance in one batch, on one trie. Their texts are yielded in the order in which the walks
started: walks that end first have shorter texts.
Invariant: given that a walk ends in a text, its distribution is Q (asap: with its weight), for every walk.
Cost: no model call for a known prefix; one row of a forward pass for any other, and none if a draft has read it.
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
from .prefixes import MAX_DISTRIBUTION_BYTES, Distribution, PrefixReader

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
    """The tokens of the text, without the end-of-sequence token."""
    end_token: int | None = None
    accepted: bool = False
    log_weight: float = 0.0
    """asap: log of P(x) over the probability of having drawn x. Otherwise log theta(root) at the start of the walk: the
    probability of all texts of L and of those that were not ruled out by then."""
    log_prob: float = 0.0
    """log P(x) so far."""
    log_mass: float = -math.inf
    """log of P(x) * exp(potentials of x), for an accepted text."""
    lost: str = ""
    """Why it has no text: "constraint", "refused" by a potential, "max_tokens", "no mass", or "given up"."""


@dataclass
class _Slot:
    walk: Walk
    matcher: TextMatcher
    uniforms: Iterator[float]
    path: list[tuple[Node, int]] = field(default_factory=list)
    node: Node | None = None
    assumed: float = 0.0
    """log of the bound theta of the node that was used to draw it."""
    arrived: bool = False
    """Whether the walk has survived at this node."""
    held: Array | None = None
    """The tokens that the node held when its tail was drawn; the token is selected once the distribution is known."""


class Walks:
    """Walks under one prompt, one after the other or in parallel."""

    def __init__(
        self,
        reader: PrefixReader,
        matcher: TextMatcher,
        trie: BoundTrie,
        policy: Policy,
        *,
        parallel: int = 1,
        max_tokens: int = 512,
        max_walks: int | None = None,
        condition: Condition | None = None,
        uniforms: Callable[[int], Iterator[float]],
    ) -> None:
        """Prepare walks.

        Args:
            reader: Reads the model.
            matcher: The matcher at the start of the text.
            trie: What is known so far.
            policy: What walks learn and how they survive.
            parallel: The number of walks that advance together.
            max_tokens: The largest number of tokens of a text.
            max_walks: The largest number of walks.
            condition: The potentials.
            uniforms: From the number of a walk to its uniform numbers.
        """
        self._reader = reader
        self._matcher = matcher
        self.trie = trie
        self._policy = policy
        self._max_tokens = max_tokens
        self._max_walks = max_walks
        self._condition = condition or Condition()
        self._uniforms = uniforms
        self._eos = frozenset(matcher.vocabulary.eos_ids)
        self._slots: list[_Slot | None] = [None] * parallel
        self._laws: OrderedDict[Node, Distribution] = OrderedDict()
        self._started = 0
        self.checks = 0
        """The number of masks or tokens that were tested."""

    def run(self, go_on: Callable[[], bool]) -> Iterator[Walk]:
        """Yield walks that have ended, in the order in which they started.

        The first n texts in this order are an unbiased choice. `go_on` is called before each round; False ends the
        run, and drops the walks that have not ended.
        """
        waiting: dict[int, Walk] = {}
        given = 0
        while go_on():
            self._fill()
            if not any(self._slots):
                return
            for walk in self._round():
                waiting[walk.number] = walk
            while given in waiting:
                yield waiting.pop(given)
                given += 1

    # -- rounds

    def _fill(self) -> None:
        if self.trie.memory > self.trie.limit:
            # subtle: bounds rise when a node is forgotten, so no walk may be in progress; running walks end first.
            if any(self._slots):
                return
            self.trie.trim()
            self._laws.clear()
        for i, slot in enumerate(self._slots):
            if slot is None and (self._max_walks is None or self._started < self._max_walks):
                self._slots[i] = self._start()

    def _start(self) -> _Slot:
        walk = Walk(self._started)
        self._started += 1
        matcher = self._matcher.fork()
        slot = _Slot(walk, matcher, self._uniforms(walk.number), node=self.trie.root)
        if self._policy != "asap" and slot.node is not None:
            slot.assumed = slot.node.step.bound
            walk.log_weight = slot.assumed
        return slot

    def _round(self) -> Iterator[Walk]:
        """Advance each slot as far as the model is known; then read all that need it in one pass."""
        wanted: dict[int, tuple[int, ...]] = {}
        matchers: dict[int, TextMatcher] = {}
        for i, slot in enumerate(self._slots):
            if slot is None:
                continue
            if self._advance(slot, None):
                wanted[i], matchers[i] = tuple(slot.walk.tokens), slot.matcher
            else:
                self._slots[i] = None
                yield slot.walk
        if not wanted:
            return
        for i, distribution in self._reader.read(wanted, matchers).items():
            slot = self._slots[i]
            assert slot is not None
            if not self._advance(slot, distribution):
                self._slots[i] = None
                yield slot.walk

    def _advance(self, slot: _Slot, distribution: Distribution | None) -> bool:
        """Advance a walk until the model has to be read (True) or the walk has ended (False).

        Args:
            slot: The walk.
            distribution: The one at its prefix, if it has just been read.
        """
        while True:
            node, is_new = slot.node, slot.node is None
            if node is None:
                if distribution is None:
                    return True
                node = self._arrive(slot, distribution)
            self.trie.touch(node)
            if not slot.arrived and not self._survives(slot, node):
                leads_nowhere = is_new and node.step.bound == -math.inf
                at_cap = len(slot.walk.tokens) >= self._max_tokens
                slot.walk.lost = "given up" if not leads_nowhere else "max_tokens" if at_cap else "no mass"
                return self._end(slot, node, 0.0)
            slot.arrived = True
            if slot.held is not None or (token := node.step.draw(next(slot.uniforms))) == TAIL:
                if slot.held is None:
                    slot.held = node.step.tokens
                if distribution is None:
                    distribution = self._laws.get(node)
                if distribution is None:
                    return True
                token, assumed = self._draw_rare(slot, node, distribution), 0.0
            else:
                assumed = node.step.bound_of(token)
            distribution = None
            if not self._take(slot, node, token, assumed):
                return False

    def _arrive(self, slot: _Slot, distribution: Distribution) -> Node:
        """Return the node of a prefix that was not known."""
        parent, token = slot.path[-1] if slot.path else (None, 0)
        known = self.trie.root if parent is None else parent.children.get(token)
        if known is None:  # a parallel walk may have added it
            known = self.trie.add(parent, token, self._allowed(slot), distribution)
            self._keep(known, distribution)
        slot.node = known
        return known

    def _allowed(self, slot: _Slot) -> Array | None:
        """Return the mask of the next token as far as the policy uses it; None for all tokens."""
        at_cap = len(slot.walk.tokens) >= self._max_tokens
        if self._policy in ("cars", "asap"):
            self.checks += 1
            return allowed_words(slot.matcher, at_cap=at_cap)
        return slot.matcher.vocabulary.eos_mask if at_cap else None

    def _survives(self, slot: _Slot, node: Node) -> bool:
        bound = node.step.bound
        loss = bound - slot.assumed
        slot.assumed = bound
        if self._policy == "asap":
            slot.walk.log_weight += loss
            return bound > -math.inf
        if bound == -math.inf:
            return False
        return loss >= 0 or math.log1p(-next(slot.uniforms)) < loss

    def _draw_rare(self, slot: _Slot, node: Node, distribution: Distribution) -> int:
        """Return one of the tokens that the node did not hold when its tail was drawn."""
        # subtle: a parallel walk may have drawn one of them, which is held now; its probability is as before.
        allowed = self._allowed(slot)
        assert slot.held is not None
        token = rare_token(distribution, allowed, slot.held, next(slot.uniforms))
        slot.held = None
        self.trie.hold(node, token, allowed, distribution)
        return token

    def _take(self, slot: _Slot, node: Node, token: int, assumed: float) -> bool:
        """Go to `token`, whose bound was `assumed`; return False if the walk has ended."""
        walk = slot.walk
        slot.path.append((node, token))
        walk.log_prob += node.step.log_prob(token)
        if self._policy in ("rejection", "adaptive_rejection"):
            self.checks += 1
        slot.assumed = assumed
        if not slot.matcher.advance(token):
            return self._refuse(slot, "constraint")
        if token in self._eos:
            return self._finish(slot, token)
        child = node.children.get(token)
        if child is None and self._condition.of_prefix(slot.matcher.text) == -math.inf:
            return self._refuse(slot, "refused")
        walk.tokens.append(token)
        slot.node = child
        slot.arrived = False
        return True

    def _refuse(self, slot: _Slot, cause: str) -> bool:
        slot.walk.lost = cause
        return self._end(slot, None, -math.inf)

    def _finish(self, slot: _Slot, token: int) -> bool:
        """End the walk with a text, which the potentials accept or reject."""
        walk = slot.walk
        weight = self._condition.of_text(slot.matcher.text)
        if weight > 0 and self._policy != "asap":
            raise OptionError(
                f"a potential gives the log weight {weight:g} to a text; exact samplers need at most 0",
                hint="Subtract a bound from it, or use a weighted sampler: structgen.inference.SMC() or "
                "structgen.inference.ASAp(). "
                "A predicate returns True or False.",
            )
        if weight == -math.inf:
            return self._refuse(slot, "refused")
        loss = weight - slot.assumed
        if self._policy == "asap":
            walk.log_weight += loss
        elif loss < 0 and math.log1p(-next(slot.uniforms)) >= loss:
            walk.lost = "given up"
            return self._end(slot, None, weight)
        walk.log_mass = walk.log_prob + weight
        walk.end_token = token
        walk.accepted = True
        return self._end(slot, None, weight)

    def _end(self, slot: _Slot, last: Node | None, theta: float) -> bool:
        if self._policy != "rejection":
            self.trie.learn(slot.path, last, theta)
        return False

    def _keep(self, node: Node, distribution: Distribution) -> None:
        self._laws[node] = distribution
        while 2 * len(self._laws) * distribution.log_p.nbytes > MAX_DISTRIBUTION_BYTES:
            self._laws.popitem(last=False)
