"""The IR of a schema as one value: a dict that never changes and can be hashed.

Why: the native core reads a dict, while compiled automata are remembered by their constraint, alone or inside
a combination of constraints.
Invariant: nobody changes it after it is made; equal IRs have equal hashes.
Cost: the hash looks at little, for it stands before the first mask; equality looks at everything.
"""

from __future__ import annotations

from typing import Any

__all__ = ["SchemaIR"]


class SchemaIR(dict[str, Any]):
    """``nodes``, ``root`` and ``options``; beside them `spelled`, which no automaton depends on."""

    __slots__ = ("_hash", "spelled")

    spelled: dict[int, dict[str, str]]
    """By node id: keys that stand for a keyword of another name, as ``enum`` may for ``const``; under ``text of
    pattern`` and ``text of format`` what the schema says there."""

    def __init__(self, *, spelled: dict[int, dict[str, str]] | None = None, **content: Any) -> None:
        super().__init__(content)
        self.spelled = spelled or {}
        self._hash: int | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        # subtle: without the hash, which is another one in another process.
        return _rebuilt, (dict(self), self.spelled)

    def __hash__(self) -> int:  # type: ignore[override]
        if self._hash is None:
            nodes = self["nodes"]
            first, last = (node if isinstance(node, dict) else {} for node in (nodes[0], nodes[-1]))
            self._hash = hash((len(nodes), *first, first.get("required"), *last, last.get("pointer")))
        return self._hash


def _rebuilt(content: dict[str, Any], spelled: dict[int, dict[str, str]]) -> SchemaIR:
    """The IR that was pickled."""
    return SchemaIR(spelled=spelled, **content)
