"""Partial objects: what of a typed value is there already, in the shape that the type has.

Why: a stream should hand out `person.name` while the rest is being written, not a dict of raw JSON.
What: models and dataclasses come as instances of themselves, made without validation; a field that is not
there yet is its default, or None where it has none. Finished leaves (dates, enums, numbers) are converted,
unfinished ones are None unless they are strings. What cannot be converted yet stays as JSON has it.
Invariant: never raises for a prefix of a valid text; only the final value of a stream is validated.
"""

from __future__ import annotations

import dataclasses
import types
from functools import lru_cache
from typing import Annotated, Any, Union, cast, get_args, get_origin, get_type_hints, is_typeddict

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError

from structgen.partial import MISSING, PartialJson, Unfinished

__all__ = ["GrowingView", "view"]


class GrowingView:
    """The view of one text that grows; called with the whole text so far, it parses only what is new."""

    def __init__(self, annotation: Any) -> None:
        self._annotation = annotation
        self._parser = PartialJson()
        self._text = ""

    def __call__(self, text: str) -> Any:
        if not text.startswith(self._text):  # generation went back
            self._parser, self._text = PartialJson(), ""
        self._parser.feed(text[len(self._text) :])
        self._text = text
        return view(self._annotation, self._parser.value)


def view(annotation: Any, value: Any) -> Any:
    """`value`, a value of `PartialJson`, as far as it goes as an `annotation`; None before it has begun."""
    if value is MISSING:
        return None
    if hasattr(annotation, "__value__"):
        return view(annotation.__value__, value)
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return view(arguments[0], value)
    if origin is Union or origin is types.UnionType:
        return _union(arguments, value)
    kind = origin or annotation
    if isinstance(kind, type):
        if isinstance(value, dict):
            return _object(annotation, kind, arguments, value)
        if isinstance(value, list):
            return _array(kind, arguments, value)
    return _leaf(annotation, value)


def _object(annotation: Any, kind: Any, arguments: tuple[Any, ...], value: dict[str, Any]) -> Any:
    if issubclass(kind, BaseModel):
        return _model(annotation if isinstance(annotation, type) else kind, value)
    hints = _hints(kind)
    if dataclasses.is_dataclass(kind):
        made: Any = cast(Any, object).__new__(kind)
        for field in dataclasses.fields(kind):
            object.__setattr__(made, field.name, _entry(hints, field.name, value, _default(field)))
        return made
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        named: Any = kind
        defaults = named._field_defaults
        return named._make(_entry(hints, name, value, defaults.get(name)) for name in named._fields)
    if is_typeddict(kind):
        return {name: view(hints[name], item) if name in hints else item for name, item in value.items()}
    if len(arguments) == 2:
        return {_leaf(arguments[0], name): view(arguments[1], item) for name, item in value.items()}
    return value


def _model(kind: type[BaseModel], value: dict[str, Any]) -> BaseModel:
    made = {}
    for name, field in kind.model_fields.items():
        names = (name, field.alias, field.validation_alias)
        given = next((value[key] for key in names if isinstance(key, str) and key in value), MISSING)
        if given is not MISSING:
            made[name] = view(field.annotation, given)
    missing = {
        name: None for name, field in kind.model_fields.items() if name not in made and field.is_required()
    }
    return kind.model_construct(set(made), **made, **missing)


def _array(kind: type, arguments: tuple[Any, ...], value: list[Any]) -> Any:
    if kind is tuple and arguments and arguments[-1] is not ...:
        return tuple(view(part, item) for part, item in zip(arguments, value, strict=False))
    items = [view(arguments[0], item) for item in value] if arguments else value
    if kind in (tuple, set, frozenset):
        try:
            return kind(items)
        except TypeError:  # items that cannot be hashed yet
            return items
    return items


def _union(members: tuple[Any, ...], value: Any) -> Any:
    """The member that fits best: for objects the one that knows most of the keys."""
    if value is None and type(None) in members:
        return None
    candidates = [member for member in members if member is not type(None)]
    if isinstance(value, dict):
        scored = [(len(value.keys() & _keys(member)), -place) for place, member in enumerate(candidates)]
        best = max(range(len(candidates)), key=lambda place: scored[place])
        return view(candidates[best], value)
    for member in candidates:
        if isinstance(value, list) == _is_array(member):
            return view(member, value)
    return value


def _leaf(annotation: Any, value: Any) -> Any:
    if isinstance(value, Unfinished):
        kind = get_origin(annotation) or annotation
        return (
            str(value)
            if annotation in (Any, object) or isinstance(kind, type) and issubclass(str, kind)
            else None
        )
    try:
        return _adapter(annotation).validate_python(value)
    except (ValidationError, PydanticUserError, TypeError, RecursionError):
        return value


@lru_cache(maxsize=512)
def _adapter(annotation: Any) -> TypeAdapter[Any]:
    return TypeAdapter(annotation)


@lru_cache(maxsize=512)
def _hints(kind: Any) -> dict[str, Any]:
    try:
        return get_type_hints(kind)
    except (NameError, TypeError):
        return {}


def _keys(member: Any) -> frozenset[str]:
    kind = get_origin(member) or member
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        aliases = [field.alias for field in kind.model_fields.values() if field.alias]
        return frozenset([*kind.model_fields, *aliases])
    return frozenset(_hints(kind)) if isinstance(kind, type) else frozenset()


def _is_array(member: Any) -> bool:
    kind = get_origin(member) or member
    return isinstance(kind, type) and issubclass(kind, (list, tuple, set, frozenset))


def _entry(hints: dict[str, Any], name: str, value: dict[str, Any], default: Any) -> Any:
    return view(hints.get(name, Any), value[name]) if name in value else default


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default is not dataclasses.MISSING:
        return field.default
    return field.default_factory() if field.default_factory is not dataclasses.MISSING else None
