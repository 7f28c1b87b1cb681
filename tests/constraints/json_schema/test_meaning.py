"""The IR means what the schema means: random schemas and instances, judged by the exact oracle."""

from __future__ import annotations

from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from structgen.constraints.json_schema import check, json_schema
from structgen.errors import SchemaInvalid, UnsupportedKeyword
from tests.oracles.json_validator import SchemaError, Validator
from tests.oracles.schema_ir_twin import valid
from tests.strategies.json_instances import instances
from tests.strategies.json_schemas import ALL, CORE, schemas


@st.composite
def _pairs(draw: Any) -> tuple[Any, Any]:
    schema = draw(schemas(ALL))
    return schema, draw(instances(schema))


def _agree(schema: Any, instance: Any) -> None:
    """The IR holds for the instance iff the oracle says so, unless the schema is one that is refused."""
    try:
        ir = json_schema(schema).lower()[1]
        expected = Validator(schema, formats=True).accepts_value(instance)
    except SchemaInvalid as error:
        assert "form a cycle" in str(error)
    except UnsupportedKeyword as error:
        assert error.keyword in ("unevaluatedProperties", "unevaluatedItems")
    except SchemaError:
        assume(False)
    else:
        assert valid(ir, instance) == expected


@settings(max_examples=300, deadline=None)
@given(_pairs())
def test_the_ir_agrees_with_the_oracle(pair: tuple[Any, Any]) -> None:
    _agree(*pair)


OLDER = {
    4: "http://json-schema.org/draft-04/schema#",
    6: "http://json-schema.org/draft-06/schema#",
    7: "http://json-schema.org/draft-07/schema#",
    2019: "https://json-schema.org/draft/2019-09/schema",
}
_BOUNDS = {"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"}


def _as_in(draft: int, schema: Any) -> Any:
    """The schema as that draft spells it: arrays of `items`, Boolean `exclusiveMinimum`, `dependencies`."""
    if isinstance(schema, list):
        return [_as_in(draft, one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    written = {
        key: value if key in ("enum", "const", "required") else _as_in(draft, value)
        for key, value in schema.items()
    }
    if "prefixItems" in written:
        rest = written.pop("items", None)
        written["items"] = written.pop("prefixItems")
        if rest is not None:
            written["additionalItems"] = rest
    if draft <= 7:
        for name in ("dependentRequired", "dependentSchemas"):
            if name in written:
                written["dependencies"] = written.pop(name)
    if draft == 4:
        for keyword, bound in _BOUNDS.items():
            if keyword in written:
                written[bound] = written[keyword]
                written[keyword] = True
    return written


@st.composite
def _older_pairs(draw: Any) -> tuple[Any, Any]:
    schema = draw(schemas(ALL))
    draft = draw(st.sampled_from(sorted(OLDER)))
    # In draft 4 integers are a matter of spelling: see test_draft4.
    assume(isinstance(schema, dict) and not (draft == 4 and "'integer'" in str(schema)))
    return {"$schema": OLDER[draft], **_as_in(draft, schema)}, draw(instances(schema))


@settings(max_examples=150, deadline=None)
@given(_older_pairs())
def test_older_drafts_agree_with_the_oracle(pair: tuple[Any, Any]) -> None:
    _agree(*pair)


@settings(max_examples=100, deadline=None)
@given(schemas(CORE - {"$ref"}), schemas(CORE - {"$ref"}), st.data())
def test_and_is_intersection_and_or_is_union(first: Any, second: Any, data: st.DataObject) -> None:
    instance = data.draw(st.one_of(instances(first), instances(second)))
    left, right = json_schema(first), json_schema(second)
    in_left, in_right = valid(left.lower()[1], instance), valid(right.lower()[1], instance)
    assert valid((left & right).lower()[1], instance) == (in_left and in_right)
    assert valid((left | right).lower()[1], instance) == (in_left or in_right)


@settings(max_examples=100, deadline=None)
@given(schemas(ALL))
def test_a_report_is_ok_iff_the_schema_compiles(schema: Any) -> None:
    try:
        json_schema(schema)
        compiles = True
    except (SchemaInvalid, UnsupportedKeyword):
        compiles = False
    assert check(schema).ok == compiles
