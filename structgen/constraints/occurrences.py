"""Regular languages about where given texts occur: nowhere, or first at the end.

Why: "free text until a marker" is what tool calls, reasoning, channels and XGrammar's `TagDispatch` are made of,
and it is regular: no approximation is needed, and no look-ahead.
Invariant: an occurrence counts by where it ends. `ends_first` of all marks together are the texts that end with the
first occurrence of any mark; of marks that end there the longest counts. `before` is the same without the mark itself,
for marks that are read as something else than text. What is `forbidden` occurs nowhere, not even across the border
of the free text and its mark.
Cost: the expressions are linear in the texts; `before` compares each mark with each.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .expressions import ANY, NOTHING, RE, TEXT, complement, concat, intersect, literal, literals

__all__ = ["before", "ends_first", "without"]


def without(texts: Iterable[str]) -> RE:
    """Every text in which none of these occurs."""
    found = literals(texts)
    return TEXT if found == NOTHING else complement(concat([TEXT, found, TEXT]))


def ends_first(mark: str, marks: Sequence[str], forbidden: Sequence[str] = ()) -> RE:
    """Texts that end with `mark`, where no mark has ended before, no longer one ends, and nothing forbidden is."""
    parts = [concat([TEXT, literal(mark)]), complement(concat([TEXT, literals(marks), ANY, TEXT]))]
    if forbidden:
        parts.append(without(forbidden))
    longer = [other for other in marks if other != mark and other.endswith(mark)]
    if longer:
        parts.append(complement(concat([TEXT, literals(longer)])))
    return intersect(parts)


def before(mark: str, marks: Sequence[str], forbidden: Sequence[str] = ()) -> RE:
    """The texts that become one of `ends_first` when `mark` is written after them."""
    if any(other in mark[:-1] for other in marks) or any(other in mark for other in forbidden):
        return NOTHING
    ends = {
        other[:cut]
        for others, whole in ((marks, False), (forbidden, True))
        for other in others
        for cut in range(1, len(other))
        if mark.startswith(other[cut:]) and (whole or len(other) - cut < len(mark))
    }
    ends |= {other[: -len(mark)] for other in marks if other != mark and other.endswith(mark)}
    parts = [without((*marks, *forbidden))]
    if ends:
        parts.append(complement(concat([TEXT, literals(sorted(ends))])))
    return intersect(parts)
