"""From a parsed schema to the IR of the native automaton, in one pass.

Why: time to first mask is the user's waiting time, so a schema is walked once: shapes are checked,
references resolved and nodes written on the way, by one small function per keyword (`keywords.dispatch`).
Invariant: every reachable sub-schema becomes exactly one node, also under recursion; the IR refers to nodes
by id only, so its depth does not depend on the schema's. Nothing in the schema is changed.
Cost: linear in the reachable part; a worklist, not recursion. A typical schema of 3 KB takes about 100 µs.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from structgen._core import charge
from structgen.constraints.regex import pattern_language
from structgen.errors import LimitExceeded, RegexError, SchemaInvalid
from structgen.ir.schema import SchemaIR

from .approximate_formats import settle_doubts
from .closing import OpenObjects, close_objects, speaking_nodes
from .drafts import LATEST, is_ancient
from .formats import Format
from .keywords import Read, dispatch
from .options import JsonSchemaOptions
from .pointers import LABEL_LIMIT, escape, shorten
from .reference_cycles import find_endless
from .references import RECURSIVE, References, Resource, Target, starts_resource
from .unevaluated import Notes, rewrite_unevaluated
from .values import check_spellable, enumerate_values

__all__ = ["DEPTH_LIMIT", "NODE_LIMIT", "NeedsScopes", "Node", "Reader", "read_schema"]

Node = dict[str, Any]

NODE_LIMIT = 2_000_000
"""Sub-schemas of one schema."""
DEPTH_LIMIT = 1_000
"""Levels of sub-schemas inside one another."""
_NOWHERE = Resource({}, LATEST, "", "#")
_NONE_OPEN = OpenObjects()
_CHARGED_AT_ONCE = 32
_UNITS = 75
"""Units of work (of 20 ns) that reading a sub-schema takes."""


class Reader:
    """Reads one schema; the attributes up to `resource` describe the sub-schema at hand."""

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
        self.settled: dict[int, Any] = {}
        self.notes = Notes()
        self.open_objects = _NONE_OPEN
        """Those that were closed."""
        self._pending: list[tuple[int, dict[str, Any], str, Resource, int]] = []
        self._true = self._false = -1
        self.root = self.resource = _NOWHERE

    def read(self, schema: Any, part: str = "") -> tuple[Node | bool, ...]:
        """All nodes; the root is the first: the schema, or the part of it that the pointer `part` leads to."""
        dialect = schema.get("$schema") if isinstance(schema, dict) else None
        if dialect is not None and not isinstance(dialect, str):
            raise SchemaInvalid(f"$schema is the URI of a dialect, not {dialect!r:.60}", pointer="#/$schema")
        self.root = self.resource = self._enter(self.references.document(schema))
        if part:
            self._at_target(self.references.resolve(f"#{part}", self.resource, "#"))
        else:
            self.child(schema, "#")
        self._run()
        if self.has_shared and self.beside_of:
            find_endless(self.beside_of)
        speaking = speaking_nodes(self) if self.closes() else set()
        if self.notes.places:
            rewrite_unevaluated(self)
        if self.closes():
            self.open_objects = close_objects(self, speaking)
        settle_doubts(self.nodes, self.settled)
        return tuple(self.nodes)

    def closes(self) -> bool:
        """Are objects that declare their keys closed?"""
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
            if not self.node_id % _CHARGED_AT_ONCE:
                charge(_CHARGED_AT_ONCE * _UNITS)
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
                own_resource = self._enter(self.references.embedded(schema, resource, pointer))
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
                f"{dialect} is older than draft 4, the oldest that is read", pointer=self.at("$schema")
            )

    def keywords(self, schema: dict[str, Any], table: dict[str, Read], node: Node) -> None:
        """Reads the keywords of one sub-schema."""
        for keyword, value in schema.items():
            read = table.get(keyword)
            if read is not None:
                read(self, value, node)
            elif not isinstance(keyword, str):
                raise SchemaInvalid(
                    f"{keyword!r} is no keyword: keys of a JSON object are strings", pointer=self.pointer
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
            hint="Split the schema, or replace long enumerations of objects by a schema of their form.",
        )

    # What the functions of keywords call.

    def at(self, keyword: str) -> str:
        """The pointer of a keyword of the sub-schema at hand."""
        return f"{self.pointer}/{keyword}"

    def invalid(self, keyword: str, message: str) -> SchemaInvalid:
        return SchemaInvalid(f"{keyword} {message}", pointer=self.at(keyword))

    def no_array(self, keyword: str, message: str, value: Any) -> SchemaInvalid:
        """As `invalid`, where `value` should be an array."""
        if isinstance(value, (tuple, set, frozenset)):
            message += f"; a Python {type(value).__name__} is none, write a list"
        return self.invalid(keyword, message)

    def check_names(self, keyword: str, names: Iterable[str]) -> None:
        """Names of properties are strings that UTF-8 can spell."""
        try:
            joined = "".join(names)
        except TypeError:
            wrong = next(name for name in names if not isinstance(name, str))
            raise self.invalid(keyword, f"must hold names of properties; {wrong!r} is not a string") from None
        if not joined.isascii():
            check_spellable(joined, self.at(keyword))

    def note_depth(self, depth: int, pointer: str) -> None:
        """A value of `enum` or `const` has a container inside of `depth` - 1 others."""
        if len(self.nodes) > NODE_LIMIT:
            # Python values that hold one list many times over need not be large to spell a large text.
            raise self._too_large(pointer)

    def reserve(self) -> int:
        """A node id whose node comes later."""
        nodes = self.nodes
        nodes.append(True)
        return len(nodes) - 1

    def false(self) -> int:
        """The node that no value satisfies."""
        if self._false < 0:
            self._false = self.reserve()
            self.nodes[self._false] = False
        return self._false

    def true(self) -> int:
        """The node that every value satisfies."""
        if self._true < 0:
            self._true = self.reserve()
        return self._true

    def child(self, schema: Any, pointer: str) -> int:
        """The node id of a sub-schema of the resource at hand; new ones are queued."""
        if schema.__class__ is not dict:
            if schema is True:
                return self.true()
            if schema is False:
                return self.false()
            if not isinstance(schema, dict):
                raise SchemaInvalid(
                    f"a schema is an object or a boolean, not {_kind(schema)}", pointer=shorten(pointer)
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
        """Each name with what `child` returns for its schema; `prefix` begins their pointers.

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
        """As `child`, for a sub-schema that looks at the same value as the one at hand."""
        place = self.child(schema, pointer)
        self._looks_at(place)
        return place

    def _looks_at(self, place: int) -> None:
        seen = self.beside_of.get(self.node_id)
        if seen is None:
            self.beside_of[self.node_id] = (self.pointer, [place])
        else:
            seen[1].append(place)

    def reference(self, reference: str) -> int:
        """The node id of what ``$ref`` leads to."""
        place = self.resource.targets.get(reference)
        if place is None:
            target = self.references.resolve(reference, self.resource, self.pointer + "/$ref")
            place = self.resource.targets[reference] = self._at_target(target)
        else:
            self.has_shared = True
        self._looks_at(place)
        return place

    def dynamic_reference(self, keyword: str, reference: str) -> int:
        """The node id of what ``$dynamicRef`` or ``$recursiveRef`` leads to in the scope at hand."""
        if not self.in_scopes:
            raise NeedsScopes
        target = self.references.resolve(reference, self.resource, self.at(keyword))
        name = RECURSIVE if keyword == "$recursiveRef" else reference.partition("#")[2]
        own = target.resource.dynamic.get(name)
        if own is not None and own.schema is target.schema:
            target = self.resource.scope.get(name, target)
        place = self._at_target(target)
        self._looks_at(place)
        return place

    def _at_target(self, target: Target) -> int:
        origin = self.resource
        depth, self.depth = self.depth, 0
        self.resource = self._enter(target.resource)
        place = self.child(target.schema, target.pointer)
        self.depth, self.resource = depth, origin
        return place

    def _enter(self, resource: Resource) -> Resource:
        """The resource as it is read from here."""
        if not self.in_scopes:
            return resource
        self.references.index()
        return resource.within(self.resource.scope)

    def generated(self, node: Node) -> int:
        """The node id of a node that no sub-schema of the text stands for."""
        self.nodes.append(node)
        return len(self.nodes) - 1

    def constant(self, value: Any) -> int:
        """A node for ``const`` beside ``enum``."""
        node: Node = {"pointer": self.at("const")}
        place = self.generated(node)
        enumerate_values(self, [value], node, self.at("const"))
        return place

    def language(self, keyword: str, pattern: Any) -> Any:
        """The regular language of the texts in which `pattern` is found."""
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
        """Do formats constrain the text of the sub-schema at hand?"""
        chosen = self.options.formats
        return chosen == "assert" or (chosen == "dialect" and self.resource.draft.asserts_formats)

    def format_language(self, name: str) -> Any:
        """The regular language of a format of the sub-schema at hand, or None if it is only an annotation."""
        if not self.asserts_formats():
            return None
        found = Format.find(name, self.resource.draft.number)
        if found is None:
            return None
        if (settled := found.settled()) is not None:
            self.settled[self.node_id] = settled
        return found.build()


def _kind(value: Any) -> str:
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
    """The IR of a parsed schema, or of the part of it that the pointer `part` leads to, and what was closed in it."""
    reader = Reader(options, registry)
    try:
        nodes = reader.read(schema, part)
    except NeedsScopes:
        reader = Reader(options, registry, in_scopes=True)
        nodes = reader.read(schema, part)
    ir = SchemaIR(nodes=nodes, root=0, options=options.lower(), spelled=reader.spelled)
    return ir, reader.open_objects
