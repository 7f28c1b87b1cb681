"""Read the fields of a structural tag with their types.

Why: a field of the wrong type would silently mean something else: "yes" is not true.
Invariant: each function returns a value of its type, or raises `ConstraintError` with the path to the field.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from structgen.errors import ConstraintError, StructgenError, a_kind, with_kind

__all__ = ["at", "check_fields", "flag", "items", "text", "texts", "whole"]

_MOST = (1 << 31) - 1


def check_fields(form: Mapping[str, Any], known: set[str], where: str) -> None:
    """Raise `ConstraintError` for unknown fields, which would be silently ignored otherwise."""
    strange = [key for key in form if key not in known]
    if strange:
        raise ConstraintError(
            f"{strange[0]!r:.60} is not supported here",
            where=where,
            hint=f"The fields here are {', '.join(sorted(known))}.",
        )


def flag(form: Mapping[str, Any], key: str, where: str, default: bool = False) -> bool:
    """Return a field that is true or false."""
    value = form.get(key, default)
    if not isinstance(value, bool):
        raise _wrong(key, "true or false", value, where)
    return value


def text(form: Mapping[str, Any], key: str, where: str, default: str | None = None) -> str:
    """Return a field that is a text."""
    value = form.get(key, default)
    if not isinstance(value, str):
        raise _wrong(key, "a text", value, where)
    return value


def items(form: Mapping[str, Any], key: str, where: str) -> list[Any]:
    """Return a field that is a list with at least one item."""
    value = form.get(key)
    if not isinstance(value, (list, tuple)):
        raise _wrong(key, "a list that is not empty", value, where)
    if not value:
        raise ConstraintError(f'"{key}" must not be empty', where=f"{where}.{key}")
    return list(value)


def texts(form: Mapping[str, Any], key: str, where: str) -> tuple[str, ...]:
    """Return a field that is a list of texts, without repetitions; empty if the field is missing or null."""
    value = form.get(key)
    if value is None:
        return ()
    if not isinstance(value, (list, tuple)):
        raise _wrong(key, "a list of texts", value, where)
    for index, text in enumerate(value):
        if not isinstance(text, str) or not text:
            raise ConstraintError(
                f'"{key}" is a list of texts that are not empty, not of {with_kind(text)}',
                where=f"{where}.{key}[{index}]",
            )
    return tuple(dict.fromkeys(value))


def whole(form: Mapping[str, Any], key: str, where: str, default: int | None = None) -> int | None:
    """Return a field that is a whole number of 0 or more, of 31 bits; `default` where it is missing or null."""
    value = form.get(key)
    if value is None:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise _wrong(key, "a whole number of 0 or more", value, where)
    if value > _MOST:
        raise ConstraintError(f'"{key}" is more than {_MOST:,}', where=f"{where}.{key}")
    return value


@contextmanager
def at(where: str) -> Iterator[None]:
    """Put the path to a field before the position that an error inside names."""
    try:
        yield
    except StructgenError as error:
        error.where = f"{where}, {error.where}" if error.where else where
        raise


def _wrong(key: str, wanted: str, value: object, where: str) -> ConstraintError:
    shown = with_kind(value) if isinstance(value, (str, int, float, bool)) else a_kind(value)
    return ConstraintError(f'"{key}" is {wanted}, not {shown}', where=f"{where}.{key}")
