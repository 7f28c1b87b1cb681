"""Parse a text that has been cut into terminals: find which rule derives which part of it.

Why: captures are the texts of rules, and the core's parser keeps only what determines the continuation.
Invariant: of several parses, the result is the first in an order that does not depend on the search. From the start
down, each rule takes the first alternative that fits its text. In a sequence or repetition each item, from left to
right, is as long as possible; repetitions skip items without text. A rule that derives itself over the same text is
not followed.
Cost: at most cubic in the positions, and linear for unambiguous grammars with a lexer. `STEPS` bounds it.
Source: Scott and Johnstone, "GLL parsing" (2010).

The text is a graph: its vertices (*places*, numbered from 0, the start) are boundaries between terminals, its edges are
terminals. `Matcher.trace` of the core returns it. A *key* is a node of the grammar and the place where its text begins.
The chart stores where the texts of each key end. It is filled from the start rule on; continuations wait at each key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from structgen.errors import LimitExceeded
from structgen.ir.grammar import Body, Rule

from .strong_components import strong_components

__all__ = ["STEPS", "Event", "Parse", "Trace"]

STEPS = 2_000_000
"""The most steps in the chart for one text; they take some seconds."""


class Trace(NamedTuple):
    """All segmentations of a text into terminals."""

    positions: Sequence[int]
    """For each place, the number of units of the text before it."""
    accepting: Sequence[bool]
    """For each place, whether the text may end there."""
    edges: Sequence[tuple[int, int, int]]
    """A place, a terminal that begins there, and the place after it."""
    open: Sequence[tuple[int, int]]
    """The state at the end of the text: a place, and the terminal that starts there (-1: none)."""


class Event(NamedTuple):
    """A step of a parse, from left to right: a rule begins or ends, or a terminal occurs between two places."""

    kind: str
    """``"begin"``, ``"end"``, ``"leaf"``, or ``"open"`` for a terminal that is incomplete at the end of the text."""
    rule: Rule | None
    leaf: Body | None
    start: int
    end: int
    """The place of the end. For ``"begin"`` and ``"open"`` it equals `start`."""


class _Node:
    """A body, with its items as node numbers."""

    __slots__ = ("body", "high", "inner", "is_cyclic", "is_empty", "kind", "low", "rule", "terminal")

    def __init__(self, kind: str, body: Body) -> None:
        self.kind = kind
        self.body = body
        self.inner: list[int] = []
        self.low, self.high = 0, None if kind != "repeat" else body[3]
        self.rule: Rule | None = None
        self.terminal: int | None = None
        self.is_empty = False
        self.is_cyclic = False

    def step(self, state: int) -> tuple[int, int] | None:
        """Return the item of a sequence or repetition that may follow in this state, and the state after it."""
        if self.kind == "repeat":
            if self.high is not None and state >= self.high:
                return None
            return self.inner[0], min(state + 1, self.low if self.high is None else self.high)
        return (self.inner[state], state + 1) if state < len(self.inner) else None


_Key = tuple[int, int]
"""The number of a node, and a place."""


class Parse:
    """The chart of one text.

    Args:
        rules: The rules of the grammar, by name.
        start: The name of the rule that the text matches.
        terminals: The number of each terminal body in the trace.
        has_empty: Returns whether a terminal body accepts the empty text.
        trace: The text.

    Raises:
        LimitExceeded: The text is too ambiguous (`STEPS`).
    """

    def __init__(
        self,
        rules: Mapping[str, Rule],
        start: str,
        terminals: Mapping[Body, int],
        has_empty: Callable[[Body], bool],
        trace: Trace,
    ) -> None:
        self._rules = rules
        self._terminals = terminals
        self._has_empty = has_empty
        self._trace = trace
        self._nodes: list[_Node] = []
        self._numbers: dict[int, int] = {}
        self._rule_numbers: dict[str, int] = {}
        self._steps = 0
        self._ends: dict[_Key, dict[int, int]] = {}
        self._waiting: dict[_Key, list[tuple[_Key, int]]] = {}
        self._fresh: list[_Key] = []
        """The keys that are not predicted yet."""
        self._moved: list[tuple[_Key, int, int]] = []
        """The continuations that are still to be followed: a key, a state and a place."""
        last = max(trace.positions, default=0)
        ends = [
            place
            for place, position in enumerate(trace.positions)
            if position == last and trace.accepting[place]
        ]
        self._whole = ends[0] if ends else None
        """The place where the text may end. Several such places are merged into one."""
        self._after: dict[tuple[int, int], list[int]] = {}
        for place, terminal, to in trace.edges:
            after = self._after.setdefault((place, terminal), [])
            if to in ends and self._whole is not None:
                to = self._whole
            if to not in after:
                after.append(to)
        root = self._rule(start)
        _mark_cycles(self._nodes)
        self._root: _Key = (root, 0)
        self._fill()

    # -- the grammar

    def _rule(self, name: str) -> int:
        """Return the number of a rule after numbering its body and all rules that it uses."""
        pending = [name]
        while pending:
            used = pending.pop()
            number = self._rule_number(used)
            if self._nodes[number].inner:
                continue
            self._nodes[number].inner = [self._number(self._rules[used].body, pending)]
        return self._rule_number(name)

    def _rule_number(self, name: str) -> int:
        number = self._rule_numbers.get(name)
        if number is None:
            part = _Node("rule", ("rule", name))
            part.rule = self._rules[name]
            number = self._rule_numbers[name] = len(self._nodes)
            self._nodes.append(part)
        return number

    def _number(self, body: Body, pending: list[str]) -> int:
        """Return the number of a body. Recursion is safe, since readers limit the depth (limit grammar_depth)."""
        known = self._numbers.get(id(body))
        if known is not None:
            return known
        kind = body[0]
        if kind == "rule":
            number = self._rule_number(body[1])
            if not self._nodes[number].inner:
                pending.append(body[1])
            return number
        part = _Node(kind if kind in ("sequence", "choice", "repeat") else "leaf", body)
        if part.kind == "leaf":
            part.terminal = self._terminals.get(body)
            part.is_empty = self._has_empty(body)
        elif kind == "repeat":
            part.low = body[2]
            part.inner = [self._number(body[1], pending)]
        else:
            part.inner = [self._number(inner, pending) for inner in body[1]]
        number = self._numbers[id(body)] = len(self._nodes)
        self._nodes.append(part)
        return number

    # -- the chart

    def _count(self, steps: int = 1) -> None:
        self._steps += steps
        if self._steps > STEPS:
            raise LimitExceeded(
                f"parsing the text for captures takes more than {STEPS} steps",
                limit="capture_steps",
                hint="The grammar is ambiguous. Rewrite its rules so that each text has one parse.",
            )

    def _fill(self) -> None:
        """Fill the chart. A continuation is a key and a state: the number of items or rounds that are complete."""
        self._waiting[self._root] = []
        self._ends[self._root] = {}
        self._fresh.append(self._root)
        seen: set[tuple[_Key, int, int]] = set()
        while self._fresh or self._moved:
            self._count()
            if self._moved:
                continuation = key, state, at = self._moved.pop()
            else:
                key = self._fresh.pop()
                if self._nodes[key[0]].kind not in ("sequence", "repeat"):
                    self._predict(key)
                    continue
                continuation = key, state, at = key, 0, key[1]
            if self._nodes[key[0]].kind in ("rule", "choice"):
                self._add_end(key, at)
            elif continuation not in seen:
                seen.add(continuation)
                self._continue(key, state, at)

    def _predict(self, key: _Key) -> None:
        """Start a leaf, a rule or a choice at the place of the key."""
        number, at = key
        part = self._nodes[number]
        if part.kind != "leaf":
            for inner in part.inner:
                self._wait_for((inner, at), key, 0)
            return
        if part.is_empty:
            self._add_end(key, at)
        if part.terminal is not None:
            for end in self._after.get((at, part.terminal), ()):
                self._add_end(key, end)

    def _continue(self, key: _Key, state: int, at: int) -> None:
        """Continue a sequence or a repetition after `state` items or rounds, at a place."""
        part = self._nodes[key[0]]
        if part.kind == "sequence":
            if state == len(part.inner):
                self._add_end(key, at)
            else:
                self._wait_for((part.inner[state], at), key, state + 1)
            return
        if state >= part.low or part.inner[0] in self._empties():
            self._add_end(key, at)
        if part.high is None or state < part.high:
            most = part.low if part.high is None else part.high
            self._wait_for((part.inner[0], at), key, min(state + 1, most))

    def _wait_for(self, key: _Key, parent: _Key, state: int) -> None:
        """Continue `parent` in this state wherever `key` ends, now or later."""
        waiting = self._waiting.get(key)
        if waiting is None:
            waiting = self._waiting[key] = []
            self._ends[key] = {}
            self._fresh.append(key)
        waiting.append((parent, state))
        self._count(len(self._ends[key]))
        self._moved.extend((parent, state, end) for end in self._ends[key])

    def _add_end(self, key: _Key, end: int) -> None:
        """Record that a text of `key` ends at this place, and continue what waits for it."""
        ends = self._ends[key]
        if end in ends:
            return
        ends[end] = self._steps
        self._count(1 + len(self._waiting[key]))
        self._moved.extend((parent, state, end) for parent, state in self._waiting[key])

    def _empties(self) -> frozenset[int]:
        if not hasattr(self, "_empty_nodes"):
            self._empty_nodes = frozenset(n for n, part in enumerate(self._nodes) if part.is_empty)
        return self._empty_nodes

    # -- a parse

    def events(self) -> Iterator[Event]:
        """Yield the parse of the text, or of the prefix that exists if the text is incomplete.

        A rule that is incomplete has no ``"end"``.
        """
        if self._whole is not None and self._whole in self._ends[self._root]:
            yield from self._derived(self._root, self._whole)
        elif self._trace.open:
            yield from self._unfinished()

    def _derived(self, root: _Key, root_end: int) -> Iterator[Event]:
        pending: list[Event | tuple[_Key, int]] = [(root, root_end)]
        while pending:
            self._count()
            now = pending.pop()
            if isinstance(now, Event):
                yield now
                continue
            key, end = now
            part = self._nodes[key[0]]
            if part.kind == "leaf":
                if end != key[1]:
                    yield Event("leaf", None, part.body, key[1], end)
                continue
            if part.kind == "rule":
                yield Event("begin", part.rule, None, key[1], key[1])
                pending.append(Event("end", part.rule, None, key[1], end))
            pending.extend(reversed(self._inside(key, end)))

    def _inside(self, key: _Key, end: int) -> list[tuple[_Key, int]]:
        """Return the children of a key whose text ends at a place."""
        part = self._nodes[key[0]]
        at = key[1]
        if part.kind == "rule":
            return [((part.inner[0], at), end)]
        if part.kind == "choice":
            for inner in part.inner:
                if self._fits((inner, at), end, key, end):
                    return [((inner, at), end)]
            raise AssertionError("an end without an alternative")
        return self._chain(key, end)

    def _fits(self, inner: _Key, end: int, key: _Key, key_end: int) -> bool:
        """Return whether `inner` has this end as a child of `key`, derived without `key` itself."""
        serial = self._ends.get(inner, {}).get(end)
        if serial is None:
            return False
        if inner[1] == key[1] and end == key_end and self._nodes[inner[0]].is_cyclic:
            return serial < self._ends[key][key_end]
        return True

    def _chain(self, key: _Key, end: int) -> list[tuple[_Key, int]]:
        """Return the items of a sequence, or the rounds of a repetition, each as long as possible."""
        part = self._nodes[key[0]]
        is_repeat = part.kind == "repeat"
        # First forward: the states and places that can be reached. Then backward: those that lead to the end.
        begin = (0, key[1])
        following_states: dict[tuple[int, int], list[tuple[int, int]]] = {}
        pending = [begin]
        while pending:
            state, at = one = pending.pop()
            if one in following_states:
                continue
            self._count()
            following = following_states[one] = []
            step = part.step(state)
            if step is None:
                continue
            inner, after = (step[0], at), step[1]
            ends = self._ends.get(inner, ())
            self._count(len(ends))
            for to in ends:
                if is_repeat and to == at:
                    continue
                if self._trace.positions[to] <= self._trace.positions[end] and self._fits(
                    inner, to, key, end
                ):
                    following.append((after, to))
            pending.extend(following)
        enough = part.low if is_repeat and part.inner[0] not in self._empties() else 0

        def stops(state: int, at: int) -> bool:
            return at == end and (state >= enough if is_repeat else state == len(part.inner))

        back: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for one, following in following_states.items():
            for other in following:
                back.setdefault(other, []).append(one)
        good = {one for one in following_states if stops(*one)}
        pending = list(good)
        while pending:
            for one in back.get(pending.pop(), ()):
                if one not in good:
                    good.add(one)
                    pending.append(one)
        result = []
        state, at = begin
        while not (stops(state, at) and not any(one in good for one in following_states[state, at])):
            number = part.inner[0] if is_repeat else part.inner[state]
            after, to = max(
                (one for one in following_states[state, at] if one in good),
                key=lambda one: (self._trace.positions[one[1]], -one[1]),
            )
            result.append(((number, at), to))
            state, at = after, to
        return result

    # -- an incomplete text

    def _unfinished(self) -> Iterator[Event]:
        """Yield the parse of a prefix: the rules that are open at its end, and what is complete before that."""
        ranks = self._open_ranks()
        if self._root not in ranks:
            return
        key = self._root
        while True:
            self._count()
            part = self._nodes[key[0]]
            if part.kind == "leaf":
                yield Event("open", None, part.body, key[1], key[1])
                return
            if part.kind == "rule":
                yield Event("begin", part.rule, None, key[1], key[1])
            if part.kind in ("rule", "choice"):
                choices = [(inner, key[1]) for inner in part.inner]
                key = next(choice for choice in choices if ranks.get(choice, ranks[key]) < ranks[key])
                continue
            before, following = self._open_chain(key, ranks)
            for inner, end in before:
                yield from self._derived(inner, end)
            key = following

    def _open_ranks(self) -> dict[_Key, int]:
        """Return the keys of incomplete texts, each with its distance from what is open at the end."""
        ranks: dict[_Key, int] = {}
        level = [
            (number, place)
            for place, terminal in self._trace.open
            for number, part in enumerate(self._nodes)
            if part.kind == "leaf"
            and part.terminal is not None
            and terminal in (-1, part.terminal)
            and (number, place) in self._waiting
        ]
        rank = 0
        while level:
            following: list[_Key] = []
            for key in level:
                if key in ranks:
                    continue
                self._count()
                ranks[key] = rank
                following.extend(parent for parent, _ in self._waiting[key])
            level, rank = following, rank + 1
        return ranks

    def _open_chain(self, key: _Key, ranks: Mapping[_Key, int]) -> tuple[list[tuple[_Key, int]], _Key]:
        """Return the complete items and the open one. Of several open ones, the nearest to the open terminal wins."""
        part = self._nodes[key[0]]
        is_repeat = part.kind == "repeat"
        came: dict[tuple[int, int], tuple[int, int] | None] = {(0, key[1]): None}
        pending = [(0, key[1])]
        found: tuple[int, int, tuple[int, int]] | None = None
        while pending:
            state, at = one = pending.pop()
            self._count()
            step = part.step(state)
            if step is None:
                continue
            inner, after = (step[0], at), step[1]
            rank = ranks.get(inner)
            if rank is not None and rank < ranks[key]:
                found = min(found or (rank, -at, one), (rank, -at, one))
            ends = self._ends.get(inner, ())
            self._count(len(ends))
            for to in ends:
                if (after, to) not in came and not (is_repeat and to == at):
                    came[after, to] = one
                    pending.append((after, to))
        assert found is not None
        last = found[2]
        before: list[tuple[_Key, int]] = []
        state, at = last
        while (previous := came[state, at]) is not None:
            number = part.inner[0] if is_repeat else part.inner[previous[0]]
            before.append(((number, previous[1]), at))
            state, at = previous
        number = part.inner[0] if is_repeat else part.inner[last[0]]
        return before[::-1], (number, last[1])


def _mark_cycles(parts: list[_Node]) -> None:
    """Mark the nodes that accept the empty text, and those that may derive themselves over the same text."""
    users: list[list[int]] = [[] for _ in parts]
    for number, part in enumerate(parts):
        for one in part.inner:
            users[one].append(number)
    pending = [number for number, part in enumerate(parts) if part.is_empty]
    pending += [number for number, part in enumerate(parts) if part.kind in ("sequence", "repeat")]
    while pending:
        part = parts[number := pending.pop()]
        if part.kind == "sequence":
            part.is_empty = all(parts[inner].is_empty for inner in part.inner)
        elif part.kind == "repeat":
            part.is_empty = part.low == 0 or parts[part.inner[0]].is_empty
        elif part.kind in ("rule", "choice"):
            part.is_empty = any(parts[inner].is_empty for inner in part.inner)
        if part.is_empty:
            pending.extend(user for user in users[number] if not parts[user].is_empty)
    alike = [
        [
            one
            for place, one in enumerate(part.inner)
            if part.kind != "sequence"
            or all(parts[other].is_empty for at, other in enumerate(part.inner) if at != place)
        ]
        for part in parts
    ]
    for group in strong_components(alike):
        if len(group) > 1 or group[0] in alike[group[0]]:
            for number in group:
                parts[number].is_cyclic = True
