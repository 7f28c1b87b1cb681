"""Values of XML elements that many tools share: each different one is built, and compiled, once.

Why: most parameters of a thousand tools are of a few kinds: flags, counts, dates. Whether an expression has a text
is a search that takes up to milliseconds, and visiting all nodes of the expression of a format takes as long.
Invariant: values are shared only if their schemas say the same and they are written alike.
Cost: a look-up for each value that is known, linear in its schema.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

from structgen.constraints.composition.emptiness import accepts_empty
from structgen.constraints.expressions import NOTHING, RE, nullable
from structgen.constraints.grammar.separate_text import SeparateText
from structgen.ir.grammar import Body

from .xml_texts import padded, unquoted

__all__ = ["SharedValues", "string_body"]


def string_body(strings: RE, never: tuple[str, ...], *, is_padded: bool) -> Body | None:
    """Return the body of strings without quotes; None if no string is left.

    Unless they are fixed texts, the strings become a terminal of their own, which is compiled once, however many
    elements contain it. As a text, they would become one expression with the texts around them, which differ.

    Args:
        strings: The strings.
        never: Texts that they do not contain.
        is_padded: Whether a line end may stand before and after them.
    """
    expression = unquoted(padded(strings) if is_padded else strings, never)
    if expression == NOTHING:
        return None
    if strings[0] in ("literal", "literals"):
        return ("text", expression)
    constraint = SeparateText(expression)
    has_empty = nullable(strings)
    if has_empty is None:
        has_empty = accepts_empty(constraint.lower())
    whole: Body = ("constraint", constraint)
    return ("repeat", whole, 0, 1) if has_empty else whole


class SharedValues:
    """The values of the elements of one constraint."""

    def __init__(self, *, shares_json: bool) -> None:
        """Make an empty collection.

        Args:
            shares_json: Whether values that are JSON are shared, too. Messages about a shared value point to the first
                schema that describes it.
        """
        self.shares_json = shares_json
        self._known: dict[Hashable, tuple[object, Body | None]] = {}

    def body(self, content: Hashable | None, schema: object, make: Callable[[], Body | None]) -> Body | None:
        """Return the body that `make` returned for this content, or returns now.

        Args:
            content: What decides the body; None if it cannot be compared.
            schema: What the content is of, which is kept.
            make: Makes the body.
        """
        if content is None:
            return make()
        known = self._known.get(content)
        if known is None:
            known = self._known[content] = schema, make()
        return known[1]
