"""Random tools with random arguments that satisfy their schemas, in the order in which these declare them."""

from __future__ import annotations

import keyword
from typing import Any

from hypothesis import strategies as st

from structgen.tools import FORMATS, AssistantTurn, ToolCall, ToolFormat

__all__ = ["MARKERS", "in_declared_order", "tool_calls", "turns"]

MARKERS = sorted(
    {
        text
        for format in FORMATS.values()
        for text in (
            *format.specials,
            format.marker,
            format.end,
            format.between or "",
            *format.think,
            *format.reply,
        )
        if text
    }
    | {
        "</parameter>",
        "</arg_value>",
        "null",
        "true",
        '"}',
        "')]",
        "it's",
        "\\",
        "None",
        "=1, a",
        "\n",
        "{{",
        "$name",
        "$arguments",
        "$value",
    }
)
_NAMES = st.from_regex(r"[a-z][a-z_]{0,4}", fullmatch=True).filter(lambda name: not keyword.iskeyword(name))
_ODD_KEYS = st.sampled_from(["é ü", 'say "a"', "a.b", "#/$ref", "</parameter>", "", "🙂", "a:b,c"])
"""Keys that only some notations can write: in JSON, any text is a key."""
_TEXTS = st.lists(
    st.one_of(st.sampled_from(MARKERS), st.text(st.characters(codec="utf-8"), max_size=5)), max_size=4
).map("".join)
Pair = tuple[dict[str, Any], Any]
"""A schema and one of its values."""


def _leaves() -> st.SearchStrategy[Pair]:
    return st.one_of(
        _TEXTS.map(lambda text: ({"type": "string"}, text)),
        st.integers(-(10**6), 10**6).map(lambda number: ({"type": "integer"}, number)),
        st.integers(-999, 999).map(lambda number: ({"type": "number"}, number / 4)),
        st.floats(allow_nan=False, allow_infinity=False).map(lambda number: ({"type": "number"}, number)),
        st.integers(2**53, 2**70).map(lambda number: ({"type": "integer"}, number)),
        st.booleans().map(lambda value: ({"type": "boolean"}, value)),
        st.one_of(st.none(), _TEXTS).map(lambda value: ({"type": ["string", "null"]}, value)),
        st.one_of(st.integers(0, 99), _TEXTS).map(lambda value: ({"type": ["string", "integer"]}, value)),
        st.lists(st.one_of(st.none(), st.booleans(), st.integers(0, 9), _TEXTS), min_size=1, max_size=3).map(
            lambda values: ({"enum": values}, values[-1])
        ),
    )


def _array(items: list[Pair]) -> Pair:
    schemas = [schema for schema, _ in items]
    return {"type": "array", "items": {"anyOf": schemas} if schemas else {"type": "string"}}, [
        value for _, value in items
    ]


def _map(members: dict[str, Pair]) -> Pair:
    """Return an object whose keys are not declared."""
    schemas = [schema for schema, _ in members.values()]
    return {
        "type": "object",
        "additionalProperties": {"anyOf": schemas} if schemas else {"type": "string"},
    }, {name: value for name, (_, value) in members.items()}


def _object(members: dict[str, tuple[Pair, bool, bool]]) -> Pair:
    """Return an object; of its optional keys some are missing."""
    required = [name for name, (_, is_required, _) in members.items() if is_required]
    value = {name: pair[1] for name, (pair, need, here) in members.items() if need or here}
    properties = {name: pair[0] for name, (pair, _, _) in members.items()}
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }, value


def _objects(
    values: st.SearchStrategy[Pair], keys: st.SearchStrategy[str] = _NAMES
) -> st.SearchStrategy[Pair]:
    member = st.tuples(values, st.booleans(), st.booleans())
    return st.dictionaries(keys, member, max_size=3).map(_object)


def _values(keys: st.SearchStrategy[str]) -> st.SearchStrategy[Pair]:
    return st.recursive(
        _leaves(),
        lambda inner: st.one_of(
            st.lists(inner, max_size=2).map(_array),
            _objects(inner, keys),
            st.dictionaries(keys, inner, max_size=2).map(_map),
        ),
        max_leaves=4,
    )


_VALUES = {False: _values(_NAMES), True: _values(st.one_of(_NAMES, _NAMES, _NAMES, _ODD_KEYS))}
"""The values, without and with odd keys."""


def _branches(schema: dict[str, Any]) -> list[dict[str, Any]]:
    return (
        [branch for part in schema["anyOf"] for branch in _branches(part)] if "anyOf" in schema else [schema]
    )


def in_declared_order(value: Any, schemas: list[dict[str, Any]]) -> Any:
    """Return a value with its keys in the order that a choice of schemas gives them: its first schema counts first."""
    branches = [branch for schema in schemas for branch in _branches(schema)]
    if isinstance(value, list):
        items = [branch["items"] for branch in branches if "items" in branch]
        return [in_declared_order(item, items) for item in value]
    if not isinstance(value, dict):
        return value
    objects = [branch for branch in branches if branch.get("type") == "object"]
    declared = dict.fromkeys(key for branch in objects for key in branch.get("properties", {}))
    keys = [key for key in declared if key in value] + [key for key in value if key not in declared]
    members = {key: [_schema_of(key, branch) for branch in objects] for key in keys}
    return {key: in_declared_order(value[key], [s for s in members[key] if s]) for key in keys}


def _schema_of(key: str, branch: dict[str, Any]) -> dict[str, Any] | None:
    """Return the schema of a key's value, or None if the object has no such key."""
    found = branch.get("properties", {}).get(key, branch["additionalProperties"])
    return found or None


@st.composite
def tool_calls(
    draw: st.DrawFn, most: int, has_odd_keys: bool = True
) -> tuple[list[dict[str, Any]], list[ToolCall]]:
    """Return definitions, and calls that satisfy them, in any order; a tool may be called again."""
    definitions, calls = [], []
    for name in draw(st.lists(_NAMES, min_size=1, max_size=most, unique=True)):
        schema, value = draw(_objects(_VALUES[has_odd_keys]))
        definitions.append({"name": name, "parameters": schema})
        calls.append(ToolCall(name, in_declared_order(value, [schema])))
    if most > 1:
        calls = draw(st.lists(st.sampled_from(calls), min_size=1, max_size=most))
    return definitions, calls


def _free_texts(format: ToolFormat) -> st.SearchStrategy[str]:
    """Return texts without markers, but with beginnings of them."""
    marks = [
        mark
        for mark in (*format.specials, format.marker, *format.think, *format.reply, format.opening)
        if len(mark) > 1
    ]
    beginnings = st.sampled_from(marks).map(lambda mark: mark[:-1])
    return st.lists(st.one_of(st.text("aé {}[]<|\n", max_size=6), beginnings), max_size=2).map("".join)


@st.composite
def turns(draw: st.DrawFn, format: ToolFormat) -> tuple[list[dict[str, Any]], AssistantTurn]:
    """Return definitions and a turn of this format: reasoning or none, text or none, calls or none."""
    definitions, calls = draw(tool_calls(1 if format.between is None else 3, format.arguments != "bare"))
    free = _free_texts(format)
    reasoning = draw(st.one_of(st.none(), free))
    has_calls = draw(st.booleans())
    has_text = not has_calls or not (format.at_start or (format.is_framed and not format.say[0]))
    text = draw(free) if has_text else ""
    return definitions, AssistantTurn(text, tuple(calls) if has_calls else (), reasoning)
