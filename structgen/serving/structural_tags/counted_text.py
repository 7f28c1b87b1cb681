"""Free text of at most so many tokens, until an end: `any_text` with `max_tokens` in a tag.

Why: with its end a free text is one regular expression; where its tokens are counted, it is a part of its own.
Invariant: the end comes first where it occurs first, as without a count.
Cost: the ends are compared with one another.
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
    """Return texts of `inside` of at most `max_tokens` tokens, each with the end that occurs first in both together."""
    parts = []
    for end in ends:
        stretch = before(end, ends)
        if stretch != NOTHING:
            text = Composition(("text", intersect([stretch, inside])), "free text")
            parts.append(sequence_of((body_of(limit_tokens(text, max_tokens)), text_of(end))))
    return Composition(choice_of(parts), "free text until " + " or ".join(map(repr, ends)))
