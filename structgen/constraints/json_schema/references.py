"""Where a ``$ref`` leads: resources, their base URIs, anchors and documents that the user supplied.

Why: nearly every reference is a pointer into the same resource, so that case walks the parsed document and
nothing else; the index of identifiers and anchors is made only when some reference needs it, and other
documents come only from the registry that the user passes or from the published meta-schemas, never from
the network.
Invariant: a `Resource` stands for one schema with its own base URI; looking up the same URI twice gives the
same `Resource`. Everything found in a user's registry is read, never changed.
Cost: a local reference is linear in its segments; the index is linear in the document, once.
Source: JSON Schema 2020-12 core, sections 8.2 and 9; RFC 3986, section 5 (`uris`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from structgen.errors import OptionError, ReferenceNotFound, SchemaInvalid, UnsupportedKeyword, a_kind

from .drafts import LATEST, Draft, draft_of, is_known_vocabulary
from .drafts import dialect as dialect_of
from .keywords import SUBSCHEMAS
from .pointers import escape, segments, shorten, suggestion
from .uris import normal, resolve

__all__ = ["RECURSIVE", "References", "Resource", "Target", "starts_resource"]

_INDEXED_DEPTH = 2_000
"""Schemas inside so many others are refused by the reader; their pointers would fill the memory."""


@dataclass(eq=False, slots=True)
class Resource:
    """A schema with a base URI of its own: a document's root or a sub-schema with ``$id``."""

    root: Any
    draft: Draft
    base: str
    pointer: str
    """Where the root is, for messages."""
    nodes: dict[int, int] = field(default_factory=dict)
    """Node id by the identity of the sub-schema; belongs to the reader."""
    targets: dict[str, int] = field(default_factory=dict)
    """Node id by the text of the reference; belongs to the reader."""
    dynamic: dict[str, Target] = field(default_factory=dict)
    """Its own dynamic anchors; known after `References.index`."""
    scope: Scope = field(default_factory=dict)
    """The dynamic scope in which it was entered: for each dynamic anchor, the outermost place."""
    _variants: dict[tuple[tuple[str, int], ...], Resource] = field(default_factory=dict)

    def within(self, scope: Scope) -> Resource:
        """The same resource entered in a dynamic scope: a variant with nodes of its own.

        A `$dynamicRef` leads to different places in different scopes, so a sub-schema is read once for each
        scope in which it is reached. Scopes are few: they differ only in dynamic anchors.
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
    """What a reference leads to."""

    schema: Any
    pointer: str
    resource: Resource


_VOCABULARIES_SINCE = 2019
_DEFINITIONS = {"definitions": "$defs", "$defs": "definitions"}
"""The two names that drafts give to the same thing."""
Scope = dict[str, Target]
RECURSIVE = ""
"""The name, which no anchor can have, under which ``$recursiveAnchor`` stands in scopes."""


def starts_resource(schema: Mapping[str, Any], draft: Draft) -> bool:
    """Does this sub-schema have an identifier of its own (more than an anchor)?"""
    identifier = schema.get(draft.id_keyword)
    if not isinstance(identifier, str) or identifier.startswith("#") or not identifier:
        return False
    return not (draft.ref_silences_siblings and "$ref" in schema)


class References:
    """All documents that one schema can reach."""

    def __init__(self, registry: Any = None) -> None:
        self._registry = _checked(registry)
        self._names: dict[str, str] | None = None
        """The keys of a mapping as registry, by their normal spelling; made when one is looked up in vain."""
        self._resources: dict[str, Resource] = {}
        self._anchors: dict[tuple[str, str], Target] = {}
        self._embedded: dict[tuple[int, str], Resource] = {}
        self._new: list[Resource] = []
        """Documents whose identifiers and anchors are not known yet."""
        self._ambiguous: dict[str, tuple[str, str]] = {}
        """Identifiers and ``base#anchor`` that two unequal schemas claim, and where those are."""

    def document(self, root: Any, base: str = "", pointer: str = "#", draft: Draft | None = None) -> Resource:
        """Makes a document known."""
        resource = Resource(root, self._own_draft(root) or draft or LATEST, base, pointer)
        if isinstance(root, dict) and starts_resource(root, resource.draft):
            resource.base = resolve(base, root[resource.draft.id_keyword])
            known = self._resources.get(resource.base)
            if known is not None and known.root is root:
                self._resources.setdefault(base, known)
                return known  # the registry has it under two names
        self._new.append(resource)
        self._resources.setdefault(resource.base, resource)
        if base != resource.base:
            self._resources.setdefault(base, resource)
        return resource

    def documents(self) -> dict[str, Any]:
        """The root of each document that was reached, by its pointer."""
        return {one.pointer: one.root for one in self._resources.values() if one.pointer.endswith("#")}

    def embedded(self, schema: dict[str, Any], parent: Resource, pointer: str) -> Resource:
        """The resource that a sub-schema with its own identifier starts."""
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

    def resolve(self, reference: str, origin: Resource, where: str) -> Target:
        """What `reference`, written in `origin` at pointer `where`, leads to."""
        if reference == "#":
            return Target(origin.root, origin.pointer, origin)
        if reference.startswith("#/"):
            return self._descend(reference[1:], origin, reference, where)
        url, fragment = resolve(origin.base, reference), reference.partition("#")[2]
        if reference.startswith("#"):
            resource: Resource | None = origin
        else:
            resource = self._resource(url, origin.draft)
        if resource is None:
            raise self._missing_document(reference, url, origin, where)
        if url in self._ambiguous and resource is not origin:
            raise self._two_of_a_name(reference, url, where)
        if not fragment:
            return Target(resource.root, resource.pointer, resource)
        if fragment.startswith("/"):
            return self._descend(fragment, resource, reference, where)
        return self._anchor(fragment, resource, reference, where)

    def _descend(self, fragment: str, resource: Resource, reference: str, where: str) -> Target:
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
                raise self._missing_place(reference, pointer, key, schema, where) from None
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
        self.index()  # a part of a document is found by its identifier, which must be the only one
        known = self._resources.get(url)
        if known is not None:
            return known
        contents = self._look_up(url)
        if contents is None:
            return None
        return self.document(contents, url, f"{url}#", draft)

    def _anchor(self, name: str, resource: Resource, reference: str, where: str) -> Target:
        self.index()
        found = self._anchors.get((resource.base, name))
        if found is None:
            names = [anchor for base, anchor in self._anchors if base == resource.base]
            raise ReferenceNotFound(
                f"the reference {reference!r} names the anchor {name!r}, which {resource.pointer} does not have"
                + (self._as_pointer(name, resource, reference.partition("#")[0]) or suggestion(name, names)),
                pointer=where,
            )
        if (place := f"{resource.base}#{name}") in self._ambiguous:
            raise self._two_of_a_name(reference, place, where)
        return found

    def index(self) -> None:
        """Finds the identifiers and anchors of the documents that are new since the last time."""
        while self._new:
            document = self._new.pop(0)
            pending = [(document.root, document.pointer, document, 0)]
            seen: set[tuple[int, int]] = set()
            while pending:
                schema, pointer, resource, depth = pending.pop()
                if not isinstance(schema, dict) or depth > _INDEXED_DEPTH:
                    continue
                if (id(schema), id(resource)) in seen:
                    continue  # a Python object at many places, perhaps inside itself
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
                    (child, place, resource, depth + 1) for child, place in _children(schema, pointer)
                )

    def _look_up(self, url: str) -> Any:
        """A document by its URI: the user's, then the published meta-schemas."""
        if isinstance(self._registry, Mapping) and not hasattr(self._registry, "get_or_retrieve"):
            for name in (url, url + "#"):
                if name in self._registry:
                    return self._registry[name]
            if self._names is None:
                self._names = {normal(name): name for name in self._registry}
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

    def _own_draft(self, schema: Any) -> Draft | None:
        uri = schema.get("$schema") if isinstance(schema, dict) else None
        if not isinstance(uri, str):
            return None
        return draft_of(uri) or (self._custom_draft(uri) if self._registry is not None else None)

    def knows_dialect(self, uri: str) -> bool:
        """Is this the meta-schema of a draft, or one that the registry has?"""
        return self._own_draft({"$schema": uri}) is not None

    def _custom_draft(self, uri: str) -> Draft | None:
        """The draft of a dialect whose meta-schema is in the registry."""
        dialect = self._look_up(normal(uri))
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
                    f"the dialect {uri!r} requires the vocabulary {name!r}, which is not known here",
                    pointer="#/$schema",
                    keyword="$vocabulary",
                    hint="Say false for it in the meta-schema's $vocabulary if its keywords may be ignored.",
                )
        return dialect_of(draft, vocabularies)

    def _two_of_a_name(self, reference: str, name: str, where: str) -> SchemaInvalid:
        first, second = self._ambiguous[name]
        return SchemaInvalid(
            f"the reference {reference!r} leads to two schemas, {shorten(first)} and {shorten(second)}, "
            "which have the same identifier",
            pointer=where,
            hint="An identifier must name one schema only (JSON Schema Core, section 9.1.2).",
        )

    def _missing_document(self, reference: str, url: str, origin: Resource, where: str) -> ReferenceNotFound:
        meant = self._as_pointer(reference, origin)
        known = [name for name in (*self._resources, *_names_of(self._registry)) if name != origin.base]
        return ReferenceNotFound(
            f"the reference {reference!r} leads to the document {url!r}, which is not here"
            + (meant or suggestion(url, known)),
            pointer=where,
            hint=None if meant else "Pass it in registry=, documents are never fetched.",
        )

    def _as_pointer(self, written: str, origin: Resource, document: str = "") -> str:
        """The end of a message where a pointer of the resource is written in another way."""
        bare = written.lstrip("#/")
        for fragment in (f"/{bare}", f"/$defs/{bare}", f"/definitions/{bare}"):
            try:
                self._descend(fragment, origin, written, "")
            except ReferenceNotFound:
                continue
            return f"; did you mean {document + '#' + fragment!r}?"
        return ""

    def _missing_place(
        self, reference: str, pointer: str, key: str, at: Any, where: str
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
            f"the reference {reference!r} leads nowhere: {shorten(pointer)} has no {key!r}{hint}",
            pointer=where,
        )


def _differ(one: Any, other: Any) -> bool:
    """Are these two schemas, as far as can be told? Those that contain themselves are taken for two."""
    try:
        return one is not other and one != other
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


def _children(schema: dict[str, Any], pointer: str) -> Iterator[tuple[Any, str]]:
    for keyword, value in schema.items():
        kind = SUBSCHEMAS.get(keyword)
        if kind is None:
            continue
        place = f"{pointer}/{keyword}"
        if isinstance(value, list):
            if kind != "map":
                yield from ((child, f"{place}/{i}") for i, child in enumerate(value))
        elif kind == "map":
            if isinstance(value, dict):
                yield from ((child, f"{place}/{escape(str(name))}") for name, child in value.items())
        else:
            yield value, place


def _checked(registry: Any) -> Any:
    """The registry, if documents can be looked up in it."""
    if registry is None or hasattr(registry, "get_or_retrieve"):
        return registry
    if not isinstance(registry, Mapping):
        raise OptionError(
            f"registry= is {a_kind(registry)}; it maps URIs to schemas",
            hint='Write {"https://example.com/a": {...}}, or pass a referencing.Registry.',
        )
    for uri, document in registry.items():
        if not isinstance(uri, str):
            raise OptionError(f"registry= has the key {uri!r:.60}; its keys are URIs, as strings")
        if not isinstance(document, (Mapping, bool)):
            raise OptionError(
                f"registry= has {document!r:.60} for {uri!r:.200}; a document is a parsed schema",
                hint="Parse it with json.loads." if isinstance(document, (str, bytes)) else None,
            )
    return registry


def _names_of(registry: Any) -> list[str]:
    """The URIs of the documents that the user supplied."""
    return [name for name in registry if isinstance(name, str)] if isinstance(registry, Iterable) else []
