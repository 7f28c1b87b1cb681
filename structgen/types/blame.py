"""Find the part of a type that pydantic cannot describe: the path to the field, for the error message.

Why: pydantic names the class at fault but not where it is used; in a model of models that takes a search.

What: the annotation is taken apart, and the smallest part that fails by itself is blamed.

Cost: only for errors; each distinct part is tried once.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import (
    Annotated,
    Any,
    ForwardRef,
    Literal,
    NotRequired,
    Required,
    get_args,
    get_origin,
    get_type_hints,
)

from pydantic import BaseModel, TypeAdapter
from pydantic.errors import PydanticUserError
from pydantic_core import PydanticSerializationError, SchemaError
from typing_extensions import ReadOnly

from structgen.errors import StructgenError, TypeNotSupported

from .functions import arguments_model, hints_of, is_function, name_of
from .names import hint_for, namespace_of, undefined_field, undefined_names
from .readable import Unreadable
from .schemas import generating_schema

__all__ = ["FAULTS", "arguments_adapter", "not_supported", "show"]

FAULTS = (
    PydanticUserError,
    PydanticSerializationError,
    SchemaError,
    TypeError,
    NameError,
    ImportError,
    RuntimeError,
)
"""What pydantic raises for a type that it cannot describe (ImportError: a package that the type needs is missing)."""


def not_supported(annotation: object, error: Exception) -> TypeNotSupported:
    """Return the error for `annotation`, from the `error` that pydantic raised."""
    path, part, reason, owner = _find_culprit(annotation, show(annotation), error, set(), None)
    missing, scope = _missing(part, owner)
    if missing:
        names = " and ".join(map(repr, missing))
        return TypeNotSupported(
            f"the {'name' if len(missing) == 1 else 'names'} {names} {'is' if len(missing) == 1 else 'are'} not "
            "defined where the type is evaluated",
            where=path + scope,
            hint=_hint_for_name(missing[0], owner if isinstance(part, (str, ForwardRef)) else part),
        )
    if isinstance(reason, Unreadable):
        return TypeNotSupported(
            f"{show(part)} cannot be an output type: {reason}", where=path, hint=reason.hint
        )
    if isinstance(reason, SchemaError) and "regex parse error" in str(reason):
        problem = str(reason).rpartition("error: ")[2].strip()
        return TypeNotSupported(
            f"the pattern of {show(part)} is invalid: {problem}",
            where=path,
            hint="Patterns are those of Rust's crate regex; for Python's set ConfigDict(regex_engine='python-re').",
        )
    return TypeNotSupported(
        f"{show(part)} has no JSON Schema: {_first_sentence(reason)}",
        where=path,
        hint="Use a type that pydantic can describe, or annotate the field with one and convert it afterwards.",
    )


def arguments_adapter(function: Callable[..., Any]) -> tuple[type[BaseModel], TypeAdapter[Any]]:
    """Return the model of a function's arguments, and its adapter, whose schema can be generated.

    Raises:
        TypeNotSupported: A parameter cannot be described; the error names it.
    """
    try:
        model = arguments_model(function)
        adapter: TypeAdapter[Any] = TypeAdapter(model)
        generating_schema(adapter)
        return model, adapter
    except StructgenError:
        raise
    except Exception as error:  # the code of the types may raise anything
        for parameter, kind in hints_of(function).items():
            try:
                generating_schema(TypeAdapter(kind))
            except FAULTS as reason:
                reason_error = not_supported(kind, reason)
                reason_error.where = f"the parameter {parameter} of {name_of(function)}"
                raise reason_error from reason
        raise TypeNotSupported(
            f"the parameters of {name_of(function)} cannot be described: {_first_sentence(error)}",
            hint="Annotate them with types that pydantic can describe.",
        ) from error


def _missing(part: object, owner: object) -> tuple[list[str], str]:
    """Return the undefined names that are to blame, and how the path continues to them."""
    if isinstance(part, (str, ForwardRef)):
        names = undefined_names(part, {} if owner is None else namespace_of(owner))
        return names or [part if isinstance(part, str) else part.__forward_arg__], ""
    if isinstance(part, type) and (undefined := undefined_field(part)) is not None:
        field, names = undefined
        return names, f".{field}"
    return [], ""


def _hint_for_name(name: str, owner: Any) -> str:
    if owner is None:
        return "Pass the type itself, not its name as a string; for a fixed text use structgen.choice()."
    is_class = not (isinstance(owner, type) and issubclass(owner, BaseModel))
    return hint_for(name, getattr(owner, "__module__", None), owner.__qualname__, is_class=is_class)


def _first_sentence(error: Exception) -> str:
    return str(error).splitlines()[0].split(". ", 1)[0].rstrip(".")


def show(annotation: object) -> str:
    """Return a type as it is written in code."""
    if get_origin(annotation) is Annotated:
        return f"Annotated[{show(get_args(annotation)[0])}, ...]"
    if is_function(annotation):
        return str(getattr(annotation, "__qualname__", annotation)).rsplit("<locals>.", 1)[-1]
    if isinstance(annotation, type) and not get_args(annotation):
        return annotation.__qualname__.rsplit("<locals>.", 1)[-1]
    return str(annotation).replace("typing.", "")


def _find_culprit(
    annotation: object, path: str, error: Exception, seen: set[int], owner: object
) -> tuple[str, Any, Exception, Any]:
    """Return the path, the part, what is wrong with it, and the class that has it as a field."""
    base = get_origin(annotation) or annotation
    inner = base if isinstance(base, type) and base.__module__ != "builtins" else owner
    for label, part in _parts(annotation):
        if id(part) in seen:
            continue
        seen.add(id(part))
        try:
            generating_schema(TypeAdapter(part))
        except RecursionError:
            continue
        except FAULTS as found:
            return _find_culprit(part, path + label, found, seen, inner)
    return path, annotation, error, owner


def _parts(annotation: object) -> Iterator[tuple[str, Any]]:
    """Yield the annotations inside `annotation`, each with how the path continues to it."""
    origin = get_origin(annotation)
    if origin is Annotated:
        yield "", get_args(annotation)[0]
        return
    for index, part in enumerate(get_args(annotation)):
        is_name = isinstance(part, ForwardRef) or isinstance(part, str) and origin is not Literal
        if is_name or isinstance(part, type) or get_origin(part) is not None or is_function(part):
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
            while get_origin(part) in (Required, NotRequired, ReadOnly):  # these are not types by themselves
                (part,) = get_args(part)
            yield f".{name}", part
