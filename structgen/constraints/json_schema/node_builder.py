"""Build the nodes of a schema's IR: what the functions of keywords call.

Invariant: every reachable sub-schema becomes exactly one node, also under recursion. Nodes refer to each other by id
only, so the depth of the IR does not depend on the schema's. The schema is not changed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from structgen.constraints.expressions import RE
from structgen.constraints.regex import pattern_language
from structgen.errors import LimitExceeded, RegexError, SchemaInvalid

from .drafts import LATEST
from .formats import Format
from .nodes import Node
from .options import JsonSchemaOptions
from .pointers import escape, shorten
from .references import RECURSIVE, References, Resource, Target
from .scalars import check_spellable

__all__ = ["DEPTH_LIMIT", "NODE_LIMIT", "EvaluationNotes", "NeedsScopes", "NodeBuilder"]

NODE_LIMIT = 2_000_000
"""Limit on the sub-schemas of one schema."""
DEPTH_LIMIT = 1_000
"""Limit on nested sub-schemas."""
_NO_RESOURCE = Resource({}, LATEST, "", "#")


@dataclass
class EvaluationNotes:
    """What the keywords evaluate although the IR does not contain it, by node id."""

    unevaluated: list[int] = field(default_factory=list)
    """Nodes with ``unevaluatedProperties`` or ``unevaluatedItems``."""
    all_items: set[int] = field(default_factory=set)
    """Nodes with ``items`` or a similar keyword whose schema is true: it evaluates all, and demands nothing."""
    all_properties: set[int] = field(default_factory=set)
    """The same for ``additionalProperties``."""
    contains: dict[int, int] = field(default_factory=dict)
    """The sub-schema of ``contains``, in drafts in which it evaluates what it matches."""
    lone_ifs: dict[int, int] = field(default_factory=dict)
    """The sub-schema of an ``if`` without ``then`` and ``else``."""


class NeedsScopes(Exception):
    """A reference depends on the dynamic scope, so the schema must be read with scopes, which costs more."""


class NodeBuilder:
    """The nodes that were built so far, and the sub-schema that is being read.

    Args:
        options: The options of `json_schema`.
        references: The documents that the schema can reach.
        in_scopes: Whether to read a sub-schema once for each dynamic scope in which it is reached.
    """

    def __init__(
        self, options: JsonSchemaOptions, references: References, *, in_scopes: bool = False
    ) -> None:
        # The current sub-schema.
        self.schema: dict[str, Any] = {}
        self.pointer = "#"
        self.depth = 0
        self.node_id = 0
        self.resource = _NO_RESOURCE

        self.options = options
        self.references = references
        self.in_scopes = in_scopes
        self.nodes: list[Node | bool] = []
        self.same_value_children: dict[int, tuple[str, list[int]]] = {}
        """By node id: its pointer, and the nodes that it applies to the same value."""
        self.has_shared = False
        """Whether two keywords apply the same node; without that, references form no cycle."""
        self.spelled: dict[int, dict[str, str]] = {}
        """See `SchemaIR.spelled`."""
        self.decided: dict[int, RE] = {}
        """The texts that an approximate format judges as the specification does, by node id."""
        self.notes = EvaluationNotes()
        self._pending: list[tuple[int, dict[str, Any], str, Resource, int]] = []
        """Sub-schemas to read: node id, schema, pointer, resource and depth."""
        self._true = self._false = -1

    def at(self, keyword: str) -> str:
        """Return the pointer of a keyword of the current sub-schema."""
        return f"{self.pointer}/{keyword}"

    def invalid(self, keyword: str, message: str) -> SchemaInvalid:
        """Return the error for a keyword of the current sub-schema."""
        return SchemaInvalid(f"{keyword} {message}", pointer=self.at(keyword))

    def not_an_array(self, keyword: str, message: str, value: object) -> SchemaInvalid:
        """Return the error for a `value` that should be an array."""
        if isinstance(value, (tuple, set, frozenset)):
            message += f"; write a list, not a Python {type(value).__name__}"
        return self.invalid(keyword, message)

    def check_names(self, keyword: str, names: Iterable[str]) -> None:
        """Raise if a name of a property is not a string, or cannot be written in UTF-8."""
        try:
            joined = "".join(names)
        except TypeError:
            wrong = next(name for name in names if not isinstance(name, str))
            raise self.invalid(keyword, f"must hold names of properties; {wrong!r} is not a string") from None
        if not joined.isascii():
            check_spellable(joined, self.at(keyword))

    def note_depth(self, depth: int, pointer: str) -> None:
        """Record that a value of `enum` or `const` has `depth` nested containers."""
        if len(self.nodes) > NODE_LIMIT:
            # A Python value that contains one list many times is small in memory, but its text is large.
            raise self._too_large(pointer)

    def reserve(self) -> int:
        """Return a node id whose node is written later."""
        nodes = self.nodes
        nodes.append(True)
        return len(nodes) - 1

    def false_node(self) -> int:
        """Return the id of the node that no value satisfies."""
        if self._false < 0:
            self._false = self.reserve()
            self.nodes[self._false] = False
        return self._false

    def true_node(self) -> int:
        """Return the id of the node that every value satisfies."""
        if self._true < 0:
            self._true = self.reserve()
        return self._true

    def child(self, schema: object, pointer: str) -> int:
        """Return the node id of a sub-schema of the current resource; queue it if it is new."""
        if schema.__class__ is not dict:
            if schema is True:
                return self.true_node()
            if schema is False:
                return self.false_node()
            if not isinstance(schema, dict):
                raise SchemaInvalid(
                    f"a schema must be an object or a boolean, not {_describe(schema)}",
                    pointer=shorten(pointer),
                )
        resource = self.resource
        known = resource.nodes.get(id(schema))
        if known is not None:
            self.has_shared = True
            return known
        nodes = self.nodes
        node_id = resource.nodes[id(schema)] = len(nodes)
        nodes.append(True)
        self._pending.append((node_id, schema, pointer, resource, self.depth + 1))
        return node_id

    def members(self, schemas: dict[str, Any], prefix: str) -> tuple[tuple[str, int], ...]:
        """Return each name with what `child` returns for its schema; their pointers start with `prefix`.

        Most sub-schemas are properties, and one call for each would be a tenth of the time of reading.
        """
        nodes, pending, resource, depth = self.nodes, self._pending, self.resource, self.depth + 1
        known = resource.nodes
        members = []
        for name, schema in schemas.items():
            pointer = prefix + (escape(name) if "/" in name or "~" in name else name)
            node_id = len(nodes)
            if schema.__class__ is not dict or known.setdefault(id(schema), node_id) != node_id:
                node_id = self.child(schema, pointer)
            else:
                nodes.append(True)
                pending.append((node_id, schema, pointer, resource, depth))
            members.append((name, node_id))
        return tuple(members)

    def child_of_same_value(self, schema: object, pointer: str) -> int:
        """Return what `child` does, for a sub-schema that applies to the same value as the current one."""
        node_id = self.child(schema, pointer)
        self._note_same_value(node_id)
        return node_id

    def _note_same_value(self, node_id: int) -> None:
        seen = self.same_value_children.get(self.node_id)
        if seen is None:
            self.same_value_children[self.node_id] = (self.pointer, [node_id])
        else:
            seen[1].append(node_id)

    def reference(self, reference: str) -> int:
        """Return the id of the node that ``$ref`` refers to."""
        node_id = self.resource.targets.get(reference)
        if node_id is None:
            target = self.references.resolve(reference, self.resource, self.pointer + "/$ref")
            node_id = self.resource.targets[reference] = self._node_of_target(target)
        else:
            self.has_shared = True
        self._note_same_value(node_id)
        return node_id

    def dynamic_reference(self, keyword: str, reference: str) -> int:
        """Return the id of the node that ``$dynamicRef`` or ``$recursiveRef`` refers to in the current scope."""
        if not self.in_scopes:
            raise NeedsScopes
        target = self.references.resolve(reference, self.resource, self.at(keyword))
        name = RECURSIVE if keyword == "$recursiveRef" else reference.partition("#")[2]
        own = target.resource.dynamic.get(name)
        if own is not None and own.schema is target.schema:
            target = self.resource.scope.get(name, target)
        node_id = self._node_of_target(target)
        self._note_same_value(node_id)
        return node_id

    def _node_of_target(self, target: Target) -> int:
        origin = self.resource
        depth, self.depth = self.depth, 0
        self.resource = self._resource_in_scope(target.resource)
        node_id = self.child(target.schema, target.pointer)
        self.depth, self.resource = depth, origin
        return node_id

    def _resource_in_scope(self, resource: Resource) -> Resource:
        """Return the resource as seen from the current dynamic scope."""
        if not self.in_scopes:
            return resource
        self.references.index()
        return resource.within(self.resource.scope)

    def add_node(self, node: Node) -> int:
        """Add a node that no sub-schema of the text stands for, and return its id."""
        self.nodes.append(node)
        return len(self.nodes) - 1

    def language(self, keyword: str, pattern: object) -> RE:
        """Return the regular language of the texts in which `pattern` is found."""
        if not isinstance(pattern, str):
            raise self.invalid(keyword, "must be a regular expression in a string")
        dialect = self.schema.get("x-pattern-dialect", "ecma")
        if dialect not in ("ecma", "python", "rust"):
            raise self.invalid("x-pattern-dialect", "must be 'ecma', 'python' or 'rust'")
        try:
            return pattern_language(pattern, dialect)
        except RegexError as error:
            pointer = self.at(keyword)
            error.where = pointer if keyword == "pattern" else f"{pointer}/{escape(pattern)}"
            raise

    def asserts_formats(self) -> bool:
        """Return whether formats constrain the text of the current sub-schema."""
        chosen = self.options.formats
        return chosen == "assert" or (chosen == "dialect" and self.resource.draft.asserts_formats)

    def format_language(self, name: str) -> RE | None:
        """Return the language of a format of the current sub-schema; None if it is only an annotation."""
        if not self.asserts_formats():
            return None
        known = Format.find(name, self.resource.draft.number)
        if known is None:
            return None
        if (decided := known.decided()) is not None:
            self.decided[self.node_id] = decided
        return known.build()

    def _too_large(self, pointer: str) -> LimitExceeded:
        if self.depth > DEPTH_LIMIT:
            return LimitExceeded(
                f"sub-schemas are nested more than {DEPTH_LIMIT:,} levels deep",
                limit="schema_depth",
                where=shorten(pointer),
                hint="Move inner schemas to $defs and refer to them with $ref.",
            )
        return LimitExceeded(
            f"the schema has more than {NODE_LIMIT:,} sub-schemas",
            limit="sub_schemas",
            where=shorten(pointer),
            hint="Split the schema, or replace long enumerations of objects by a schema that describes them.",
        )


def _describe(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, (list, tuple)):
        return "an array"
    if isinstance(value, str):
        return f"the string {value[:40]!r}"
    return f"{value!r:.40}" if isinstance(value, (int, float)) else f"a Python {type(value).__name__}"
