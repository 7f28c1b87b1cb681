"""Which part of a type pydantic cannot describe: the path to the field, for the error message.

Why: pydantic names the class at fault but not where it is used; in a model of models that is a search.
What: the annotation is taken apart, and the smallest part that fails alone is blamed.
Cost: only paid on errors; each distinct part is tried once.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from pydantic import BaseModel, TypeAdapter
from pydantic.errors import PydanticUserError

from structgen.errors import TypeNotSupported

__all__ = ["not_supported", "show"]


def not_supported(annotation: Any, error: Exception) -> TypeNotSupported:
    """The error for `annotation`, which `error` came from."""
    path, part, reason = _blame(annotation, show(annotation), error, set())
    return TypeNotSupported(
        f"{show(part)} has no JSON Schema: {_first_sentence(reason)}",
        where=path,
        hint="Use a type that pydantic can describe, or annotate the field with one and convert it afterwards.",
    )


def _first_sentence(error: Exception) -> str:
    return str(error).splitlines()[0].split(". ", 1)[0].rstrip(".")


def show(annotation: Any) -> str:
    """A type as one writes it."""
    if isinstance(annotation, type) and not get_args(annotation):
        return annotation.__qualname__.rsplit("<locals>.", 1)[-1]
    return str(annotation).replace("typing.", "")


def _blame(annotation: Any, path: str, error: Exception, seen: set[int]) -> tuple[str, Any, Exception]:
    for label, part in _parts(annotation):
        if id(part) in seen:
            continue
        seen.add(id(part))
        try:
            TypeAdapter(part).json_schema()
        except (PydanticUserError, TypeError, NameError) as found:
            return _blame(part, path + label, found, seen)
        except RecursionError:
            continue
    return path, annotation, error


def _parts(annotation: Any) -> Iterator[tuple[str, Any]]:
    """The annotations that `annotation` is made of, each with how the path continues to it."""
    origin = get_origin(annotation)
    if origin is Annotated:
        yield "", get_args(annotation)[0]
        return
    for index, part in enumerate(get_args(annotation)):
        if isinstance(part, type) or get_origin(part) is not None:
            yield f"[{index}]", part
    base = origin or annotation
    if not isinstance(base, type):
        return
    if issubclass(base, BaseModel):
        for name, field in base.model_fields.items():
            yield f".{name}", field.annotation
    elif dataclasses.is_dataclass(base) or hasattr(base, "__required_keys__") or hasattr(base, "_fields"):
        try:
            hints = get_type_hints(base, include_extras=True)
        except NameError:
            return
        for name, part in hints.items():
            yield f".{name}", part
