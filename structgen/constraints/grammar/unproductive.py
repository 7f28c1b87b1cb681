"""Rules without an end: grammars whose start has no finite text, found before anything is compiled.

Why: ``start: "a" start`` is a common mistake. Said where it is written, it can name the rule.
Invariant: what is found is a fact. Terminals count as having a text, so what else makes a grammar empty shows later.
Cost: linear in the productions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from structgen.ir.grammar import Body, Grammar, subbodies

__all__ = ["endless_circle"]


def endless_circle(ir: Any, read: Callable[[], Grammar]) -> list[str]:
    """Return names of rules from the start on, each of which needs the next, without end; empty where it ends.

    `read` gives the grammar that the IR was made of; a regular one is an expression there, without rules.
    """
    if ir == ("regex", ("empty",)):
        return _circle_of_rules(read())
    if ir[0] != "grammar":
        return []
    grammar = ir[1]
    productions: tuple[tuple[int, ...], ...] = grammar["productions"]
    empty = {-number - 1 for number, one in enumerate(grammar["terminals"]) if one[2] == ("empty",)}
    missing = [0] * len(productions)
    users: dict[int, list[int]] = {}
    ending: set[int] = set()
    ready: list[int] = []
    for number, (head, *parts) in enumerate(productions):
        needed = {one for one in parts if one >= 0}
        if not empty.isdisjoint(parts):
            continue
        missing[number] = len(needed)
        for one in needed:
            users.setdefault(one, []).append(number)
        if not needed and head not in ending:
            ending.add(head)
            ready.append(head)
    while ready:
        for number in users.get(ready.pop(), ()):
            missing[number] -= 1
            head = productions[number][0]
            if not missing[number] and head not in ending:
                ending.add(head)
                ready.append(head)
    start: int = grammar["start"]
    if start in ending:
        return []
    return _circle(grammar, start, ending) or _circle_of_rules(
        read()
    )  # lowering may drop rules that never end


def _circle(grammar: Any, start: int, ending: set[int]) -> list[str]:
    """From the start to a rule that comes again."""
    names, path = grammar["rules"], [start]
    needs: dict[int, int] = {}
    for head, *parts in grammar["productions"]:
        wanted = next((one for one in parts if one >= 0 and one not in ending), None)
        if wanted is not None:
            needs.setdefault(head, wanted)
    seen: set[int] = set()
    while path[-1] not in seen:
        seen.add(path[-1])
        if path[-1] not in needs:
            return []
        path.append(needs[path[-1]])
    return [
        name for name in (names[one] for one in path) if name.isidentifier() or "-" in name or "::" in name
    ]


def _circle_of_rules(grammar: Grammar) -> list[str]:
    """The same from the rules."""
    bodies = {rule.name: rule.body for rule in grammar.rules}
    ending = _ending_rules(bodies)
    if grammar.start in ending:
        return []  # it is empty for another reason
    path, seen = [grammar.start], set[str]()
    while path[-1] not in seen:
        seen.add(path[-1])
        used = (one[1] for one in subbodies(bodies[path[-1]]) if one[0] == "rule")
        wanted = next((name for name in used if name not in ending), None)
        if wanted is None:
            return []
        path.append(wanted)
    return path


def _ending_rules(bodies: Mapping[str, Body]) -> set[str]:
    """The rules that have a finite text, where terminals have one.

    Each rule, sequence and choice is a node that waits for a number of parts: a sequence for all, the others for one.
    """
    numbers = {name: number for number, name in enumerate(bodies)}
    missing = [1] * len(bodies)
    users: list[list[int]] = [[] for _ in bodies]
    ready: list[int] = []
    pending = [(body, numbers[name]) for name, body in bodies.items()]
    while pending:
        body, user = pending.pop()
        kind = body[0]
        if kind == "rule":
            users[numbers[body[1]]].append(user)
        elif kind == "choice" or (kind == "sequence" and body[1]):
            pending += [(part, len(missing)) for part in body[1]]
            missing.append(len(body[1]) if kind == "sequence" else 1)
            users.append([user])
        elif kind == "repeat" and body[2] > 0:
            pending.append((body[1], user))
        else:
            ready.append(user)
    while ready:
        node = ready.pop()
        missing[node] -= 1
        if missing[node] == 0:
            ready += users[node]
    return {name for name, number in numbers.items() if missing[number] <= 0}
