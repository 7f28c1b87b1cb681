"""Builders of rule bodies, which simplify where that is cheap.

Why: the regular parts of a rule become one expression, which the core reads faster than productions.
Invariant: a builder never changes the language. Neighbouring texts become one regular expression, and so do
alternatives that are texts. Other groups and repetitions stay as written.
Cost: linear in the number of items, independent of their size.
"""

from __future__ import annotations

from collections.abc import Iterable

from structgen.constraints import expressions
from structgen.constraints.expressions import RE
from structgen.errors import LimitExceeded
from structgen.ir.grammar import Body

__all__ = ["EMPTY", "choice", "choice_of", "nesting_error", "repeat", "sequence", "sequence_of", "text"]

EMPTY: Body = ("sequence", ())
_MERGED = 64
"""Expressions with more operands are not copied into larger ones: nested groups would copy them once per group."""


def nesting_error() -> LimitExceeded:
    """Return the error for bodies that are nested too deeply to be read or lowered."""
    return LimitExceeded(
        "the grammar is nested too deeply",
        limit="grammar_depth",
        hint="Name parts of it as rules of their own.",
    )


def text(expression: RE) -> Body:
    """Return the body of a regular expression."""
    return EMPTY if expression == expressions.EPSILON else ("text", expression)


def _joins(expression: RE) -> bool:
    """Return whether an expression may become an operand of a larger concatenation."""
    return expression[0] != "concat" or len(expression[1]) <= _MERGED


def _unites(expression: RE) -> bool:
    """Return whether an expression may become an operand of a larger alternation."""
    if expression[0] == "repeat":
        expression = expression[1]
    return expression[0] not in ("alternate", "literals", "class") or len(expression[1]) <= _MERGED


def _unfolded(kind: str, items: list[Body]) -> list[Body]:
    """Return the items, where small ones of this type are replaced by their own items."""
    result: list[Body] = []
    for item in items:
        if item[0] == kind and len(item[1]) <= _MERGED:
            result.extend(item[1])
        else:
            result.append(item)
    return result


def sequence_of(parts: Iterable[Body]) -> Body:
    """Return the parts one after the other, without merging texts."""
    flat: list[Body] = []
    for part in parts:
        if part[0] == "sequence":
            flat.extend(part[1])
        else:
            flat.append(part)
    return flat[0] if len(flat) == 1 else ("sequence", tuple(flat))


def choice_of(parts: Iterable[Body]) -> Body:
    """Return the choice of the parts, each once, without merging texts."""
    flat: dict[Body, None] = {}
    for part in parts:
        if part[0] == "choice":
            flat.update(dict.fromkeys(part[1]))
        else:
            flat[part] = None
    return next(iter(flat)) if len(flat) == 1 else ("choice", tuple(flat))


def sequence(items: list[Body]) -> Body:
    """Return the items one after the other; neighbouring texts become one text."""
    kinds = [item[0] for item in items]
    if "sequence" in kinds:
        items = _unfolded("sequence", items)
    elif kinds.count("text") < 2:
        return ("sequence", tuple(items))
    parts: list[Body] = []
    run: list[RE] = []
    for item in items:
        if item[0] == "text" and _joins(item[1]):
            run.append(item[1])
            continue
        if run:
            parts.append(_joined(run))
            run = []
        parts.append(item)
    if run:
        parts.append(_joined(run))
    return parts[0] if len(parts) == 1 else ("sequence", tuple(parts))


def _joined(run: list[RE]) -> Body:
    return ("text", run[0]) if len(run) == 1 else text(expressions.concat(run))


def choice(alternatives: list[Body]) -> Body:
    """Return the choice of the alternatives; those that are texts become one text."""
    texts: list[RE] = []
    others: list[Body] = []
    if "choice" in [part[0] for part in alternatives]:
        alternatives = _unfolded("choice", alternatives)
    for part in alternatives:
        if part[0] == "text" and _unites(part[1]):
            texts.append(part[1])
        elif part == EMPTY:
            texts.append(expressions.EPSILON)
        else:
            others.append(part)
    if texts:
        others.insert(0, text(texts[0] if len(texts) == 1 else expressions.alternate(texts)))
    return others[0] if len(others) == 1 else ("choice", tuple(others))


def repeat(body: Body, low: int, high: int | None) -> Body:
    """Return a body repeated between `low` and `high` times (None: no upper bound)."""
    if body[0] == "text":
        return text(expressions.repeat(body[1], low, high))
    if high == 0 or body == EMPTY:
        return EMPTY
    return body if low == 1 and high == 1 else ("repeat", body, low, high)
