"""Iterable types as output types: lists.

Why: an answer is a complete value that may be read many times. For ``Iterable[User]`` pydantic gives an iterator,
which is empty the second time, and it does not support ``Collection``.

What: types that a list satisfies become ``list``: Iterable, Collection, Reversible, Container, Sequence,
MutableSequence. Types that require ``next()`` or are asynchronous are refused.
"""

from __future__ import annotations

import collections.abc as abc
import typing
from types import GenericAlias, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from structgen.errors import TypeNotSupported

__all__ = ["with_lists"]

_LISTS = (abc.Iterable, abc.Collection, abc.Reversible, abc.Container, abc.Sequence, abc.MutableSequence)
_SINGLE_PASS = (
    abc.Iterator,
    abc.Generator,
    abc.AsyncIterator,
    abc.AsyncIterable,
    abc.AsyncGenerator,
    abc.Awaitable,
)


def with_lists(annotation: Any) -> Any:
    """Return the annotation with lists in place of types that only require iteration.

    Raises:
        TypeNotSupported: It requires an iterator, a generator or something asynchronous.
    """
    origin = get_origin(annotation)
    if (origin or annotation) in _SINGLE_PASS:
        inside = get_args(annotation)
        item = getattr(inside[0], "__name__", str(inside[0])) if inside else "X"
        raise TypeNotSupported(
            f"{_shown(annotation)} can be read only once, while an answer is a complete value",
            hint=f"Write list[{item}]; structgen.stream() and .stream() return the growing list.",
        )
    if annotation in _LISTS:
        return list
    if origin is None:
        return annotation
    if origin in _LISTS:
        return list[with_lists(get_args(annotation)[0])]  # type: ignore[misc]
    if origin is typing.Literal:
        return annotation
    inside = get_args(annotation)
    changed = tuple(with_lists(argument) if _is_type(argument) else argument for argument in inside)
    if all(new is old for new, old in zip(changed, inside, strict=True)):
        return annotation
    if origin is Annotated:
        return Annotated[(changed[0], *annotation.__metadata__)]
    if origin in (Union, UnionType):
        return Union[changed]  # noqa: UP007
    if isinstance(annotation, GenericAlias) or origin.__module__ in (
        "builtins",
        "collections",
        "collections.abc",
    ):
        return GenericAlias(origin, changed)
    return annotation.copy_with(changed) if hasattr(annotation, "copy_with") else annotation


def _is_type(annotation: object) -> bool:
    return isinstance(annotation, type) or get_origin(annotation) is not None


def _shown(annotation: object) -> str:
    if get_origin(annotation) is None:
        return str(getattr(annotation, "__name__", annotation))
    return str(annotation).replace("collections.abc.", "").replace("typing.", "")
