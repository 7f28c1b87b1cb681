"""Types with finitely many plain values (Literal, Enum, bool, None and their unions) as labels.

Why: a small model that has to choose between "cat" and "dog" should write the word, not a quoted JSON string. A
text value is its own label; any other value has its JSON text as the label (``null``, ``true``, ``3``).

Invariant: labels are distinct and not empty. If they would not be, the type is written as JSON like all others.
"""

from __future__ import annotations

import enum
import json
import types
from typing import Any, Literal, Union, get_args, get_origin

__all__ = ["labels_of"]


def labels_of(annotation: object) -> dict[str, Any] | None:
    """Return the values by label, in the declared order; None if the type has no labels."""
    values = _values(annotation)
    if not values:
        return None
    labels: dict[str, Any] = {}
    for value in values:
        plain = value.value if isinstance(value, enum.Enum) else value
        label = plain if isinstance(plain, str) else json.dumps(plain)
        if label in labels and not _same(labels[label], value):
            return None
        labels.setdefault(label, value)
    return None if "" in labels else labels


def _values(annotation: object) -> list[Any] | None:
    """Return the values of the type, or None if there may be others."""
    if annotation is None or annotation is type(None):
        return [None]
    if annotation is bool:
        return [True, False]
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        members = list(annotation)
        open_ended = (
            issubclass(annotation, enum.Flag)
            or hasattr(annotation, "_missing_")
            and (
                annotation._missing_.__func__ is not enum.Enum._missing_.__func__  # type: ignore[attr-defined]
            )
        )
        plain = all(isinstance(member.value, (str, int, float, bool, type(None))) for member in members)
        return members if plain and not open_ended else None
    if hasattr(annotation, "__value__"):  # a `type` alias
        return _values(annotation.__value__)
    origin = get_origin(annotation)
    if origin is Literal:
        values = list(get_args(annotation))
        plain = all(isinstance(v, (str, int, bool, type(None), enum.Enum)) for v in values)
        return values if plain else None
    if origin is Union or origin is types.UnionType:
        parts = [_values(part) for part in get_args(annotation)]
        return None if any(part is None for part in parts) else [v for part in parts for v in part or ()]
    return None


def _same(left: object, right: object) -> bool:
    return type(left) is type(right) and bool(left == right)
