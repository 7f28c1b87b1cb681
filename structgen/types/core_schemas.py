"""Pydantic's core schema as partial values need it: the containers and texts that a position allows, and validators.

Why: a partial value must have the classes that validation will give it, so both follow the same description.

What: a `Slot` is a position in the core schema that takes a value. `SchemaIndex` looks through wrappers (unions,
nullable, defaults, validators, references) for the containers that a JSON object or array may become there. It
validates complete texts with pydantic itself.

Cost: each slot is analysed once and gets one validator, both on first use.

Source: `pydantic_core.core_schema`, versions 2.18 to 2.50.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from pydantic import TypeAdapter
from pydantic_core import CoreSchema, SchemaValidator, core_schema

__all__ = ["ANYTHING", "Container", "SchemaIndex", "Slot"]

Node = dict[str, Any]
"""A core schema; its kinds have different keys."""


class Slot(NamedTuple):
    """A position that takes a value: its core schema, and the configuration that applies there."""

    schema: Node
    config: Node | None = None

    @property
    def key(self) -> tuple[int, int]:
        """Identity of the slot. Core schemas are kept alive, and are equal only if identical."""
        return id(self.schema), id(self.config)


ANYTHING = Slot({"type": "any"})
"""A position that allows any JSON value."""


class Container(NamedTuple):
    """One container that a JSON object or array may become at a slot."""

    node: Node
    """Its core schema, without wrappers."""
    config: Node | None
    roots: tuple[type, ...] = ()
    """The root models around it, the innermost first."""
    maker: Node | None = None
    """The outermost wrapper by which pydantic converts it to another class (`collections.defaultdict`)."""


_OBJECTS = frozenset(
    {"model", "dataclass", "typed-dict", "named-tuple", "call", "dict", "ordered-dict", "counter", "any"}
)
_ARRAYS = frozenset({"list", "tuple", "set", "frozenset", "deque", "generator", "any"})
_FUNCTIONS = frozenset({"function-before", "function-after", "function-wrap"})
_LENGTHS = frozenset({"min_length", "max_length", "fail_fast"})


class SchemaIndex:
    """The core schema of one type; threads may share it."""

    def __init__(self, adapter: TypeAdapter[Any]) -> None:
        schema: Any = adapter.core_schema
        self._definitions: list[CoreSchema] = []
        self._by_reference: dict[str, Node] = {}
        while schema["type"] == "definitions":
            self._definitions += schema["definitions"]
            schema = schema["schema"]
        for definition in self._definitions:
            self._by_reference[definition["ref"]] = definition  # type: ignore[assignment]
        self.root = Slot(schema)
        self._validators: dict[tuple[int, int], SchemaValidator | None] = {}
        self._containers: dict[tuple[tuple[int, int], bool], tuple[Container, ...]] = {}
        self._texts: dict[tuple[int, int], tuple[type, ...] | None] = {}
        # Derived schemas, by their origin; kept alive, since slots are identified by identity.
        self._derived: dict[tuple[str, int], Node] = {}

    # -- validation

    def validate(self, slot: Slot, text: str) -> Any:
        """Return the value of a complete JSON text at `slot`; raise any error of pydantic or of a validator."""
        if slot.schema["type"] == "any":
            return json.loads(text)
        return self.validator(slot).validate_json(text)

    def validator(self, slot: Slot) -> SchemaValidator:
        """Return pydantic's validator of the slot."""
        found = self._validators.get(slot.key)
        if found is None:
            schema: Any = slot.schema
            if self._definitions:
                schema = core_schema.definitions_schema(schema, self._definitions)
            config: Any = slot.config
            found = self._validators[slot.key] = SchemaValidator(schema, config)
        return found

    def plain(self, slot: Slot) -> Slot:
        """Return the slot without the validators around it, which may be user code."""
        node = slot.schema
        while node["type"] in (*_FUNCTIONS, "default", "nullable") and isinstance(node.get("schema"), dict):
            node = node["schema"]
        return Slot(node, slot.config)

    # -- looking through wrappers

    def containers(self, slot: Slot, is_object: bool) -> tuple[Container, ...]:
        """Return what a JSON object (or array) may become at `slot`, in the declared order."""
        key = slot.key, is_object
        found = self._containers.get(key)
        if found is None:
            unique: dict[tuple[int, tuple[type, ...]], Container] = {}
            for container in self._possible_containers(slot, (), None, frozenset()):
                if container.node["type"] in (_OBJECTS if is_object else _ARRAYS):
                    unique.setdefault((id(container.node), container.roots), container)
            found = self._containers[key] = tuple(unique.values())
        return found

    def text_roots(self, slot: Slot) -> tuple[type, ...] | None:
        """Return the root models around an incomplete string at `slot`; None if such a string cannot be shown.

        A string is shown while it grows if it will be a string: as a `date` it has no value before its end.
        """
        if slot.key not in self._texts:
            leaves = self._possible_containers(slot, (), None, frozenset())
            texts = (
                leaf.roots for leaf in leaves if leaf.node["type"] in ("str", "any") and leaf.maker is None
            )
            self._texts[slot.key] = next(texts, None)
        return self._texts[slot.key]

    def _possible_containers(
        self, slot: Slot, roots: tuple[type, ...], maker: Node | None, inside: frozenset[int]
    ) -> Iterator[Container]:
        node, config = slot
        if id(node) in inside:  # a recursive union
            return
        inside |= {id(node)}
        kind = node["type"]
        if kind == "definition-ref":
            inner = [self._by_reference.get(node["schema_ref"], ANYTHING.schema)]
        elif kind == "model" and node.get("root_model"):
            roots, config, inner = (node["cls"], *roots), node.get("config") or config, [node["schema"]]
        elif kind in ("union", "tagged-union"):
            choices = node["choices"]
            inner = [
                choice[0] if isinstance(choice, tuple) else choice
                for choice in (choices.values() if isinstance(choices, dict) else choices)
                if not isinstance(choice, (str, int))
            ]
        elif kind == "json-or-python":
            inner = [node["json_schema"]]
        elif kind == "lax-or-strict":
            inner = [node["strict_schema" if (config or {}).get("strict") else "lax_schema"]]
        elif kind == "chain":
            inner = node["steps"][:1]
        elif kind in _FUNCTIONS:
            inner = [node["schema"]]
            maker = maker or (node if _converts(node["function"]["function"]) else None)
        elif kind in ("nullable", "default", "definitions", "custom-error"):
            inner = [node["schema"]]
        else:
            yield Container(node, config, roots, maker)
            return
        for inner_container in inner:
            yield from self._possible_containers(Slot(inner_container, config), roots, maker, inside)

    # -- derived schemas

    def without_lengths(self, node: Node, part: str = "") -> Node:
        """Return the schema for containers of any length; its items or values, `part`, may be anything."""
        found = self._derived.get((part, id(node)))
        if found is None:
            found = {key: value for key, value in node.items() if key not in _LENGTHS and key != "ref"}
            if node["type"] in _FUNCTIONS:
                found["schema"] = self.without_lengths(node["schema"], part)
            elif part in found:
                found[part] = ANYTHING.schema
            self._derived[part, id(node)] = found
            self._derived["made of", id(found)] = node  # kept alive, so that its id is not reused
        return found


def _converts(function: object) -> bool:
    """Return whether it is one of pydantic's own functions that convert a value to another class."""
    while isinstance(function, functools.partial):
        function = function.func
    package, _, rest = str(getattr(function, "__module__", "")).partition(".")
    return package == "pydantic" and rest not in (
        "_internal._known_annotated_metadata",
        "experimental.pipeline",
    )
