"""Find grammars whose start rule is unproductive: it has no finite text.

Why: ``start: "a" start`` is a common mistake. An error before compilation can name the rules.
Invariant: a cycle that is found is always a mistake. Terminals count as productive, so a grammar that is empty for
another reason is found later.
Cost: linear in the productions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from structgen.constraints.base import IR
from structgen.ir.grammar import Body, Grammar, GrammarIR, subbodies

__all__ = ["find_unproductive_cycle"]


def find_unproductive_cycle(ir: IR, read: Callable[[], Grammar]) -> list[str]:
    """Return the names of rules from the start to a repeated one, each of which needs the next; empty if productive.

    Args:
        ir: The plan of the grammar.
        read: Returns the grammar that was lowered, which has rules even where the plan is a regular expression.
    """
    if ir == ("regex", ("empty",)):
        return _cycle_of_rules(read())
    if ir[0] != "grammar":
        return []
    grammar = ir[1]
    productions: tuple[tuple[int, ...], ...] = grammar["productions"]
    empty = {
        -number - 1 for number, (_, _, content, _) in enumerate(grammar["terminals"]) if content == ("empty",)
    }
    missing = [0] * len(productions)
    users: dict[int, list[int]] = {}
    productive: set[int] = set()
    ready: list[int] = []
    for number, (head, *parts) in enumerate(productions):
        needed = {part for part in parts if part >= 0}
        if not empty.isdisjoint(parts):
            continue
        missing[number] = len(needed)
        for used in needed:
            users.setdefault(used, []).append(number)
        if not needed and head not in productive:
            productive.add(head)
            ready.append(head)
    while ready:
        for number in users.get(ready.pop(), ()):
            missing[number] -= 1
            head = productions[number][0]
            if not missing[number] and head not in productive:
                productive.add(head)
                ready.append(head)
    start: int = grammar["start"]
    if start in productive:
        return []
    # Lowering may drop unproductive rules, so the grammar itself is searched as well.
    return _cycle_of_productions(grammar, start, productive) or _cycle_of_rules(read())


def _cycle_of_productions(grammar: GrammarIR, start: int, productive: set[int]) -> list[str]:
    """Follow unproductive rules from the start to one that repeats."""
    names, path = grammar["rules"], [start]
    needs: dict[int, int] = {}
    for head, *parts in grammar["productions"]:
        wanted = next((part for part in parts if part >= 0 and part not in productive), None)
        if wanted is not None:
            needs.setdefault(head, wanted)
    seen: set[int] = set()
    while path[-1] not in seen:
        seen.add(path[-1])
        if path[-1] not in needs:
            return []
        path.append(needs[path[-1]])
    return [
        name
        for name in (names[number] for number in path)
        if name.isidentifier() or "-" in name or "::" in name
    ]


def _cycle_of_rules(grammar: Grammar) -> list[str]:
    """Follow unproductive rules of the grammar from the start to one that repeats."""
    bodies = {rule.name: rule.body for rule in grammar.rules}
    productive = _productive_rules(bodies)
    if grammar.start in productive:
        return []  # the grammar is empty for another reason
    path, seen = [grammar.start], set[str]()
    while path[-1] not in seen:
        seen.add(path[-1])
        used = (part[1] for part in subbodies(bodies[path[-1]]) if part[0] == "rule")
        wanted = next((name for name in used if name not in productive), None)
        if wanted is None:
            return []
        path.append(wanted)
    return path


def _productive_rules(bodies: Mapping[str, Body]) -> set[str]:
    """Return the rules that have a finite text, provided that terminals have one.

    Each rule, sequence and choice is a node that waits for some of its parts: a sequence for all, the others for one.
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
