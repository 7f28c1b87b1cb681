"""Grammar bodies for tool calls: templates with special tokens, lists with optional items."""

from __future__ import annotations

import re
from collections.abc import Sequence

from structgen.constraints.composition.composed import text_of
from structgen.constraints.grammar.bodies import EMPTY, choice_of, sequence_of
from structgen.ir.grammar import Body

__all__ = ["EMPTY", "choice_of", "listed", "pieces", "sequence_of", "text_of"]


def pieces(template: str, specials: Sequence[str]) -> Body:
    """Return the body of exactly this text. `specials` in it are special tokens if the tokenizer has them."""
    if not template:
        return EMPTY
    if not specials:
        return text_of(template)
    longest_first = sorted(specials, key=len, reverse=True)
    parts = re.split("(" + "|".join(map(re.escape, longest_first)) + ")", template)
    known = set(specials)
    return sequence_of(("special", part) if part in known else text_of(part) for part in parts if part)


def listed(items: Sequence[tuple[Body, bool]], separator: Body) -> Body:
    """Return items in this order, with a separator between any two. Optional items may be missing."""
    tails = [EMPTY]  # the rest after each item, from the last item to the first
    for body, required in reversed(items):
        more = sequence_of((separator, body))
        tails.append(sequence_of((more if required else choice_of((EMPTY, more)), tails[-1])))
    tails.reverse()
    beginnings = []
    for index, (body, required) in enumerate(items):
        beginnings.append(sequence_of((body, tails[index + 1])))
        if required:
            break
    else:
        beginnings.append(EMPTY)
    return choice_of(beginnings)
