"""References that lead back to where they started without looking at any part of the value.

Why: ``{"$ref": "#"}`` at the root says "valid if valid": the specification calls it an infinite loop, and
an automaton would never answer. Recursion through ``properties`` or ``items`` is fine: the value gets smaller.
Invariant: raises iff the graph of "looks at the same value" has a cycle.
Cost: linear in that graph (depth-first search, iterative).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from structgen.errors import SchemaInvalid

__all__ = ["find_endless"]


def find_endless(beside: Mapping[int, tuple[str, Sequence[int]]]) -> None:
    """Raises `SchemaInvalid` with the pointers of a cycle in `beside` (node: its pointer, what it looks at)."""
    done: set[int] = set()
    for start in beside:
        if start in done:
            continue
        path = [start]
        on_path = {start}
        rests = [iter(beside[start][1])]
        while path:
            following = next(rests[-1], None)
            if following is None:
                finished = path.pop()
                on_path.remove(finished)
                done.add(finished)
                rests.pop()
            elif following in on_path:
                raise _endless([beside[place][0] for place in path[path.index(following) :]])
            elif following not in done and following in beside:
                path.append(following)
                on_path.add(following)
                rests.append(iter(beside[following][1]))


def _endless(pointers: list[str]) -> SchemaInvalid:
    shown = pointers if len(pointers) <= 8 else [*pointers[:4], "…", *pointers[-3:]]
    return SchemaInvalid(
        f"references run in a circle without looking at the value: {' -> '.join([*shown, pointers[0]])}",
        pointer=pointers[0],
        hint="Recursion must pass through properties, items or another keyword that goes into the value.",
    )
