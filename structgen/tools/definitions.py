"""What a model may call: a name, a description, the schema of the arguments, perhaps a Python function.

Why: tools come as the definitions of OpenAI's interface or as Python functions; both are one thing here.
Invariant: arguments are an object. Arguments that are not declared are not written, unless the schema speaks of them
(``additionalProperties`` and its relatives, values in ``enum`` or ``const``, undeclared names in ``required``): a
function cannot take what it does not declare.
Cost: reading a function's annotations is pydantic's.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from structgen.brief import short_repr
from structgen.constraints.json_schema.drafts import draft_of
from structgen.constraints.json_schema.nodes import TYPES
from structgen.errors import ConstraintError, OutputInvalid, with_kind
from structgen.types import BoundCall, OutputType, output_type
from structgen.types.blame import arguments_adapter
from structgen.types.functions import documentation_of, is_function
from structgen.types.schemas import describing_schema, generating_schema
from structgen.vocabulary import Vocabulary

from .callability import check_can_be_called
from .custom import CustomFormat, read_custom_format

__all__ = ["Tool", "ToolCall", "names_of", "read_tool", "read_tools"]

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_OPENING = frozenset(
    {
        "additionalProperties", "patternProperties", "unevaluatedProperties", "propertyNames", "allOf", "anyOf",
        "oneOf", "not", "if", "$ref", "$dynamicRef", "dependentSchemas", "dependentRequired", "dependencies",
        "const", "enum",
    }
)  # fmt: skip
"""Keywords that allow or require other keys than those of `properties`."""
_REFERENCES_JOIN = 2019
_CONST = 6
_KEPT_WITH_REFERENCE = frozenset({"$schema", "$id", "id", "$defs", "definitions", "title", "description"})
_KEYS = frozenset({"name", "description", "type", "strict", "function"})
"""Keys of a definition without parameters."""

_CUSTOM_KEYS = frozenset({"type", "name", "description", "format"})
_CUSTOM_FORM = (
    'A definition is {"type": "custom", "custom": {"name": ..., "description": ..., "format": {...}}}.'
)
_FORM = 'A definition is {"type": "function", "function": {"name": ..., "description": ..., "parameters": {...}}}.'


@short_repr
@dataclass(frozen=True)
class ToolCall:
    """A call as the model wrote it."""

    name: str
    arguments: dict[str, Any] = field(default_factory=dict)


@short_repr
@dataclass(frozen=True, eq=False)
class Tool:
    """A tool that a model may call; `read_tool` returns it."""

    name: str
    description: str
    parameters: dict[str, Any]
    """The schema of the arguments, which are an object."""
    function: Callable[..., Any] | None = None
    described: dict[str, Any] = field(default_factory=dict)
    """The schema that the model is shown."""
    input: CustomFormat | None = None
    """Of a custom tool: what its input may be."""

    def definition(self) -> dict[str, Any]:
        """Return the definition in the form of OpenAI's API; that of a custom tool as of a function of its input."""
        fields = {"name": self.name, "description": self.description, "parameters": self.described}
        return {"type": "function", "function": {key: value for key, value in fields.items() if value}}

    def validate(self, arguments: Mapping[str, Any]) -> Callable[[], Any] | dict[str, Any]:
        """Validate arguments.

        Returns:
            A function without parameters that makes the call; for a definition without a function, the arguments.

        Raises:
            OutputInvalid: The tool does not accept the arguments.
        """
        if self.function is not None:
            call: BoundCall = self._output.validate(json.dumps(arguments, ensure_ascii=False))
            return call
        import jsonschema  # type: ignore[import-untyped]

        kind = jsonschema.validators.validator_for(self.parameters, jsonschema.Draft202012Validator)
        error = jsonschema.exceptions.best_match(kind(self.parameters).iter_errors(dict(arguments)))
        if error is not None:
            raise OutputInvalid(
                f"the arguments of {self.name} are not what it takes: {error.message}",
                text=json.dumps(arguments, ensure_ascii=False),
            )
        return dict(arguments)

    @functools.cached_property
    def _output(self) -> OutputType:
        return output_type(self.function)


def read_tools(given: Any) -> tuple[Tool, ...]:
    """Return the tools of a list of definitions and functions. Raises `ConstraintError`."""
    if isinstance(given, (str, bytes, Mapping)) or not isinstance(given, Iterable):
        raise ConstraintError(
            f"tools must be a list, not {with_kind(given)}",
            hint=f"Write [{given.__name__}]." if callable(given) and hasattr(given, "__name__") else _FORM,
        )
    byte_tokens = Vocabulary.of_bytes()
    tools = tuple(
        read_tool(definition, f"tool {index}", byte_tokens) for index, definition in enumerate(given)
    )
    if not tools:
        raise ConstraintError(
            "there are no tools in this list", hint="Without tools, use a plain constraint."
        )
    names: set[str] = set()
    for tool in tools:
        if tool.name in names:
            raise ConstraintError(
                f"two tools have the name {tool.name!r}", hint="Each tool needs a name of its own."
            )
        names.add(tool.name)
    return tools


def read_tool(given: Any, where: str = "tool", byte_tokens: Vocabulary | None = None) -> Tool:
    """Return a tool.

    Args:
        given: A tool definition of OpenAI's API, its inner object, or a Python function.
        where: What errors call it.
        byte_tokens: `Vocabulary.of_bytes()`, shared by all tools of a list.

    Raises:
        ConstraintError: The definition is invalid, or no arguments satisfy its schema.
    """
    if isinstance(given, Tool):
        return given
    if not isinstance(given, (dict, Mapping)):
        if is_function(given):
            return _of_function(given)
        hint = _FORM
        if isinstance(given, type):
            hint = "A class is not a tool. Pass a function whose parameters have the types."
        elif callable(given):
            hint = "Pass a function or a bound method, such as [thing.method]; its name is the tool's."
        raise ConstraintError(f"{with_kind(given)} is not a tool", where=where, hint=hint)
    if given.get("type") == "custom":
        return _of_custom(given, where)
    if given.get("type", "function") != "function":
        raise ConstraintError(
            f"it has the type {given['type']!r:.60}",
            where=where,
            hint="Only functions and custom tools can be called.",
        )
    inner = given.get("function", given)
    if not isinstance(inner, Mapping) or not isinstance(inner.get("name"), str):
        raise ConstraintError("it has no name", where=where, hint=_FORM)
    described = inner.get("description")
    if not isinstance(described, str | None):
        raise ConstraintError(
            f"its description is {with_kind(described)}, not a text", where=where, hint=_FORM
        )
    if "parameters" not in inner and (strange := [str(key) for key in inner if key not in _KEYS]):
        raise ConstraintError(
            f"it has no parameters, but {', '.join(map(repr, strange[:4]))}",
            where=where,
            hint="A function without parameters has only a name and a description. " + _FORM,
        )
    described = inner.get("parameters")
    if described is False:
        raise ConstraintError(
            "the tool can never be called: the schema false allows no arguments",
            where=f"the parameters of {inner['name']}",
            hint='Write {"type": "object", "properties": {}} for a tool without parameters.',
        )
    described = described or {"type": "object", "properties": {}}
    if not isinstance(described, Mapping):
        raise ConstraintError(
            f"its parameters are {with_kind(described)}, not a schema", where=where, hint=_FORM
        )
    name = _checked_name(inner["name"], where)
    parameters = _closed(described, name)
    check_can_be_called(parameters, name, byte_tokens or Vocabulary.of_bytes())
    return Tool(name, inner.get("description") or "", parameters, None, dict(described))


def _of_function(function: Callable[..., Any]) -> Tool:
    _, adapter = arguments_adapter(function)
    parameters, described = generating_schema(adapter), describing_schema(adapter)
    described = {key: value for key, value in described.items() if key not in ("title", "description")}
    name = _checked_name(str(parameters.get("title") or getattr(function, "__name__", "function")), "tool")
    return Tool(name, documentation_of(function) or "", parameters, function, described)


def _of_custom(given: Mapping[str, Any], where: str) -> Tool:
    inner = given.get("custom", given)
    if not isinstance(inner, Mapping) or not isinstance(inner.get("name"), str):
        raise ConstraintError("it has no name", where=where, hint=_CUSTOM_FORM)
    for key in inner:
        if key not in _CUSTOM_KEYS:
            raise ConstraintError(f"it has the key {key!r:.60}", where=where, hint=_CUSTOM_FORM)
    description = inner.get("description")
    if not isinstance(description, str | None):
        raise ConstraintError(
            f"its description is {with_kind(description)}, not a text", where=where, hint=_CUSTOM_FORM
        )
    name = _checked_name(inner["name"], where)
    format = read_custom_format(inner, f"the format of {name}")
    shown = format.schema()
    return Tool(name, description or "", {**shown, "additionalProperties": False}, None, shown, format)


def _closed(parameters: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the schema of the arguments: objects only, without undeclared keys unless it mentions others."""
    schema = _of_objects(parameters, name)
    draft = draft_of(str(schema.get("$schema", "")))
    opening = _OPENING - {"const"} if draft is not None and draft.number < _CONST else _OPENING
    if not opening & schema.keys() and not _needs_more_keys(schema):
        schema["additionalProperties"] = False
    return schema


def _needs_more_keys(schema: Mapping[str, Any]) -> bool:
    """Return whether no object of the declared keys alone satisfies `required` or `minProperties`."""
    declared, required, fewest = (schema.get(key) for key in ("properties", "required", "minProperties"))
    declared = declared if isinstance(declared, Mapping) else {}
    if isinstance(required, (list, tuple)) and any(
        isinstance(key, str) and key not in declared for key in required
    ):
        return True
    return isinstance(fewest, (int, float)) and fewest > len(declared)


def _of_objects(parameters: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the schema restricted to objects. Raises `ConstraintError` if it allows none."""
    schema = dict(parameters)
    kinds = schema.get("type", "object")
    if "object" not in (kinds if isinstance(kinds, (list, tuple)) else [kinds]):
        if not _are_types(kinds):
            return schema  # a mistake, which the schema's reader names
        raise ConstraintError(
            f"they are of the type {kinds!r:.60}, but arguments are an object",
            where=f"the parameters of {name}, #/type",
            hint='Write {"type": "object", "properties": {...}}.',
        )
    draft = draft_of(str(schema.get("$schema", "")))
    refers_alone = "$ref" in schema and draft is not None and draft.number < _REFERENCES_JOIN
    if not refers_alone:
        _check_values(schema, name)
    if refers_alone:
        # subtle: before 2019-09, keywords next to a reference are ignored, including "type"
        kept = {key: value for key, value in schema.items() if key in _KEPT_WITH_REFERENCE}
        schema = {**kept, "allOf": [{"$ref": schema["$ref"]}]}
    return {**schema, "type": "object"}


def _check_values(schema: Mapping[str, Any], name: str) -> None:
    """Refuse a `const` or an `enum` without an object: no call is possible, and "auto" would hide that."""
    for keyword, values in (("const", [schema.get("const")]), ("enum", schema.get("enum"))):
        if keyword not in schema or not isinstance(values, (list, tuple)):
            continue
        if not any(isinstance(value, Mapping) for value in values):
            raise ConstraintError(
                f"the tool can never be called: {keyword} allows no object, but arguments are an object",
                where=f"the parameters of {name}, #/{keyword}",
                hint='Write {"type": "object", "properties": {...}}.',
            )


def _are_types(kinds: object) -> bool:
    listed = kinds if isinstance(kinds, list) else [kinds]
    return all(isinstance(name, str) and (name in TYPES or name == "integer") for name in listed)


def _checked_name(name: str, where: str) -> str:
    if not _NAME.fullmatch(name):
        raise ConstraintError(
            f"{name!r:.80} is not a valid name of a tool",
            where=where,
            hint="A name has letters, digits, _, - and dots, at most 128 of them.",
        )
    return name


def names_of(tools: Sequence[Tool]) -> str:
    """Return the names of tools, for messages."""
    return ", ".join(tool.name for tool in tools)
