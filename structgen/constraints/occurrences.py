"""Regular languages defined by where given texts occur: nowhere, or first at the end.

Why: tool calls, reasoning, channels and XGrammar's `TagDispatch` consist of "free text until a marker". That
language is regular: no approximation and no look-ahead is needed.

Invariant: the position of an occurrence is its end. The union of `ends_first` over all marks is the set of texts
that end with the first occurrence of any mark; of several marks that end there, the longest counts. `before` is the
same without the mark itself, for marks that are not read as text. A `forbidden` text occurs nowhere, not even
across the border between the free text and its mark.

Cost: the expressions are linear in the texts; `before` compares each mark with each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .expressions import ANY, NOTHING, RE, TEXT, complement, concat, intersect, literal, literals

__all__ = ["before", "ends_first", "without"]


def without(texts: Iterable[str]) -> RE:
    """Return every text in which none of these occurs."""
    found = literals(texts)
    return TEXT if found == NOTHING else complement(concat([TEXT, found, TEXT]))


def ends_first(mark: str, marks: Sequence[str], forbidden: Sequence[str] = ()) -> RE:
    """Return the texts that end with `mark`, without an earlier mark or a longer one at the end.

    Args:
        mark: The mark at the end.
        marks: All marks.
        forbidden: Texts that must not occur.
    """
    parts = [concat([TEXT, literal(mark)]), complement(concat([TEXT, literals(marks), ANY, TEXT]))]
    if forbidden:
        parts.append(without(forbidden))
    longer = [other for other in marks if other != mark and other.endswith(mark)]
    if longer:
        parts.append(complement(concat([TEXT, literals(longer)])))
    return intersect(parts)


def before(mark: str, marks: Sequence[str], forbidden: Sequence[str] = ()) -> RE:
    """Return the texts that become one of `ends_first` when `mark` is appended."""
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
