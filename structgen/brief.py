"""Short texts of objects: what ``repr()`` shows in an interactive session, a log or a traceback.

Invariant: at most `MOST` characters for any object; it begins with the name of its class.
"""

from __future__ import annotations

from dataclasses import MISSING, Field, fields
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

__all__ = ["MOST", "brief", "cut", "short_repr"]

MOST = 200
"""Characters of a `repr`."""
_MOST_OF_FIELD = 50
_END = 24
_ITEMS = 3

T = TypeVar("T")


def cut(text: str, most: int = MOST) -> str:
    """Return the text with its middle left out where it is longer than `most`."""
    return text if len(text) <= most else f"{text[: most - _END - 1]}…{text[-_END:]}"


def brief(value: object, most: int = _MOST_OF_FIELD) -> str:
    """Return a short text of a value: numbers with four digits, the first items of containers, the rest as a count."""
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, str):
        # Long texts are cut before they are escaped, which may take their length many times.
        return cut(repr(value[: 2 * most]), most) if len(value) > 2 * most else cut(repr(value), most)
    if isinstance(value, dict):
        shown = [f"{key!r:.20}: {brief(item, 20)}" for key, item in list(value.items())[:_ITEMS]]
        return _listed("{", shown, len(value), "}", most)
    if isinstance(value, (list, tuple, set, frozenset)):
        opening, closing = (
            ("[", "]") if isinstance(value, list) else ("(", ")") if isinstance(value, tuple) else "{}"
        )
        return _listed(opening, [brief(item, 20) for item in list(value)[:_ITEMS]], len(value), closing, most)
    return cut(repr(value), most)


def _listed(opening: str, shown: list[str], count: int, closing: str, most: int) -> str:
    text = ", ".join(shown)
    if count > len(shown) or len(text) > most:
        return f"{opening}{count:,} items{closing}"
    return f"{opening}{text}{closing}"


def short_repr(cls: type[T]) -> type[T]:
    """Give a dataclass a `repr` of the fields that are not as by default, each cut, and all of them cut."""
    cls.__repr__ = _repr_of  # type: ignore[assignment, method-assign]
    return cls


def _repr_of(record: DataclassInstance) -> str:
    parts = []
    for field in fields(record):
        value = getattr(record, field.name)
        if field.repr and not _is_default(field, value):
            parts.append(f"{field.name}={brief(value)}")
    return cut(f"{type(record).__name__}({', '.join(parts)})")


def _is_default(field: Field[Any], value: object) -> bool:
    default = field.default_factory() if field.default_factory is not MISSING else field.default
    if default is MISSING or type(value) is not type(default):
        return False
    try:
        return value is default or bool(value == default)
    except (TypeError, ValueError):  # arrays
        return False
