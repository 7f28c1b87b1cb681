"""The strongly connected strong_components of a graph.

Why: rules that derive themselves without other text form a cycle, which a parse must not follow.
Cost: linear in the edges, without recursion.
Source: Tarjan, "Depth-first search and linear graph algorithms" (1972).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

__all__ = ["strong_components"]


def strong_components(successors: Sequence[Sequence[int]]) -> Iterator[list[int]]:
    """Yield the strong_components of a graph, given the successors of each node."""
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    on_stack: set[int] = set()
    for root in range(len(successors)):
        if root in index:
            continue
        path = [(root, iter(successors[root]))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while path:
            number, rest = path[-1]
            for one in rest:
                if one not in index:
                    index[one] = low[one] = len(index)
                    stack.append(one)
                    on_stack.add(one)
                    path.append((one, iter(successors[one])))
                    break
                if one in on_stack:
                    low[number] = min(low[number], index[one])
            else:
                path.pop()
                if path:
                    low[path[-1][0]] = min(low[path[-1][0]], low[number])
                if low[number] == index[number]:
                    group = []
                    while True:
                        one = stack.pop()
                        on_stack.discard(one)
                        group.append(one)
                        if one == number:
                            break
                    yield group
