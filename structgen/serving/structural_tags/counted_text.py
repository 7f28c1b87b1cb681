"""Free text with a limit on its tokens, until an end: `any_text` with `max_tokens` in a tag.

Why: free text with its end is one regular expression, but a text whose tokens are counted is a separate part.
Invariant: the text ends where an end first occurs, as without a limit.
Cost: each end is compared with all others.
"""

from __future__ import annotations

from collections.abc import Sequence

from structgen.constraints.base import Constraint
from structgen.constraints.composition import Composition
from structgen.constraints.composition.composed import body_of, text_of
from structgen.constraints.expressions import NOTHING, RE, intersect
from structgen.constraints.grammar.bodies import choice_of, sequence_of
from structgen.constraints.occurrences import before
from structgen.constraints.token_limits import limit_tokens

__all__ = ["counted_text"]


def counted_text(inside: RE, ends: Sequence[str], max_tokens: int) -> Constraint:
    """Return the constraint of a text and the first end that occurs in it.

    Args:
        inside: The language of the text before its end.
        ends: The texts that end it.
        max_tokens: The most tokens of the text before its end.
    """
    parts = []
    for end in ends:
        stretch = before(end, ends)
        if stretch != NOTHING:
            text = Composition(("text", intersect([stretch, inside])), "free text")
            parts.append(sequence_of((body_of(limit_tokens(text, max_tokens)), text_of(end))))
    return Composition(choice_of(parts), "free text until " + " or ".join(map(repr, ends)))
