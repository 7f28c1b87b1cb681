"""Find out whether a constraint has a limit of tokens."""

from __future__ import annotations

from typing import Any

__all__ = ["counts_tokens"]


def counts_tokens(ir: tuple[str, Any]) -> bool:
    """Return whether a part of a constraint, given by its IR, has a limit of tokens."""
    pending: list[tuple[str, Any]] = [ir]
    seen: set[int] = set()
    while pending:
        one = pending.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        kind, content = one
        if kind == "counted":
            return True
        if kind in ("sequence", "union"):
            pending.extend(content)
        elif kind == "grammar":
            pending.extend(part for kind, _, part, _ in content["terminals"] if kind == "constraint")
    return False
