"""Resolution of references, comparison of URIs, and errors of references that do not resolve."""

from __future__ import annotations

from typing import Any
from urllib.parse import urldefrag, urljoin

import pytest
from hypothesis import given
from hypothesis import strategies as st

from structgen.constraints.json_schema import check, json_schema
from structgen.constraints.json_schema.uris import normalise, resolve
from structgen.errors import ReferenceNotFound

RFC_BASE = "http://a/b/c/d;p?q"
_WORDS = st.sampled_from(["a", "b", ".", "..", "c.json"])


def error_text(schema: Any, **options: Any) -> str:
    with pytest.raises(ReferenceNotFound) as caught:
        json_schema(schema, **options)
    return str(caught.value)


@given(st.lists(_WORDS, max_size=6), st.sampled_from(["", "/", "//h/", "http://H/"]))
def test_references_are_resolved_as_the_standard_library_does(words: list[str], start: str) -> None:
    reference = start + "/".join(words)  # no empty segments, which urljoin drops
    assert resolve(RFC_BASE, reference) == normalise(urldefrag(urljoin(RFC_BASE, reference)).url)


@pytest.mark.parametrize(
    ("base", "reference", "uri"),
    [
        (RFC_BASE, "g;x=1/../y", "http://a/b/c/y"),  # RFC 3986, section 5.4
        (RFC_BASE, "?y", "http://a/b/c/d;p?y"),
        (RFC_BASE, "../../../g", "http://a/g"),
        (RFC_BASE, "#s", RFC_BASE),
        ("", "./d.json", "d.json"),
        ("", "x/../d.json", "d.json"),
        ("", "../d.json#/a", "../d.json"),
        ("folder/a.json", "../c.json", "c.json"),
        ("http://h", "a", "http://h/a"),
        ("app://x/y/z", "w", "app://x/y/w"),
        ("urn:a:b", "c.json", "c.json"),
        ("urn:a:b", "#here", "urn:a:b"),
        ("", "HTTP://Ann@Example.COM:80/A", "http://Ann@example.com:80/A"),
        ("", "http://[", "http://["),
    ],
)
def test_resolved(base: str, reference: str, uri: str) -> None:
    assert resolve(base, reference) == uri


@pytest.mark.parametrize("reference", ["d.json", "./d.json", "x/../d.json", "./x/./../d.json#"])
@pytest.mark.parametrize("name", ["d.json", "./d.json", "y/../d.json"])
def test_relative_names_of_a_registry(reference: str, name: str) -> None:
    assert json_schema({"$ref": reference}, registry={name: {"type": "null"}}).minimal_text() == "null"


def test_case_of_scheme_and_host_does_not_count() -> None:
    registry = {"HTTPS://example.com/a": {"type": "null"}}
    for reference in ("https://EXAMPLE.com/a", "https://example.com/x/../a"):
        assert json_schema({"$ref": reference}, registry=registry).minimal_text() == "null"
    with pytest.raises(ReferenceNotFound):
        json_schema({"$ref": "https://example.com/A"}, registry=registry)


def test_one_document_under_two_names() -> None:
    document = {"$id": "urn:d", "type": "object", "properties": {"a": {"$ref": "urn:d"}}}
    registry = {"d.json": document, "urn:d": document}
    found = json_schema({"anyOf": [{"$ref": "d.json"}, {"$ref": "urn:d"}]}, registry=registry)
    assert len(found.lower()[1]["nodes"]) == 5


def test_a_missing_document_is_reported_with_the_available_ones() -> None:
    text = error_text({"$id": "urn:b", "$ref": "urn:c"}, registry={"urn:a": {}})
    assert "did you mean 'urn:a'?" in text
    assert "urn:b'" not in text
    assert "registry=" in text.splitlines()[-1]
    schema = {"$id": "https://x.org/r", "properties": {"a": {"$ref": "urn:a"}, "b": {"$ref": "urn:b"}}}
    assert error_text(schema, registry={"urn:a": {}}).count("'urn:a'") == 1


@pytest.mark.parametrize("reference", ["$defs/a", "#$defs/a", "/$defs/a", "a", "#a"])
def test_a_pointer_without_its_beginning(reference: str) -> None:
    text = error_text({"$ref": reference, "$defs": {"a": {}}})
    assert text.endswith("did you mean '#/$defs/a'?")


def test_a_pointer_into_another_document_without_its_beginning() -> None:
    text = error_text({"$ref": "d.json#definitions/a"}, registry={"d.json": {"definitions": {"a": {}}}})
    assert text.endswith("did you mean 'd.json#/definitions/a'?")


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        *(
            ("strnig", "string"),
            ("String", "string"),
            ("str", "string"),
            ("int", "integer"),
            ("Int", "integer"),
        ),
        *(("float", "number"), ("list", "array"), ("dict", "object"), ("bool", "boolean"), ("None", "null")),
        (None, "null"),
    ],
)
def test_a_type_of_another_language(written: Any, meant: str) -> None:
    for schema in ({"type": written}, {"type": ["null", written]}):
        if schema["type"] is not None:
            (problem,) = check(schema).problems
            assert problem.note.endswith(f"did you mean {meant!r}?")
