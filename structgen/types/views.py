"""Partial objects: what of a typed value is there already, in the shape that the type has.

Why: a stream should hand out `person.name` while the rest is being written, not a dict of raw JSON.
What: models and dataclasses come as instances of themselves, made without validation; a field that is not
there yet is its default, or None where it has none. Finished leaves (dates, enums, numbers) are converted,
unfinished ones are None unless they are strings. What cannot be converted yet stays as JSON has it.
Invariant: never raises for a prefix of a valid text; only the final value of a stream is validated.
Cost: a growing view makes anew what is still open; objects and arrays that are closed are made once, and shared by
the partial values that hold them.
"""

from __future__ import annotations

import dataclasses
import types
from functools import lru_cache
from typing import Annotated, Any, Union, cast, get_args, get_origin, get_type_hints, is_typeddict

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError

from structgen.partial import MISSING, PartialJson, Unfinished, copy_containers

__all__ = ["GrowingView", "view"]


class GrowingView:
    """The view of one text that grows; called with the whole text so far, it parses only what is new."""

    def __init__(self, annotation: Any) -> None:
        self._annotation = annotation
        self._parser = PartialJson()
        self._closed = _Closed()
        self._text = ""

    def __call__(self, text: str) -> Any:
        if not text.startswith(self._text):  # generation went back
            self._parser, self._closed, self._text = PartialJson(), _Closed(), ""
        self._parser.feed(text[len(self._text) :])
        self._text = text
        value, spine = self._parser.look()
        self._closed.still_open = frozenset(map(id, spine))
        return view(self._annotation, value, self._closed)


class _Closed:
    """The views of closed containers, by the identity of the container, which is kept so that it stays its own."""

    def __init__(self) -> None:
        self.still_open: frozenset[int] = frozenset()
        self._views: dict[int, tuple[Any, Any, Any]] = {}

    def holds(self, value: Any) -> bool:
        return isinstance(value, (dict, list)) and id(value) not in self.still_open

    def view(self, annotation: Any, value: Any) -> Any:
        kept = self._views.get(id(value))
        if kept is None or kept[1] is not annotation:
            kept = self._views[id(value)] = value, annotation, view(annotation, value)
        return kept[2]


def view(annotation: Any, value: Any, closed: _Closed | None = None) -> Any:
    """`value`, a value of `PartialJson`, as far as it goes as an `annotation`; None before it has begun."""
    if value is MISSING:
        return None
    if closed is not None and closed.holds(value):
        return closed.view(annotation, value)
    if hasattr(annotation, "__value__"):
        return view(annotation.__value__, value, closed)
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return view(arguments[0], value, closed)
    if origin is Union or origin is types.UnionType:
        return _union(arguments, value, closed)
    kind = origin or annotation
    if isinstance(kind, type):
        if isinstance(value, dict):
            return _object(annotation, kind, arguments, value, closed)
        if isinstance(value, list):
            return _array(kind, arguments, value, closed)
    return _leaf(annotation, value)


def _object(
    annotation: Any, kind: Any, arguments: tuple[Any, ...], value: dict[str, Any], closed: _Closed | None
) -> Any:
    if issubclass(kind, BaseModel):
        return _model(annotation if isinstance(annotation, type) else kind, value, closed)
    hints = _hints(kind)
    if dataclasses.is_dataclass(kind):
        made: Any = cast(Any, object).__new__(kind)
        for field in dataclasses.fields(kind):
            object.__setattr__(made, field.name, _entry(hints, field.name, value, _default(field), closed))
        return made
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        named: Any = kind
        defaults = named._field_defaults
        return named._make(_entry(hints, name, value, defaults.get(name), closed) for name in named._fields)
    if is_typeddict(kind):
        return {name: view(hints.get(name, Any), item, closed) for name, item in value.items()}
    if len(arguments) == 2:
        return {_leaf(arguments[0], name): view(arguments[1], item, closed) for name, item in value.items()}
    return copy_containers(value)


def _model(kind: type[BaseModel], value: dict[str, Any], closed: _Closed | None) -> BaseModel:
    made = {}
    for name, field in kind.model_fields.items():
        names = (name, field.alias, field.validation_alias)
        given = next((value[key] for key in names if isinstance(key, str) and key in value), MISSING)
        if given is not MISSING:
            made[name] = view(field.annotation, given, closed)
    missing = {
        name: None for name, field in kind.model_fields.items() if name not in made and field.is_required()
    }
    return kind.model_construct(set(made), **made, **missing)


def _array(kind: type, arguments: tuple[Any, ...], value: list[Any], closed: _Closed | None) -> Any:
    if kind is tuple and arguments and arguments[-1] is not ...:
        return tuple(view(part, item, closed) for part, item in zip(arguments, value, strict=False))
    items = [view(arguments[0], item, closed) for item in value] if arguments else copy_containers(value)
    if kind in (tuple, set, frozenset):
        try:
            return kind(items)
        except TypeError:  # items that cannot be hashed yet
            return items
    return items


def _union(members: tuple[Any, ...], value: Any, closed: _Closed | None) -> Any:
    """The member that fits best: for objects the one that knows most of the keys."""
    if value is None and type(None) in members:
        return None
    candidates = [member for member in members if member is not type(None)]
    if isinstance(value, dict):
        scored = [(len(value.keys() & _keys(member)), -place) for place, member in enumerate(candidates)]
        best = max(range(len(candidates)), key=lambda place: scored[place])
        return view(candidates[best], value, closed)
    for member in candidates:
        if isinstance(value, list) == _is_array(member):
            return view(member, value, closed)
    return copy_containers(value)


def _leaf(annotation: Any, value: Any) -> Any:
    if isinstance(value, Unfinished):
        kind = get_origin(annotation) or annotation
        return (
            str(value)
            if annotation in (Any, object) or isinstance(kind, type) and issubclass(str, kind)
            else None
        )
    if annotation is type(value):
        return value
    if isinstance(value, (dict, list)):
        return _converted(annotation, copy_containers(value))
    try:
        return _kept(annotation, value)
    except TypeError:  # an annotation without a hash
        return _converted(annotation, value)


def _converted(annotation: Any, value: Any) -> Any:
    try:
        return _adapter(annotation).validate_python(value)
    except (ValidationError, PydanticUserError, TypeError, RecursionError):
        return value


# A long list of dates is looked at again with each token; 1, 1.0 and True are not the same.
_kept = lru_cache(maxsize=4096, typed=True)(_converted)


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


def _entry(
    hints: dict[str, Any], name: str, value: dict[str, Any], default: Any, closed: _Closed | None
) -> Any:
    return view(hints.get(name, Any), value[name], closed) if name in value else default


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default is not dataclasses.MISSING:
        return field.default
    return field.default_factory() if field.default_factory is not dataclasses.MISSING else None
