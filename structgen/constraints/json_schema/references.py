"""Resolve ``$ref``: resources, their base URIs, anchors, and documents that the user supplies.

Why: nearly every reference is a pointer into the same resource, and that case only walks the parsed document. The
index of identifiers and anchors is built when a reference first needs it. Other documents come from the user's
registry or from the published meta-schemas, never from the network.

Invariant: a `Resource` stands for one schema with its own base URI. Looking up the same URI twice returns the same
`Resource`. Nothing in a user's registry is changed.

Cost: a local reference is linear in its segments; the index is linear in the document, once.

Source: JSON Schema 2020-12 core, sections 8.2 and 9; RFC 3986, section 5 (`uris`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeAlias, runtime_checkable

from structgen.errors import OptionError, ReferenceNotFound, SchemaInvalid, UnsupportedKeyword, a_kind

from .drafts import LATEST, Draft, draft_of, is_known_vocabulary
from .drafts import dialect as dialect_of
from .pointers import escape, segments, shorten, suggestion
from .uris import normalise, resolve

__all__ = ["RECURSIVE", "References", "Registry", "Resource", "Target", "starts_resource"]

_MAX_INDEXED_DEPTH = 2_000
"""The reader refuses deeper schemas, whose pointers would fill the memory."""


@runtime_checkable
class DocumentRegistry(Protocol):
    """Documents by their URIs, as `referencing.Registry` keeps them."""

    def get_or_retrieve(self, uri: str) -> Any:  # noqa: ANN401 — a type of `referencing`
        """Return a `referencing.Retrieved`."""


Registry: TypeAlias = Mapping[str, Any] | DocumentRegistry
"""Other documents that ``$ref`` may refer to: parsed schemas by their URIs, or a `referencing.Registry`."""


@dataclass(eq=False, slots=True)
class Resource:
    """A schema with a base URI of its own: a document's root or a sub-schema with ``$id``."""

    root: Any
    draft: Draft
    base: str
    pointer: str
    """Pointer of the root, for messages."""
    nodes: dict[int, int] = field(default_factory=dict)
    """Node ids by the identity of the sub-schema; used by the reader."""
    targets: dict[str, int] = field(default_factory=dict)
    """Node ids by the text of the reference; used by the reader."""
    dynamic: dict[str, Target] = field(default_factory=dict)
    """Its own dynamic anchors; known after `References.index`."""
    scope: Scope = field(default_factory=dict)
    """The dynamic scope in which it was entered: the outermost target of each dynamic anchor."""
    _variants: dict[tuple[tuple[str, int], ...], Resource] = field(default_factory=dict)

    def within(self, scope: Scope) -> Resource:
        """Return this resource as entered in a dynamic scope: a variant with nodes of its own.

        A `$dynamicRef` refers to different schemas in different scopes, so a sub-schema is read once for each scope
        in which it is reached. There are few scopes: they differ only in dynamic anchors.
        """
        inner = {**self.dynamic, **scope}
        key = tuple(sorted((name, id(target.schema)) for name, target in inner.items()))
        variant = self._variants.get(key)
        if variant is None:
            variant = replace(self, nodes={}, targets={}, scope=inner)
            self._variants[key] = variant
        return variant


@dataclass(frozen=True, slots=True)
class Target:
    """What a reference refers to."""

    schema: Any
    pointer: str
    resource: Resource


_VOCABULARIES_SINCE = 2019
_DEFINITIONS = {"definitions": "$defs", "$defs": "definitions"}
"""The two names that drafts give to the same keyword."""
Scope = dict[str, Target]
RECURSIVE = ""
"""The name of ``$recursiveAnchor`` in scopes; no anchor can have it."""


def starts_resource(schema: Mapping[str, Any], draft: Draft) -> bool:
    """Return whether this sub-schema has an identifier of its own (more than an anchor)."""
    identifier = schema.get(draft.id_keyword)
    if not isinstance(identifier, str) or identifier.startswith("#") or not identifier:
        return False
    return not (draft.ref_silences_siblings and "$ref" in schema)


class References:
    """All documents that one schema can reach.

    Args:
        registry: The user's documents: a mapping from URIs, a `referencing.Registry`, or None.
        subschemas: The keywords whose values contain schemas (`keywords.SUBSCHEMAS`). Identifiers and anchors are
            searched there.
    """

    def __init__(self, registry: Registry | None, subschemas: Mapping[str, str]) -> None:
        self._registry = _check_registry(registry)
        self._subschemas = subschemas
        self._names: dict[str, str] | None = None
        """If the registry is a mapping: its keys by their normalised spelling; built when a look-up fails."""
        self._resources: dict[str, Resource] = {}
        self._anchors: dict[tuple[str, str], Target] = {}
        self._embedded: dict[tuple[int, str], Resource] = {}
        self._new: list[Resource] = []
        """Documents that are not indexed yet."""
        self._ambiguous: dict[str, tuple[str, str]] = {}
        """Identifiers, and ``base#anchor``, of two unequal schemas, with the pointers of both."""

    def document(
        self, root: object, base: str = "", pointer: str = "#", draft: Draft | None = None
    ) -> Resource:
        """Register a document, and return its resource."""
        resource = Resource(root, self._own_draft(root) or draft or LATEST, base, pointer)
        if isinstance(root, dict) and starts_resource(root, resource.draft):
            resource.base = resolve(base, root[resource.draft.id_keyword])
            known = self._resources.get(resource.base)
            if known is not None and known.root is root:
                self._resources.setdefault(base, known)
                return known  # the registry has this document under two names
        self._new.append(resource)
        self._resources.setdefault(resource.base, resource)
        if base != resource.base:
            self._resources.setdefault(base, resource)
        return resource

    def documents(self) -> dict[str, Any]:
        """Return the root of each document that was reached, by its pointer."""
        return {
            resource.pointer: resource.root
            for resource in self._resources.values()
            if resource.pointer.endswith("#")
        }

    def embedded(self, schema: dict[str, Any], parent: Resource, pointer: str) -> Resource:
        """Return the resource that a sub-schema with its own identifier starts."""
        key = (id(schema), parent.base)
        known = self._embedded.get(key)
        if known is not None:
            return known
        draft = self._own_draft(schema) or parent.draft
        identifier = schema.get(draft.id_keyword, schema.get(parent.draft.id_keyword))
        base = resolve(parent.base, identifier) if isinstance(identifier, str) else parent.base
        resource = Resource(schema, draft, base, pointer)
        self._embedded[key] = resource
        first = self._resources.setdefault(base, resource)
        if first is not resource and _differ(first.root, schema):
            self._ambiguous.setdefault(base, (first.pointer, pointer))
        return resource

    def resolve(self, reference: str, origin: Resource, location: str) -> Target:
        """Return what a reference refers to.

        Args:
            reference: The value of ``$ref``.
            origin: The resource that contains the reference.
            location: Pointer of the reference, for messages.

        Raises:
            ReferenceNotFound: There is no such document, anchor or position.
            SchemaInvalid: Two schemas have the identifier.
        """
        if reference == "#":
            return Target(origin.root, origin.pointer, origin)
        if reference.startswith("#/"):
            return self._descend(reference[1:], origin, reference, location)
        url, fragment = resolve(origin.base, reference), reference.partition("#")[2]
        if reference.startswith("#"):
            resource: Resource | None = origin
        else:
            resource = self._resource(url, origin.draft)
        if resource is None:
            raise self._missing_document(reference, url, origin, location)
        if url in self._ambiguous and resource is not origin:
            raise self._duplicate_identifier(reference, url, location)
        if not fragment:
            return Target(resource.root, resource.pointer, resource)
        if fragment.startswith("/"):
            return self._descend(fragment, resource, reference, location)
        return self._anchor(fragment, resource, reference, location)

    def _descend(self, fragment: str, resource: Resource, reference: str, location: str) -> Target:
        schema = resource.root
        pointer = resource.pointer
        for key in segments(fragment):
            if (
                schema is not resource.root
                and isinstance(schema, dict)
                and starts_resource(schema, resource.draft)
            ):
                resource = self.embedded(schema, resource, pointer)
            try:
                schema = schema[int(key)] if isinstance(schema, list) and key.isdigit() else schema[key]
            except (KeyError, IndexError, TypeError, ValueError):
                raise self._missing_key(reference, pointer, key, schema, location) from None
            pointer = f"{pointer}/{escape(key)}"
        if (
            schema is not resource.root
            and isinstance(schema, dict)
            and starts_resource(schema, resource.draft)
        ):
            resource = self.embedded(schema, resource, pointer)
        return Target(schema, shorten(pointer), resource)

    def _resource(self, url: str, draft: Draft) -> Resource | None:
        known = self._resources.get(url)
        if known is not None and known.pointer.endswith("#"):
            return known
        self.index()  # a part of a document is found by its identifier, which must be unique
        known = self._resources.get(url)
        if known is not None:
            return known
        contents = self._look_up(url)
        if contents is None:
            return None
        return self.document(contents, url, f"{url}#", draft)

    def _anchor(self, name: str, resource: Resource, reference: str, location: str) -> Target:
        self.index()
        target = self._anchors.get((resource.base, name))
        if target is None:
            names = [anchor for base, anchor in self._anchors if base == resource.base]
            raise ReferenceNotFound(
                f"the reference {reference!r} has the anchor {name!r}, which does not exist in {resource.pointer}"
                + (
                    self._suggest_pointer(name, resource, reference.partition("#")[0])
                    or suggestion(name, names)
                ),
                pointer=location,
            )
        if (identifier := f"{resource.base}#{name}") in self._ambiguous:
            raise self._duplicate_identifier(reference, identifier, location)
        return target

    def index(self) -> None:
        """Find the identifiers and anchors of the documents that were added since the last call."""
        while self._new:
            document = self._new.pop(0)
            pending = [(document.root, document.pointer, document, 0)]
            seen: set[tuple[int, int]] = set()
            while pending:
                schema, pointer, resource, depth = pending.pop()
                if not isinstance(schema, dict) or depth > _MAX_INDEXED_DEPTH:
                    continue
                if (id(schema), id(resource)) in seen:
                    continue  # a Python object that occurs several times, perhaps inside itself
                seen.add((id(schema), id(resource)))
                if schema is not resource.root and starts_resource(schema, resource.draft):
                    resource = self.embedded(schema, resource, pointer)
                for anchor in _anchors_of(schema, resource.draft):
                    first = self._anchors.setdefault(
                        (resource.base, anchor), Target(schema, pointer, resource)
                    )
                    if _differ(first.schema, schema):
                        self._ambiguous.setdefault(f"{resource.base}#{anchor}", (first.pointer, pointer))
                for anchor in _dynamic_anchors_of(schema, resource):
                    resource.dynamic.setdefault(anchor, Target(schema, pointer, resource))
                pending.extend(
                    (child, child_pointer, resource, depth + 1)
                    for child, child_pointer in _children(schema, pointer, self._subschemas)
                )

    def _look_up(self, url: str) -> object:
        """Return a document by its URI: the user's, or a published meta-schema."""
        if isinstance(self._registry, Mapping) and not isinstance(self._registry, DocumentRegistry):
            for name in (url, url + "#"):
                if name in self._registry:
                    return self._registry[name]
            if self._names is None:
                self._names = {normalise(name): name for name in self._registry}
            if url in self._names:
                return self._registry[self._names[url]]
        elif self._registry is not None:
            from referencing.exceptions import Unretrievable  # optional: loaded where a registry is given

            try:
                return self._registry.get_or_retrieve(url).value.contents
            except (Unretrievable, KeyError):
                pass
        from jsonschema_specifications import REGISTRY  # takes long to load, and few schemas need it

        resource = REGISTRY.get(url)
        return None if resource is None else resource.contents

    def _own_draft(self, schema: object) -> Draft | None:
        uri = schema.get("$schema") if isinstance(schema, dict) else None
        if not isinstance(uri, str):
            return None
        return draft_of(uri) or (self._custom_draft(uri) if self._registry is not None else None)

    def knows_dialect(self, uri: str) -> bool:
        """Return whether this is the meta-schema of a draft, or one in the registry."""
        return self._own_draft({"$schema": uri}) is not None

    def _custom_draft(self, uri: str) -> Draft | None:
        """Return the draft of a dialect whose meta-schema is in the registry."""
        dialect = self._look_up(normalise(uri))
        if not isinstance(dialect, dict):
            return None
        own = dialect.get("$schema")
        draft = draft_of(own) if isinstance(own, str) else LATEST
        if draft is None or draft.number < _VOCABULARIES_SINCE:
            return draft
        vocabularies = dialect.get("$vocabulary")
        if not isinstance(vocabularies, dict):
            return draft
        for name, needed in vocabularies.items():
            if needed is True and not is_known_vocabulary(draft, name):
                raise UnsupportedKeyword(
                    f"the dialect {uri!r} requires the vocabulary {name!r}, which is not supported",
                    pointer="#/$schema",
                    keyword="$vocabulary",
                    hint="Set it to false in the meta-schema's $vocabulary if its keywords may be ignored.",
                )
        return dialect_of(draft, vocabularies)

    def _duplicate_identifier(self, reference: str, name: str, location: str) -> SchemaInvalid:
        first, second = self._ambiguous[name]
        return SchemaInvalid(
            f"the reference {reference!r} is ambiguous: {shorten(first)} and {shorten(second)} "
            "have the same identifier",
            pointer=location,
            hint="An identifier must be unique (JSON Schema Core, section 9.1.2).",
        )

    def _missing_document(
        self, reference: str, url: str, origin: Resource, location: str
    ) -> ReferenceNotFound:
        suggested = self._suggest_pointer(reference, origin)
        known = [name for name in (*self._resources, *_supplied_uris(self._registry)) if name != origin.base]
        return ReferenceNotFound(
            f"the reference {reference!r} refers to the document {url!r}, which is not available"
            + (suggested or suggestion(url, known)),
            pointer=location,
            hint=None if suggested else "Pass it in registry=; documents are never fetched.",
        )

    def _suggest_pointer(self, written: str, origin: Resource, document: str = "") -> str:
        """Return the end of a message if the reference looks like a misspelled pointer; else an empty string."""
        bare = written.lstrip("#/")
        for fragment in (f"/{bare}", f"/$defs/{bare}", f"/definitions/{bare}"):
            try:
                self._descend(fragment, origin, written, "")
            except ReferenceNotFound:
                continue
            return f"; did you mean {document + '#' + fragment!r}?"
        return ""

    def _missing_key(
        self, reference: str, pointer: str, key: str, at: object, location: str
    ) -> ReferenceNotFound:
        moved = _DEFINITIONS.get(key)
        if isinstance(at, dict) and moved in at and key not in at:
            hint = f"; did you mean {reference.replace(f'/{key}/', f'/{moved}/')!r}?"
        elif isinstance(at, dict):
            hint = suggestion(key, [name for name in at if isinstance(name, str)])
        elif isinstance(at, list):
            hint = f"; the array there has {len(at)} items"
        else:
            hint = "; the value there is neither an object nor an array"
        return ReferenceNotFound(
            f"the reference {reference!r} does not resolve: {shorten(pointer)} has no {key!r}{hint}",
            pointer=location,
        )


def _differ(first: object, second: object) -> bool:
    """Return whether these are different schemas; schemas that contain themselves count as different."""
    try:
        return first is not second and first != second
    except RecursionError:
        return True


def _anchors_of(schema: dict[str, Any], draft: Draft) -> Iterator[str]:
    if draft.ref_silences_siblings:
        identifier = schema.get(draft.id_keyword)
        if isinstance(identifier, str) and identifier.startswith("#") and "$ref" not in schema:
            yield identifier[1:]
        return
    for keyword in ("$anchor", "$dynamicAnchor"):
        anchor = schema.get(keyword)
        if isinstance(anchor, str):
            yield anchor


def _dynamic_anchors_of(schema: dict[str, Any], resource: Resource) -> Iterator[str]:
    if resource.draft.number == 2019:
        if schema is resource.root and schema.get("$recursiveAnchor") is True:
            yield RECURSIVE
    elif resource.draft.number > 2019 and isinstance(anchor := schema.get("$dynamicAnchor"), str):
        yield anchor


def _children(
    schema: dict[str, Any], pointer: str, subschemas: Mapping[str, str]
) -> Iterator[tuple[Any, str]]:
    for keyword, value in schema.items():
        kind = subschemas.get(keyword)
        if kind is None:
            continue
        keyword_pointer = f"{pointer}/{keyword}"
        if isinstance(value, list):
            if kind != "map":
                yield from ((child, f"{keyword_pointer}/{i}") for i, child in enumerate(value))
        elif kind == "map":
            if isinstance(value, dict):
                yield from (
                    (child, f"{keyword_pointer}/{escape(str(name))}") for name, child in value.items()
                )
        else:
            yield value, keyword_pointer


def _check_registry(registry: object) -> Registry | None:
    """Return the registry if documents can be looked up in it."""
    if registry is None or isinstance(registry, DocumentRegistry):
        return registry
    if not isinstance(registry, Mapping):
        raise OptionError(
            f"registry= is {a_kind(registry)}; it must map URIs to schemas",
            hint='Write {"https://example.com/a": {...}}, or pass a referencing.Registry.',
        )
    for uri, document in registry.items():
        if not isinstance(uri, str):
            raise OptionError(f"registry= has the key {uri!r:.60}; its keys must be URIs, as strings")
        if not isinstance(document, (Mapping, bool)):
            raise OptionError(
                f"registry= has {document!r:.60} for {uri!r:.200}; a document must be a parsed schema",
                hint="Parse it with json.loads." if isinstance(document, (str, bytes)) else None,
            )
    return registry


def _supplied_uris(registry: object) -> list[str]:
    """Return the URIs of the documents that the user supplied."""
    return [name for name in registry if isinstance(name, str)] if isinstance(registry, Iterable) else []
