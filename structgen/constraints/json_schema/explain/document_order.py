"""Places of schemas in the order in which a person reads them: that of the documents.

Why: sub-schemas are read from a worklist, whose order says nothing to anybody.
Invariant: a keyword comes before what is inside of it; places of one document stay together, the schema's own first.
Cost: linear in the segments of the pointers and in the objects on their way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..pointers import segments

__all__ = ["document_order"]


def document_order(documents: Mapping[str, Any]) -> Callable[[str], tuple[int, ...]]:
    """A key to sort pointers by; `documents` holds the roots by what pointers into them begin with, ``#`` included."""
    numbers = {name: i for i, name in enumerate(documents)}
    indices: dict[int, dict[Any, int]] = {}

    def key(pointer: str) -> tuple[int, ...]:
        name, _, fragment = pointer.partition("#")
        at = documents.get(f"{name}#")
        found = [numbers.get(f"{name}#", len(numbers))]
        # subtle: pointers of messages are no URI fragments, so a percent sign in them is one.
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
                break  # a place in a pattern, or a pointer that was cut
        return tuple(found)

    return key
