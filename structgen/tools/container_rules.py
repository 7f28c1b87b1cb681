"""The rules of the objects and arrays inside arguments, for notations other than JSON.

Why: objects and arrays may contain themselves. So each different one is a rule, and its body is written later, without
recursion, however deep the nesting.
"""

from __future__ import annotations

from collections.abc import Callable

from structgen.constraints.json_schema.shapes import Conjunction
from structgen.errors import LimitExceeded
from structgen.ir.grammar import Body, Rule

from .bodies import EMPTY

__all__ = ["ContainerRules"]

_MOST_CONTAINERS = 2_000


class ContainerRules:
    """The rules by name, one for each different object and array that was named, and others."""

    def __init__(self) -> None:
        self.bodies: dict[str, Body] = {}
        self._known: dict[tuple[str, Conjunction], Body] = {}
        self._pending: list[tuple[str, str, Conjunction]] = []
        """Containers whose rules are still to be written."""

    def name(self, kind: str, value: Conjunction) -> Body:
        """Return the name of the rule of an ``object`` or ``array``, which `write` writes later.

        Raises:
            LimitExceeded: There are too many different objects and arrays.
        """
        known = self._known.get((kind, value))
        if known is None:
            if len(self._known) >= _MOST_CONTAINERS:
                raise LimitExceeded(
                    f"the schema has more than {_MOST_CONTAINERS:,} different objects and arrays",
                    limit="nested_elements",
                    hint="Write the arguments as JSON, or describe fewer objects.",
                )
            name = f"{kind} {len(self._known) + 1}"
            known = self._known[kind, value] = ("rule", name)
            self._pending.append((name, kind, value))
            self.bodies[name] = EMPTY  # reserves its position among the rules
        return known

    def write(self, body_of: Callable[[str, str, Conjunction], Body]) -> None:
        """Write the rules of all containers, also of those that their bodies name.

        Args:
            body_of: Returns the body of a container: of the rule's name, ``object`` or ``array``, and the value.
        """
        while self._pending:
            name, kind, value = self._pending.pop()
            self.bodies[name] = body_of(name, kind, value)

    def all(self) -> tuple[Rule, ...]:
        """Return all rules."""
        return tuple(Rule(name, body) for name, body in self.bodies.items())
