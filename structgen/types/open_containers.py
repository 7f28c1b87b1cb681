"""Containers that are still being written, in the class that validation will give them.

Why: `person.name` should be available while the rest is being written, in a `Person`, not in a dict.

What: one builder per kind of container in pydantic's core schema. It takes complete members, counts those that are
not allowed (which decides between members of a union), and builds the object as far as it goes, without validating
it.

Invariant: building an object runs no code of the user's class except default factories, which run once.

Cost: `view` copies the members so far.
"""

from __future__ import annotations

import copy
import json
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from pydantic_core import PydanticUndefined

from .core_schemas import ANYTHING, Container, Node, SchemaIndex, Slot

__all__ = ["MISSING", "Builder", "builder_for", "wrap_in_roots"]


class _Missing:
    def __repr__(self) -> str:
        return "MISSING"

    def __bool__(self) -> bool:
        return False


MISSING: Any = _Missing()
"""The value of what has not started, or cannot be shown before its end."""


class Builder(ABC):
    """One container at one position; the members come in the order of the text."""

    def __init__(self, index: SchemaIndex, container: Container) -> None:
        self.index = index
        self.container = container
        self.node, self.config = container.node, container.config
        self.misfits = 0
        """Number of members that are not allowed here."""
        self.known = 0
        """Number of members that are declared here."""

    @abstractmethod
    def slot(self, key: Any) -> Slot:
        """Return the position of the member with that key or index; `ANYTHING` if it is not declared."""

    def declares(self, key: Any) -> bool:
        """Return whether a member with that key or index is allowed."""
        return True

    def name(self, key: Any) -> Any:
        """Return the Python name of the member with that key or index."""
        return key

    def slots_named(self, name: str) -> list[Slot]:
        """Return the positions of a member with this Python name, which may have several keys, or none."""
        return [self.slot(name)]

    def add(self, key: Any, value: Any, fits: bool) -> None:
        """Add a complete member."""
        declared = self.declares(key)
        self.misfits += not (fits and declared)
        self.known += declared
        self._add(key, value)

    def view(self, key: Any = None, value: Any = MISSING) -> Any:
        """Return the container so far, with the incomplete member `value` under `key` if there is one."""
        return wrap_in_roots(self._view(key, value), self.container.roots)

    @abstractmethod
    def _add(self, key: Any, value: Any) -> None: ...

    @abstractmethod
    def _view(self, key: Any, value: Any) -> Any: ...


class _Array(Builder):
    """Lists and similar containers; a tuple has a schema for each position."""

    def __init__(self, index: SchemaIndex, container: Container) -> None:
        super().__init__(index, container)
        self._items: list[Any] = []
        self._make = _maker(index, container, "items_schema")
        self._is_set = self.node["type"] in ("set", "frozenset")

    def slot(self, key: int) -> Slot:
        items = self.node.get("items_schema")
        if isinstance(items, list):  # a tuple
            variadic = self.node.get("variadic_item_index")
            item_index = key if variadic is None or key < variadic else variadic
            items = items[item_index] if item_index < len(items) else None
        return ANYTHING if items is None else Slot(items, self.config)

    def declares(self, key: int) -> bool:
        if self.node["type"] == "tuple" and self.node.get("variadic_item_index") is None:
            return key < len(self.node.get("items_schema", ()))
        return True

    def _add(self, key: int, value: Any) -> None:
        self._items.append(value)

    def _view(self, key: Any, value: Any) -> Any:
        # An incomplete item of a set is left out: it may become equal to another, or have no hash yet.
        shown = self._items if value is MISSING or self._is_set else [*self._items, value]
        return self._make(shown)


class _Mapping(Builder):
    """Dictionaries and similar containers, whose keys have a type."""

    def __init__(self, index: SchemaIndex, container: Container) -> None:
        super().__init__(index, container)
        self._items: dict[Any, Any] = {}
        self._make = _maker(index, container, "values_schema")
        keys = self.node.get("keys_schema", {"type": "any"})
        self._plain_keys = (
            keys["type"] == "any" or keys.keys() <= {"type", "metadata"} and keys["type"] == "str"
        )
        self._keys: dict[str, Any] = {}

    def slot(self, key: str) -> Slot:
        values = self.node.get("values_schema")
        return ANYTHING if values is None else Slot(values, self.config)

    def declares(self, key: str) -> bool:
        self._converted(key)
        return key in self._keys

    def _converted(self, key: str) -> Any:
        """Return the key converted to its type, by validating an object with this key alone."""
        if self._plain_keys:
            self._keys[key] = key
        elif key not in self._keys:
            slot = Slot(self.index.without_lengths(self.node, "values_schema"), self.config)
            try:
                (self._keys[key],) = self.index.validate(slot, json.dumps({key: 1}))
            except Exception:  # noqa: BLE001 — validators of keys are user code
                return key
        return self._keys[key]

    def _add(self, key: str, value: Any) -> None:
        name = self._converted(key)
        self._items.pop(name, None)
        self._items[name] = value

    def _view(self, key: Any, value: Any) -> Any:
        return self._make(self._items if value is MISSING else {**self._items, self._converted(key): value})


class _Record(Builder):
    """Objects with declared fields: models, dataclasses, typed dictionaries, named tuples."""

    def __init__(self, index: SchemaIndex, container: Container) -> None:
        super().__init__(index, container)
        self.fields, self._extra = _fields(self.node)
        by_name = self._by_name()
        self._names: dict[str, str] = {}
        for name, field in self.fields.items():
            aliases = _aliases(field)
            for written in [*aliases, name] if by_name or not aliases else aliases:
                self._names.setdefault(written, name)
        self.given: dict[str, Any] = {}
        self.extras: dict[str, Any] = {}
        self._defaults: dict[str, Any] = {}

    def _by_name(self) -> bool:
        config = self.node.get("config") or self.config or {}
        return bool(config.get("populate_by_name") or config.get("validate_by_name"))

    @property
    def takes_extras(self) -> bool:
        """Whether undeclared keys are kept."""
        config = self.node.get("config") or self.config or {}
        return bool((self._extra.get("extra_behavior") or config.get("extra_fields_behavior")) == "allow")

    def slot(self, key: str) -> Slot:
        config = self.node.get("config") or self.config
        if key in self._names:
            return Slot(self.fields[self._names[key]]["schema"], config)
        extras = self._extra.get("extras_schema")
        return ANYTHING if extras is None else Slot(extras, config)

    def declares(self, key: str) -> bool:
        return key in self._names or self.takes_extras

    def name(self, key: str) -> str:
        return self._names.get(key, key)

    def slots_named(self, name: str) -> list[Slot]:
        keys = [key for key, field in self._names.items() if name in (key, field)]
        return [self.slot(key) for key in keys or [name] if self.declares(key)]

    def _add(self, key: str, value: Any) -> None:
        self._put(self.given, self.extras, key, value)

    def _put(self, given: dict[str, Any], extras: dict[str, Any], key: str, value: Any) -> None:
        if key in self._names:
            given[self._names[key]] = value
        elif self.takes_extras:
            extras[key] = value

    def _view(self, key: Any, value: Any) -> Any:
        given, extras = dict(self.given), dict(self.extras)
        if key is not None:  # a field whose value cannot be shown yet is None, even if it has a default
            self._put(given, extras, key, None if value is MISSING else value)
        return self._make(given, extras)

    def _all_fields(self, given: dict[str, Any]) -> dict[str, Any]:
        """Return all fields in order; a missing field has its default, or None."""
        return {name: given[name] if name in given else self._default(name) for name in self.fields}

    def _default(self, name: str) -> Any:
        schema = self.fields[name]["schema"]
        while schema["type"] != "default" and isinstance(schema.get("schema"), dict):
            schema = schema["schema"]
        if schema["type"] != "default":
            return None
        if "default" in schema:
            return copy.deepcopy(schema["default"]) if schema.get("copy_default") else schema["default"]
        if (
            name not in self._defaults
        ):  # once per object, so that a generated id does not change while the object grows
            factory, arguments = schema["default_factory"], []
            if schema.get("default_factory_takes_data"):
                before = list(self.fields)[: list(self.fields).index(name)]
                if not all(field in self.given for field in before):
                    return None
                arguments = [{field: self.given[field] for field in before}]
            try:
                self._defaults[name] = factory(*arguments)
            except Exception:  # noqa: BLE001 — a default factory is user code
                self._defaults[name] = None
        return copy.copy(self._defaults[name])

    @abstractmethod
    def _make(self, given: dict[str, Any], extras: dict[str, Any]) -> Any: ...


class _Model(_Record):
    def _make(self, given: dict[str, Any], extras: dict[str, Any]) -> Any:
        result: Any = object.__new__(self.node["cls"])
        object.__setattr__(result, "__dict__", self._all_fields(given))
        object.__setattr__(result, "__pydantic_fields_set__", {*given, *extras})
        object.__setattr__(result, "__pydantic_extra__", extras if self.takes_extras else None)
        object.__setattr__(result, "__pydantic_private__", self._private())
        return result

    def _private(self) -> dict[str, Any] | None:
        declared = getattr(self.node["cls"], "__private_attributes__", None)
        if not declared:
            return None
        private = {}
        for name, attribute in declared.items():
            try:
                value = attribute.get_default()
            except Exception:  # noqa: BLE001 — a default factory is user code
                continue
            if value is not PydanticUndefined:
                private[name] = value
        return private


class _Dataclass(_Record):
    def _make(self, given: dict[str, Any], extras: dict[str, Any]) -> Any:
        result: Any = object.__new__(self.node["cls"])
        for name, value in self._all_fields(given).items():
            if not self.fields[name].get("init_only"):
                object.__setattr__(result, name, value)
        for name, value in extras.items():
            with suppress(AttributeError):  # a class with slots that was modified after its declaration
                object.__setattr__(result, name, value)
        return result


class _TypedDict(_Record):
    def _make(self, given: dict[str, Any], extras: dict[str, Any]) -> Any:
        return {**given, **extras}


class _NamedTuple(_Record):
    def _make(self, given: dict[str, Any], extras: dict[str, Any]) -> Any:
        cls = self.node["cls"] if "cls" in self.node else self.node["function"]
        return tuple.__new__(cls, self._all_fields(given).values())


_KINDS: dict[str, type[Builder]] = {
    "model": _Model,
    "dataclass": _Dataclass,
    "typed-dict": _TypedDict,
    "named-tuple": _NamedTuple,
    "call": _NamedTuple,
}


def builder_for(index: SchemaIndex, container: Container, is_object: bool) -> Builder:
    """Return a new builder of one container."""
    kind = container.node["type"]
    if kind in _KINDS and _fields(container.node)[0] is not None:
        return _KINDS[kind](index, container)
    if kind in _KINDS or kind == "any":
        container = container._replace(node=ANYTHING.schema, maker=None)
    return _Mapping(index, container) if is_object else _Array(index, container)


def wrap_in_roots(value: Any, roots: tuple[type, ...]) -> Any:
    """Return `value` inside root models, which are built without validation."""
    for cls in roots:
        result: Any = object.__new__(cls)
        object.__setattr__(result, "__dict__", {"root": value})
        object.__setattr__(result, "__pydantic_fields_set__", {"root"})
        object.__setattr__(result, "__pydantic_extra__", None)
        object.__setattr__(result, "__pydantic_private__", None)
        value = result
    return value


def _fields(node: Node) -> tuple[Any, Node]:
    """Return the fields of a record by name, and the schema that declares how other keys are handled.

    The fields are None if the class describes itself in another way.
    """
    inner = node["arguments_schema"] if node["type"] == "call" else node.get("schema", node)
    while inner["type"].startswith("function-") and isinstance(inner.get("schema"), dict):
        inner = inner["schema"]
    declared = inner.get("arguments_schema" if inner["type"] == "arguments" else "fields")
    if isinstance(declared, list):
        declared = {field["name"]: field for field in declared}
    return (declared if isinstance(declared, dict) else None), inner


def _aliases(field: Node) -> list[str]:
    alias = field.get("validation_alias", field.get("alias"))
    if alias is None or isinstance(alias, str):
        return [] if alias is None else [alias]
    paths = alias if alias and isinstance(alias[0], list) else [alias]
    return [path[0] for path in paths if len(path) == 1 and isinstance(path[0], str)]


def _maker(index: SchemaIndex, container: Container, part: str) -> Callable[[Any], Any]:
    """Return the function from members to the class that pydantic gives such a container."""
    kind = container.node["type"]
    if container.maker is None:
        plain = {"list": list, "set": set, "frozenset": frozenset, "tuple": tuple, "dict": dict, "any": None}
        if kind in ("any", "generator"):
            return list if part == "items_schema" else dict
        if kind in plain:
            return _with_fallback(plain[kind])
    node = index.without_lengths(container.maker or container.node, part)
    try:
        empty = index.validate(Slot(node, container.config), "[]" if part == "items_schema" else "{}")
    except Exception:  # noqa: BLE001 — validators are user code; such a container cannot be empty
        return list if part == "items_schema" else dict

    def make(members: Any) -> Any:
        result = copy.copy(empty)
        if part == "items_schema":
            if hasattr(result, "extend"):
                result.extend(members)
                return result
            return type(empty)(members)
        result.update(members)
        return result

    return _with_fallback(make)


def _with_fallback(make: Any) -> Callable[[Any], Any]:
    def attempt(members: Any) -> Any:
        try:
            return make(members)
        except (
            TypeError,
            ValueError,
            AttributeError,
        ):  # items without a hash; a class that cannot be copied this way
            return copy.copy(members)

    return attempt
