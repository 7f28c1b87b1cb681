"""The bodies that tool calls are made of: templates with special tokens in them, lists with optional items."""

from __future__ import annotations

import re
from collections.abc import Sequence

from structgen.constraints.composition.composed import text_of
from structgen.constraints.grammar.bodies import EMPTY, choice_of, sequence_of
from structgen.ir.grammar import Body

__all__ = ["EMPTY", "choice_of", "listed", "pieces", "sequence_of", "text_of"]


def pieces(template: str, specials: Sequence[str]) -> Body:
    """Exactly this text, in which `specials` are special tokens where the tokenizer has them."""
    if not template:
        return EMPTY
    if not specials:
        return text_of(template)
    longest_first = sorted(specials, key=len, reverse=True)
    parts = re.split("(" + "|".join(map(re.escape, longest_first)) + ")", template)
    known = set(specials)
    return sequence_of(("special", part) if part in known else text_of(part) for part in parts if part)


def listed(items: Sequence[tuple[Body, bool]], separator: Body) -> Body:
    """Items in this order with a separator between any two; those that are not required may be missing."""
    tails = [EMPTY]  # what follows once an item is written, from the last item to the first
    for body, required in reversed(items):
        more = sequence_of((separator, body))
        tails.append(sequence_of((more if required else choice_of((EMPTY, more)), tails[-1])))
    tails.reverse()
    beginnings = []
    for place, (body, required) in enumerate(items):
        beginnings.append(sequence_of((body, tails[place + 1])))
        if required:
            break
    else:
        beginnings.append(EMPTY)
    return choice_of(beginnings)
