"""Sort pointers into schemas in the order in which a person reads the documents.

Why: the compiler visits sub-schemas from a worklist, whose order means nothing to a person.

Invariant: a keyword comes before its contents. Pointers into one document stay together, the main document first.

Cost: linear in the segments of the pointers and in the objects on their way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..pointers import segments

__all__ = ["order_in_documents"]


def order_in_documents(documents: Mapping[str, Any]) -> Callable[[str], tuple[int, ...]]:
    """Return a sort key for pointers.

    Args:
        documents: The root of each document, by the prefix of pointers into it, ``#`` included.
    """
    numbers = {name: i for i, name in enumerate(documents)}
    indices: dict[int, dict[Any, int]] = {}

    def key(pointer: str) -> tuple[int, ...]:
        name, _, fragment = pointer.partition("#")
        at = documents.get(f"{name}#")
        found = [numbers.get(f"{name}#", len(numbers))]
        # subtle: pointers in messages are not URI fragments, so a percent sign in them stands for itself.
        for part in segments(fragment.replace("%", "%25")):
            if isinstance(at, dict):
                known = indices.get(id(at))
                if known is None:
                    known = indices[id(at)] = {name: i for i, name in enumerate(at)}
                found.append(known.get(part, len(known)))
                at = at.get(part)
            elif isinstance(at, list) and part.isdecimal() and int(part) < len(at):
                found.append(int(part))
                at = at[int(part)]
            else:
                break  # a position inside a pattern, or a shortened pointer
        return tuple(found)

    return key
