"""Refuse references that return to their start without looking at any part of the value.

Why: ``{"$ref": "#"}`` at the root says "valid if valid". The specification calls it an infinite loop, and an
automaton would never finish. Recursion through ``properties`` or ``items`` is fine: the value gets smaller.

Invariant: raises if and only if the graph of "applies to the same value" has a cycle.

Cost: linear in that graph (iterative depth-first search).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from structgen.errors import SchemaInvalid

__all__ = ["check_reference_cycles"]


def check_reference_cycles(children: Mapping[int, tuple[str, Sequence[int]]]) -> None:
    """Check the graph of sub-schemas that apply to the same value.

    Args:
        children: By node id: the pointer of the node, and the nodes that it applies to the same value.

    Raises:
        SchemaInvalid: There is a cycle; the message has its pointers.
    """
    done: set[int] = set()
    for start in children:
        if start in done:
            continue
        path = [start]
        on_path = {start}
        rests = [iter(children[start][1])]
        while path:
            following = next(rests[-1], None)
            if following is None:
                visited = path.pop()
                on_path.remove(visited)
                done.add(visited)
                rests.pop()
            elif following in on_path:
                raise _cycle_error([children[node_id][0] for node_id in path[path.index(following) :]])
            elif following not in done and following in children:
                path.append(following)
                on_path.add(following)
                rests.append(iter(children[following][1]))


def _cycle_error(pointers: list[str]) -> SchemaInvalid:
    shown = pointers if len(pointers) <= 8 else [*pointers[:4], "…", *pointers[-3:]]
    return SchemaInvalid(
        f"references form a cycle that never looks at the value: {' -> '.join([*shown, pointers[0]])}",
        pointer=pointers[0],
        hint="Recursion must pass through properties, items or another keyword that applies to a part of the value.",
    )
