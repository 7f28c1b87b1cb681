"""The IR of single keywords and of references, draft by draft."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from structgen.constraints.json_schema import check, json_schema
from structgen.errors import ReferenceNotFound, SchemaInvalid, UnsupportedKeyword

DRAFT4 = "http://json-schema.org/draft-04/schema#"
DRAFT6 = "http://json-schema.org/draft-06/schema#"
DRAFT7 = "http://json-schema.org/draft-07/schema#"
DRAFT2019 = "https://json-schema.org/draft/2019-09/schema"


def nodes(schema: Any, **options: Any) -> tuple[Any, ...]:
    kind, ir = json_schema(schema, **options).lower()
    assert kind == "json"
    assert ir["root"] == 0
    return tuple(ir["nodes"])


def root(schema: Any, **options: Any) -> Any:
    node = nodes(schema, **options)[0]
    if isinstance(node, dict):
        assert node.pop("pointer") == "#"
    return node


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (True, True),
        (False, False),
        ({}, True),
        ({"title": "only notes", "x-mine": 1}, True),
        ({"type": "null"}, {"types": 1}),
        ({"type": "integer"}, {"types": 16, "integer": True}),
        ({"type": ["integer", "string"]}, {"types": 48, "integer": True}),
        ({"type": ["integer", "number"]}, {"types": 16}),
        (
            {"enum": ["a", 1, 2.5, None, True, False]},
            {"strings": ("a",), "numbers": ("1", "2.5"), "literals": ("null", "true", "false")},
        ),
        ({"enum": []}, {"strings": ()}),
        ({"const": "a"}, {"strings": ("a",)}),
        ({"minimum": 1, "maximum": 2.50}, {"minimum": "1", "maximum": "2.5"}),
        ({"exclusiveMinimum": 1, "exclusiveMaximum": 2}, {"exclusiveMinimum": "1", "exclusiveMaximum": "2"}),
        ({"multipleOf": 0.01}, {"multipleOf": "0.01"}),
        ({"minLength": 0, "maxLength": 2.0}, {"maxLength": 2}),
        ({"minItems": 1, "maxItems": 10**30}, {"minItems": 1}),
        ({"minProperties": 1, "maxProperties": 0}, {"minProperties": 1, "maxProperties": 0}),
        ({"required": ["a", "b", "a"]}, {"required": ("a", "b")}),
        ({"required": []}, True),
        ({"items": True, "additionalProperties": True}, True),
        ({"uniqueItems": False, "unevaluatedProperties": True, "then": False}, True),
    ],
)
def test_one_node(schema: Any, expected: Any) -> None:
    assert root(schema) == expected


def test_numbers_stay_exact() -> None:
    text = '{"minimum": 0.10000000000000000555111512, "maximum": 1e400, "multipleOf": 98765432109876543210}'
    node = root(text)
    assert node["minimum"] == "0.10000000000000000555111512"
    assert node["maximum"] == "1E+400"
    assert node["multipleOf"] == "98765432109876543210"


def test_sub_schemas_are_nodes_with_pointers() -> None:
    found = nodes({"properties": {"a/b~c": {"type": "null"}, "d": True}, "additionalProperties": False})
    assert found[0]["properties"] == (("a/b~c", 1), ("d", 2))
    assert found[1] == {"pointer": "#/properties/a~1b~0c", "types": 1}
    assert found[2] is True
    assert found[found[0]["additionalProperties"]] is False


def test_containers_in_enum_become_exact_schemas() -> None:
    found = nodes({"const": {"a": [1, "x"]}})
    (place,) = found[0]["values"]
    outer = found[place]
    assert outer["types"] == 4
    assert outer["required"] == ("a",)
    assert found[outer["additionalProperties"]] is False
    inner = found[outer["properties"][0][1]]
    assert inner["types"] == 8
    assert inner["minItems"] == 2
    assert found[inner["items"]] is False
    assert [found[i].get("numbers", found[i].get("strings")) for i in inner["prefixItems"]] == [
        ("1",),
        ("x",),
    ]


def test_const_beside_enum_is_an_intersection() -> None:
    found = nodes({"enum": [1, 2], "const": 2, "allOf": [{"type": "number"}]})
    assert found[0]["numbers"] == ("1", "2")
    assert sorted(found[i].get("numbers", ()) for i in found[0]["allOf"]) == [(), ("2",)]


class TestDrafts:
    def test_exclusive_bounds_are_booleans_in_draft_4(self) -> None:
        schema = {
            "$schema": DRAFT4,
            "minimum": 1,
            "exclusiveMinimum": True,
            "maximum": 2,
            "exclusiveMaximum": False,
        }
        assert root(schema) == {"exclusiveMinimum": "1", "maximum": "2"}
        with pytest.raises(SchemaInvalid, match="draft 4"):
            json_schema({"exclusiveMinimum": True, "minimum": 1})
        with pytest.raises(SchemaInvalid, match="boolean in draft 4"):
            json_schema({"$schema": DRAFT4, "exclusiveMinimum": 1})

    @pytest.mark.parametrize("draft", [DRAFT4, DRAFT6, DRAFT7, DRAFT2019])
    def test_items_as_an_array(self, draft: str) -> None:
        found = nodes({"$schema": draft, "items": [{"type": "null"}], "additionalItems": {"type": "string"}})
        assert [found[i]["types"] for i in found[0]["prefixItems"]] == [1]
        assert found[found[0]["items"]]["types"] == 32

    def test_items_as_an_array_is_an_error_since_2020(self) -> None:
        with pytest.raises(SchemaInvalid, match="prefixItems"):
            json_schema({"items": [{}]})

    def test_siblings_of_ref(self) -> None:
        schema = {"definitions": {"a": {"type": "string"}}, "$ref": "#/definitions/a", "maxLength": 3}
        assert "maxLength" not in nodes({"$schema": DRAFT7, **schema})[0]
        assert nodes({"$schema": DRAFT2019, **schema})[0]["maxLength"] == 3

    def test_const_is_no_keyword_of_draft_4(self) -> None:
        assert root({"$schema": DRAFT4, "const": 1}) is True

    def test_formats_are_asserted_in_every_draft(self) -> None:
        assert "format" in root({"$schema": DRAFT7, "format": "uuid"})
        assert root({"format": "uuid"}) == root({"$schema": DRAFT4, "format": "uuid"})
        assert root({"format": "colour"}) is True
        assert root({"format": "uuid"}, formats="annotate") is True

    def test_older_drafts_are_refused(self) -> None:
        with pytest.raises(SchemaInvalid, match="older than draft 4"):
            json_schema({"$schema": "http://json-schema.org/draft-03/schema#"})


class TestReferences:
    def test_recursion_is_one_node(self) -> None:
        found = nodes({"properties": {"next": {"$ref": "#"}}})
        assert len(found) == 2
        assert found[1] == {"pointer": "#/properties/next", "ref": (0,)}

    def test_a_target_is_read_once(self) -> None:
        schema = {
            "$defs": {"a": {"type": "string"}},
            "properties": {"p": {"$ref": "#/$defs/a"}, "q": {"$ref": "#/$defs/a"}},
        }
        found = nodes(schema)
        assert len(found) == 4
        assert found[1]["ref"] == found[2]["ref"]

    @pytest.mark.parametrize(
        ("key", "reference"),
        [
            ("a/b", "#/$defs/a~1b"),
            ("m~n", "#/$defs/m~0n"),
            ("p%q", "#/$defs/p%25q"),
            ("é", "#/$defs/%C3%A9"),
            ("~1", "#/$defs/~01"),
        ],
    )
    def test_escapes(self, key: str, reference: str) -> None:
        found = nodes({"$defs": {key: {"type": "null"}}, "$ref": reference})
        assert found[found[0]["ref"][0]]["types"] == 1

    def test_identifiers_and_anchors(self) -> None:
        schema = {
            "$id": "https://example.com/root",
            "$defs": {
                "item": {
                    "$id": "item",
                    "$anchor": "here",
                    "type": "string",
                    "$defs": {"x": {"type": "null"}},
                },
            },
            "prefixItems": [
                {"$ref": "item"},
                {"$ref": "https://example.com/item#here"},
                {"$ref": "item#/$defs/x"},
                {"$ref": "#/$defs/item/$defs/x"},
            ],
        }
        found = nodes(schema)
        types = [found[found[i]["ref"][0]]["types"] for i in found[0]["prefixItems"]]
        assert types == [32, 32, 1, 1]

    def test_documents_come_from_the_registry(self) -> None:
        with pytest.raises(ReferenceNotFound, match="registry"):
            json_schema({"$ref": "https://example.com/other"})
        found = nodes(
            {"$ref": "https://example.com/other"}, registry={"https://example.com/other": {"type": "null"}}
        )
        assert found[1]["types"] == 1

    def test_a_registry_of_referencing(self) -> None:
        from referencing import Registry
        from referencing.jsonschema import DRAFT202012

        registry = Registry().with_resource("urn:x", DRAFT202012.create_resource({"type": "null"}))
        assert nodes({"$ref": "urn:x"}, registry=registry)[1]["types"] == 1

    def test_meta_schemas_are_known(self) -> None:
        found = nodes({"$ref": DRAFT7 + "/definitions/nonNegativeInteger"})
        assert found[1]["minimum"] == "0"

    def test_a_dynamic_reference_depends_on_the_way_to_it(self) -> None:
        schema: dict[str, Any] = {
            "$id": "https://example.com/strict",
            "$ref": "list",
            "$defs": {
                "number": {"$dynamicAnchor": "item", "type": "number"},
                "list": {
                    "$id": "list",
                    "items": {"$dynamicRef": "#item"},
                    "$defs": {"any": {"$dynamicAnchor": "item", "type": "string"}},
                },
            },
            "properties": {"plain": {"$ref": "https://example.com/other"}},
        }
        other = {"$ref": "https://example.com/list"}
        found = nodes(schema, registry={"https://example.com/other": other})
        items = found[found[found[0]["ref"][0]]["items"]]
        assert found[items["ref"][0]]["types"] == 16
        alone = nodes(
            {"$ref": "https://example.com/list"},
            registry={"https://example.com/list": schema["$defs"]["list"]},
        )
        items = alone[alone[alone[0]["ref"][0]]["items"]]
        assert alone[items["ref"][0]]["types"] == 32

    def test_missing_documents_name_near_matches(self) -> None:
        registry = {"https://example.com/person": {}}
        with pytest.raises(ReferenceNotFound, match="did you mean 'https://example.com/person'") as caught:
            json_schema({"items": {"$ref": "https://example.com/persn"}}, registry=registry)
        assert caught.value.pointer == "#/items/$ref"

    def test_missing_anchors_name_near_matches(self) -> None:
        with pytest.raises(ReferenceNotFound, match="did you mean 'address'"):
            json_schema({"$ref": "#adress", "$defs": {"a": {"$anchor": "address"}}})

    def test_missing_places_name_near_matches(self) -> None:
        with pytest.raises(ReferenceNotFound) as caught:
            json_schema({"$defs": {"address": {}}, "properties": {"a": {"$ref": "#/$defs/adress"}}})
        assert caught.value.pointer == "#/properties/a/$ref"
        assert "did you mean 'address'?" in str(caught.value)

    @pytest.mark.parametrize(
        "schema",
        [
            {"$ref": "#"},
            {"allOf": [{"$ref": "#"}]},
            {"if": {"$ref": "#"}},
            {
                "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"anyOf": [{"not": {"$ref": "#/$defs/a"}}]}},
                "$ref": "#/$defs/a",
            },
        ],
    )
    def test_cycles_that_look_at_nothing(self, schema: Any) -> None:
        with pytest.raises(SchemaInvalid, match="form a cycle"):
            json_schema(schema)

    def test_a_cycle_of_python_objects(self) -> None:
        schema: dict[str, Any] = {"allOf": []}
        schema["allOf"].append(schema)
        with pytest.raises(SchemaInvalid, match="form a cycle"):
            json_schema(schema)
        tree: dict[str, Any] = {"properties": {}}
        tree["properties"]["child"] = tree
        assert nodes(tree)[0]["properties"] == (("child", 0),)

    def test_the_cycle_is_named(self) -> None:
        with pytest.raises(SchemaInvalid, match="#/\\$defs/a -> #/\\$defs/b -> #/\\$defs/a"):
            json_schema(
                {
                    "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}},
                    "items": {"$ref": "#/$defs/a"},
                }
            )


@pytest.mark.parametrize(("keyword", "reference"), [("$id", "http://example.com/a"), ("$anchor", "#a")])
def test_an_identifier_that_is_used_names_one_schema(keyword: str, reference: str) -> None:
    name = reference.removeprefix("#")

    def two(first: str, second: str, **beside: str) -> Any:
        return {
            "$defs": {"a": {keyword: name, "type": first}, "b": {keyword: name, "type": second}},
            **beside,
        }

    with pytest.raises(SchemaInvalid, match="#/\\$defs/[ab] and #/\\$defs/[ab]") as raised:
        nodes(two("string", "integer", **{"$ref": reference}))
    assert raised.value.where == "#/$ref"
    assert nodes(two("string", "string", **{"$ref": reference}))
    assert nodes(two("string", "integer")) == (True,), "the choice of a branch has no effect"


def test_a_dialect_is_named_by_a_uri() -> None:
    with pytest.raises(SchemaInvalid, match="not 7") as raised:
        json_schema({"$schema": 7})
    assert raised.value.where == "#/$schema"


@pytest.mark.parametrize(
    ("schema", "pointer"),
    [
        (3, "#"),
        (None, "#"),
        ({"type": "text"}, "#/type"),
        ({"type": []}, "#/type"),
        ({"enum": "a"}, "#/enum"),
        ({"minimum": "1"}, "#/minimum"),
        ({"minimum": True}, "#/minimum"),
        ({"minimum": float("nan")}, "#/minimum"),
        ({"multipleOf": 0}, "#/multipleOf"),
        ({"minLength": -1}, "#/minLength"),
        ({"minLength": 1.5}, "#/minLength"),
        ({"pattern": 1}, "#/pattern"),
        ({"format": 1}, "#/format"),
        ({"properties": []}, "#/properties"),
        ({"properties": {"a": 1}}, "#/properties/a"),
        ({"properties": {"a": {"items": "x"}}}, "#/properties/a/items"),
        ({"properties": {1: {}}}, "#/properties"),
        ({"required": True}, "#/required"),
        ({"required": ["a", 1]}, "#/required"),
        ({"allOf": []}, "#/allOf"),
        ({"oneOf": {}}, "#/oneOf"),
        ({"$ref": 1}, "#/$ref"),
        ({"enum": [{"a": {1, 2}}]}, "#/enum"),
        ({"enum": ["\ud800"]}, "#/enum"),
        ({"properties": {"\ud800": {}}}, "#/properties"),
    ],
)
def test_wrong_shapes_name_their_place(schema: Any, pointer: str) -> None:
    with pytest.raises(SchemaInvalid) as caught:
        json_schema(schema)
    assert caught.value.pointer == pointer


@pytest.mark.parametrize(
    ("schema", "keyword"),
    [
        (
            {
                "anyOf": [{"patternProperties": {str(i): {"type": "null"}}} for i in range(20)],
                "unevaluatedProperties": False,
            },
            "unevaluatedProperties",
        ),
    ],
)
def test_unsupported_keywords_are_refused(schema: Any, keyword: str) -> None:
    with pytest.raises(UnsupportedKeyword) as caught:
        json_schema({"items": schema})
    assert caught.value.keyword == keyword
    assert caught.value.pointer == f"#/items/{keyword}"


class Person(BaseModel):
    name: str


@pytest.mark.parametrize(
    ("given", "message", "hint"),
    [
        (Person, "Person is a Python type", "model_json_schema()"),
        (int, "int is a Python type", "constraint_for_type"),
        (list[int], "list", "constraint_for_type"),
        (Path("a/person.json"), "files are not opened", "read_text"),
        ("person.json", "files are not opened", "read_text"),
        ("schemas/person", "files are not opened", "read_text"),
        (({"type": "null"},), "not a Python tuple", ""),
        ({"required": ("a",)}, "write a list, not a Python tuple", ""),
        ({"required": {"a"}}, "write a list, not a Python set", ""),
        ({"dependentRequired": {"a": ("b",)}}, "write a list, not a Python tuple", ""),
        ({"enum": (1, 2)}, "write a list, not a Python tuple", ""),
        ({"type": ("null", "string")}, "write a list, not a Python tuple", ""),
        ({"anyOf": ({}, {})}, "write a list, not a Python tuple", ""),
    ],
)
def test_what_is_no_schema_but_near_one(given: Any, message: str, hint: str) -> None:
    with pytest.raises(SchemaInvalid) as caught:
        json_schema(given)
    assert message in caught.value.message
    assert hint in (caught.value.hint or "")
    assert not check(given).ok


@pytest.mark.parametrize("inner", [{"$id": "urn:x"}, {"id": "urn:x"}, {}])
def test_a_part_of_an_ancient_draft_is_refused(inner: dict[str, Any]) -> None:
    ancient = {"$schema": "http://json-schema.org/draft-03/schema#", **inner}
    with pytest.raises(SchemaInvalid, match="older than draft 4") as caught:
        json_schema({"properties": {"a": ancient}})
    assert caught.value.pointer == "#/properties/a/$schema"
    with pytest.raises(SchemaInvalid, match="older than draft 4") as caught:
        json_schema({"$ref": "urn:d"}, registry={"urn:d": ancient})
    assert caught.value.pointer == "urn:d#/$schema"
    assert check({"properties": {"a": ancient}}).status == "invalid"
