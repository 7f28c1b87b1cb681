"""Compile a parsed schema to the IR of the core, in one pass.

Why: the time to the first mask is the user's waiting time, so a schema is walked once. One small function per
keyword (`keywords.dispatch`) checks shapes, resolves references and writes nodes on the way.

Invariant: every reachable sub-schema becomes exactly one node, also under recursion. The IR refers to nodes by id
only, so its depth does not depend on the schema's. The schema is not changed.

Cost: linear in the reachable part, with a worklist instead of recursion. A typical schema of 3 KB takes about 100
µs.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from structgen._core import charge
from structgen.constraints.regex import pattern_language
from structgen.errors import LimitExceeded, RegexError, SchemaInvalid
from structgen.ir.schema import SchemaIR

from .approximate_formats import restrict_denied_formats
from .closing import OpenObjects, close_objects, nodes_about_other_keys
from .drafts import LATEST, is_ancient
from .formats import Format
from .keywords import Read, dispatch
from .options import JsonSchemaOptions
from .pointers import LABEL_LIMIT, escape, shorten
from .reference_cycles import check_reference_cycles
from .references import RECURSIVE, References, Resource, Target, starts_resource
from .unevaluated import Notes, rewrite_unevaluated
from .values import check_spellable, enumerate_values

__all__ = ["DEPTH_LIMIT", "NODE_LIMIT", "NeedsScopes", "Node", "Reader", "read_schema"]

Node = dict[str, Any]

NODE_LIMIT = 2_000_000
"""Limit on the sub-schemas of one schema."""
DEPTH_LIMIT = 1_000
"""Limit on nested sub-schemas."""
_NO_RESOURCE = Resource({}, LATEST, "", "#")
_NO_OPEN_OBJECTS = OpenObjects()
_NODES_PER_CHARGE = 32
_UNITS_PER_NODE = 75
"""Units of work, of 20 ns each, that reading a sub-schema takes."""


class Reader:
    """Reads one schema; the attributes up to `resource` describe the current sub-schema."""

    def __init__(self, options: JsonSchemaOptions, registry: Any = None, *, in_scopes: bool = False) -> None:
        self.schema: dict[str, Any] = {}
        self.pointer = "#"
        self.depth = 0
        self.node_id = 0
        self.options = options
        self.references = References(registry)
        self.in_scopes = in_scopes
        self.nodes: list[Node | bool] = []
        self.beside_of: dict[int, tuple[str, list[int]]] = {}
        self.has_shared = False
        self.spelled: dict[int, dict[str, str]] = {}
        self.decided: dict[int, Any] = {}
        self.notes = Notes()
        self.open_objects = _NO_OPEN_OBJECTS
        """The objects that were closed."""
        self._pending: list[tuple[int, dict[str, Any], str, Resource, int]] = []
        self._true = self._false = -1
        self.root = self.resource = _NO_RESOURCE

    def read(self, schema: Any, part: str = "") -> tuple[Node | bool, ...]:
        """Return all nodes. The first is the root: the schema, or the part of it at the pointer `part`."""
        dialect = schema.get("$schema") if isinstance(schema, dict) else None
        if dialect is not None and not isinstance(dialect, str):
            raise SchemaInvalid(
                f"$schema must be the URI of a dialect, not {dialect!r:.60}", pointer="#/$schema"
            )
        self.root = self.resource = self._resource_in_scope(self.references.document(schema))
        if part:
            self._node_of_target(self.references.resolve(f"#{part}", self.resource, "#"))
        else:
            self.child(schema, "#")
        self._run()
        if self.has_shared and self.beside_of:
            check_reference_cycles(self.beside_of)
        mentioning = nodes_about_other_keys(self) if self.closes() else set()
        if self.notes.node_ids:
            rewrite_unevaluated(self)
        if self.closes():
            self.open_objects = close_objects(self, mentioning)
        restrict_denied_formats(self.nodes, self.decided)
        return tuple(self.nodes)

    def closes(self) -> bool:
        """Return whether objects that declare their keys are closed."""
        return self.options.closed

    def _run(self) -> None:
        pending = self._pending
        resource = self.resource
        table = dispatch(resource.draft)
        identifier = resource.draft.id_keyword
        silenced = resource.draft.ref_silences_siblings
        nodes = self.nodes
        while pending:
            self.node_id, schema, pointer, own_resource, self.depth = pending.pop()
            if not self.node_id % _NODES_PER_CHARGE:
                charge(_NODES_PER_CHARGE * _UNITS_PER_NODE)
            if own_resource is not resource:
                resource = self.resource = own_resource
                table = dispatch(resource.draft)
                identifier = resource.draft.id_keyword
                silenced = resource.draft.ref_silences_siblings
            if (
                identifier in schema
                and schema is not resource.root
                and starts_resource(schema, resource.draft)
            ):
                # The same sub-schema again, under its own base URI and perhaps its own draft.
                own_resource = self._resource_in_scope(self.references.embedded(schema, resource, pointer))
                own_resource.nodes[id(schema)] = self.node_id
                pending.append((self.node_id, schema, pointer, own_resource, self.depth))
                continue
            if self.depth > DEPTH_LIMIT or len(nodes) > NODE_LIMIT:
                raise self._too_large(pointer)
            if len(pointer) > LABEL_LIMIT or not pointer.isascii():
                pointer = shorten(pointer)
            self.schema = schema
            self.pointer = pointer
            node: Node = {"pointer": pointer}
            if silenced and "$ref" in schema:
                schema = {"$ref": schema["$ref"]}
            if "$schema" in schema:
                self._refuse_ancient(schema["$schema"])
            self.keywords(schema, table, node)
            nodes[self.node_id] = node if len(node) > 1 else True

    def _refuse_ancient(self, dialect: Any) -> None:
        if isinstance(dialect, str) and is_ancient(dialect):
            raise SchemaInvalid(
                f"{dialect} is older than draft 4, the oldest draft that is supported",
                pointer=self.at("$schema"),
            )

    def keywords(self, schema: dict[str, Any], table: dict[str, Read], node: Node) -> None:
        """Read the keywords of one sub-schema."""
        for keyword, value in schema.items():
            read = table.get(keyword)
            if read is not None:
                read(self, value, node)
            elif not isinstance(keyword, str):
                raise SchemaInvalid(
                    f"{keyword!r} is not a keyword: keys of a JSON object are strings", pointer=self.pointer
                )

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

    # Called by the functions of keywords.

    def at(self, keyword: str) -> str:
        """Return the pointer of a keyword of the current sub-schema."""
        return f"{self.pointer}/{keyword}"

    def invalid(self, keyword: str, message: str) -> SchemaInvalid:
        """Return the error for a keyword of the current sub-schema."""
        return SchemaInvalid(f"{keyword} {message}", pointer=self.at(keyword))

    def not_an_array(self, keyword: str, message: str, value: Any) -> SchemaInvalid:
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

    def false(self) -> int:
        """Return the id of the node that no value satisfies."""
        if self._false < 0:
            self._false = self.reserve()
            self.nodes[self._false] = False
        return self._false

    def true(self) -> int:
        """Return the id of the node that every value satisfies."""
        if self._true < 0:
            self._true = self.reserve()
        return self._true

    def child(self, schema: Any, pointer: str) -> int:
        """Return the node id of a sub-schema of the current resource; queue it if it is new."""
        if schema.__class__ is not dict:
            if schema is True:
                return self.true()
            if schema is False:
                return self.false()
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
        place = resource.nodes[id(schema)] = len(nodes)
        nodes.append(True)
        self._pending.append((place, schema, pointer, resource, self.depth + 1))
        return place

    def members(self, schemas: dict[str, Any], prefix: str) -> tuple[tuple[str, int], ...]:
        """Return each name with what `child` returns for its schema; their pointers start with `prefix`.

        Most sub-schemas are properties, and one call for each would be a tenth of the time of reading.
        """
        nodes, pending, resource, depth = self.nodes, self._pending, self.resource, self.depth + 1
        known = resource.nodes
        found = []
        for name, schema in schemas.items():
            pointer = prefix + (escape(name) if "/" in name or "~" in name else name)
            place = len(nodes)
            if schema.__class__ is not dict or known.setdefault(id(schema), place) != place:
                place = self.child(schema, pointer)
            else:
                nodes.append(True)
                pending.append((place, schema, pointer, resource, depth))
            found.append((name, place))
        return tuple(found)

    def beside(self, schema: Any, pointer: str) -> int:
        """Return what `child` does, for a sub-schema that applies to the same value as the current one."""
        place = self.child(schema, pointer)
        self._note_same_value(place)
        return place

    def _note_same_value(self, place: int) -> None:
        seen = self.beside_of.get(self.node_id)
        if seen is None:
            self.beside_of[self.node_id] = (self.pointer, [place])
        else:
            seen[1].append(place)

    def reference(self, reference: str) -> int:
        """Return the id of the node that ``$ref`` refers to."""
        place = self.resource.targets.get(reference)
        if place is None:
            target = self.references.resolve(reference, self.resource, self.pointer + "/$ref")
            place = self.resource.targets[reference] = self._node_of_target(target)
        else:
            self.has_shared = True
        self._note_same_value(place)
        return place

    def dynamic_reference(self, keyword: str, reference: str) -> int:
        """Return the id of the node that ``$dynamicRef`` or ``$recursiveRef`` refers to in the current scope."""
        if not self.in_scopes:
            raise NeedsScopes
        target = self.references.resolve(reference, self.resource, self.at(keyword))
        name = RECURSIVE if keyword == "$recursiveRef" else reference.partition("#")[2]
        own = target.resource.dynamic.get(name)
        if own is not None and own.schema is target.schema:
            target = self.resource.scope.get(name, target)
        place = self._node_of_target(target)
        self._note_same_value(place)
        return place

    def _node_of_target(self, target: Target) -> int:
        origin = self.resource
        depth, self.depth = self.depth, 0
        self.resource = self._resource_in_scope(target.resource)
        place = self.child(target.schema, target.pointer)
        self.depth, self.resource = depth, origin
        return place

    def _resource_in_scope(self, resource: Resource) -> Resource:
        """Return the resource as seen from the current dynamic scope."""
        if not self.in_scopes:
            return resource
        self.references.index()
        return resource.within(self.resource.scope)

    def generated(self, node: Node) -> int:
        """Add a node that no sub-schema of the text stands for, and return its id."""
        self.nodes.append(node)
        return len(self.nodes) - 1

    def constant(self, value: Any) -> int:
        """Add a node for ``const`` beside ``enum``, and return its id."""
        node: Node = {"pointer": self.at("const")}
        place = self.generated(node)
        enumerate_values(self, [value], node, self.at("const"))
        return place

    def language(self, keyword: str, pattern: Any) -> Any:
        """Return the regular language of the texts in which `pattern` is found."""
        if not isinstance(pattern, str):
            raise self.invalid(keyword, "must be a regular expression in a string")
        dialect = self.schema.get("x-pattern-dialect", "ecma")
        if dialect not in ("ecma", "python", "rust"):
            raise self.invalid("x-pattern-dialect", "must be 'ecma', 'python' or 'rust'")
        try:
            return pattern_language(pattern, dialect)
        except RegexError as error:
            place = self.at(keyword)
            error.where = place if keyword == "pattern" else f"{place}/{escape(pattern)}"
            raise

    def asserts_formats(self) -> bool:
        """Return whether formats constrain the text of the current sub-schema."""
        chosen = self.options.formats
        return chosen == "assert" or (chosen == "dialect" and self.resource.draft.asserts_formats)

    def format_language(self, name: str) -> Any:
        """Return the language of a format of the current sub-schema; None if it is only an annotation."""
        if not self.asserts_formats():
            return None
        found = Format.find(name, self.resource.draft.number)
        if found is None:
            return None
        if (decided := found.decided()) is not None:
            self.decided[self.node_id] = decided
        return found.build()


def _describe(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, (list, tuple)):
        return "an array"
    if isinstance(value, str):
        return f"the string {value[:40]!r}"
    return f"{value!r:.40}" if isinstance(value, (int, float)) else f"a Python {type(value).__name__}"


class NeedsScopes(Exception):
    """A reference depends on the dynamic scope, so the schema must be read with scopes, which costs more."""


def read_schema(
    schema: Any, options: JsonSchemaOptions, registry: Any = None, part: str = ""
) -> tuple[SchemaIR, OpenObjects]:
    """Compile a parsed schema.

    Args:
        schema: The schema, parsed.
        options: The options of `json_schema`.
        registry: Other documents that ``$ref`` may refer to.
        part: Pointer of the part to compile; empty for the whole schema.

    Returns:
        The IR, and the objects that were closed.
    """
    reader = Reader(options, registry)
    try:
        nodes = reader.read(schema, part)
    except NeedsScopes:
        reader = Reader(options, registry, in_scopes=True)
        nodes = reader.read(schema, part)
    ir = SchemaIR(nodes=nodes, root=0, options=options.lower(), spelled=reader.spelled)
    return ir, reader.open_objects
