"""What a call gives back: the constraint that an output type puts on the text, and the way from text to value.

What, in the order in which a type is looked at:
    a constraint                       its text as a str; for a JSON Schema the parsed value
    str                                free text, until the model ends it
    Literal, Enum, bool, None, unions  one of the labels, unquoted (`labels`)
    a function                         a call with validated arguments (`functions`)
    all that pydantic can describe     JSON; at the top level a string (str with limits, date, UUID, ...)
                                       is written without quotes
JSON is written as `json.dumps` writes it, one space after each comma and colon: the commonest form in what models
have read, and no room for endless white space. For other forms give `json_schema(..., whitespace=...)`.
Invariant: `validate` is pydantic's verdict, so a value that comes back is a valid one. Objects have the
declared fields in the declared order.
Limits: keys and lengths that only hold after conversion, bounds of datetimes, times and durations, Python
validators and `now` constraints are checked at the end and raise `OutputInvalid`; `docs/types.md` lists them.
Cost: building a type is pydantic's cost and one reading of the schema; types are kept.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Annotated, Any, ForwardRef, get_args, get_origin

from pydantic import TypeAdapter, ValidationError

from structgen.brief import short_repr
from structgen.constraints.base import Constraint
from structgen.constraints.choice import choice
from structgen.constraints.json_schema import JsonSchemaConstraint, json_schema
from structgen.errors import OutputInvalid, SchemaError, TypeNotSupported

from .blame import FAULTS, not_supported, show
from .describe import describe_schema, is_one_object
from .functions import arguments_model, bind, is_function
from .iterables import with_lists
from .labels import labels_of
from .raw_text import Text, text_constraint
from .schemas import describing_schema, generating_schema
from .views import GrowingView

__all__ = ["OutputType", "constraint_for_type", "output_type"]


@short_repr
@dataclass(frozen=True)
class OutputType:
    """An output type, ready to be generated."""

    name: str
    constraint: Constraint
    validate: Callable[[str], Any]
    """From a whole text to the value; raises `OutputInvalid`."""
    growing: Callable[[], Callable[[str], Any]]
    """A new reader for one growing text: given the text so far, what there is of the value (None before there
    is anything). It reads only what is new."""
    is_free_text: bool = False
    """Every text is a value, so text that was cut off is one, too."""
    description: str = field(default="", repr=False)
    """What the prompt may tell the model about the form of the answer."""
    schema: str | None = field(default=None, repr=False)
    """A JSON Schema of the value, as JSON, for engines that read schemas themselves; None where there is none."""

    @property
    def is_json(self) -> bool:
        """Is a text of it JSON?"""
        return isinstance(self.constraint, JsonSchemaConstraint)

    @property
    def has_fields(self) -> bool:
        """Is it one object with declared fields, or a list of such objects?"""
        return bool(self.description) and self.schema is not None and is_one_object(self.schema)

    def partial(self, text: str) -> Any:
        """What there is of the value after the beginning of a text."""
        return self.growing()(text)


def output_type(annotation: Any) -> OutputType:
    """The output type that an annotation (or a constraint, or a function) stands for."""
    if isinstance(annotation, OutputType):
        return annotation
    try:
        return _cached(annotation)
    except TypeError as error:
        if "unhashable" not in str(error):
            raise
        return _build(annotation)


def constraint_for_type(annotation: Any) -> Constraint:
    """The constraint that the texts of a type satisfy; it combines with others by ``&``, ``|`` and ``+``."""
    return output_type(annotation).constraint


def _build(annotation: Any) -> OutputType:
    if isinstance(annotation, Constraint):
        return _from_constraint(annotation)
    if annotation is str:
        return _text_type("str", Text(), str, is_free_text=True)
    if isinstance(annotation, (str, ForwardRef)):  # pydantic would evaluate it, whoever wrote it
        raise TypeNotSupported(
            f"{annotation!r:.60} is a text, not a type",
            hint="Give the type itself; for texts take structgen.choice() or structgen.regex(), for a schema in JSON "
            "structgen.json_schema().",
        )
    labels = labels_of(annotation)
    if labels is not None:
        return _from_labels(annotation, labels)
    if is_function(annotation):
        model = arguments_model(annotation)
        adapter: TypeAdapter[Any] = _adapter(model)
        return _json_type(
            model, adapter, lambda text: bind(annotation, adapter.validate_json(text)), dict[str, Any]
        )
    if (lists := with_lists(annotation)) is not annotation:
        return output_type(lists)
    if isinstance(annotation, (dict, list, tuple, set, bytes, int, float)):
        raise TypeNotSupported(
            f"{annotation!r:.60} is a value, not a type",
            hint="Wrap a schema in structgen.json_schema(), a list of texts in structgen.choice().",
        )
    return _from_pydantic(annotation)


_cached = lru_cache(maxsize=512)(_build)


def _from_constraint(constraint: Constraint) -> OutputType:
    if isinstance(constraint, JsonSchemaConstraint):
        return OutputType(
            name="JSON value",
            constraint=constraint,
            validate=_checked("JSON value", json.loads),
            growing=lambda: GrowingView(Any),
            schema=constraint.source,
        )
    return _text_type(constraint.describe(), constraint, str, constraint.instructions())


def _from_labels(annotation: Any, labels: dict[str, Any]) -> OutputType:
    listed = ", ".join(labels)
    return OutputType(
        name=show(annotation),
        constraint=choice(labels),
        validate=labels.__getitem__,
        growing=lambda: lambda text: None,
        description=f"Answer with one of: {listed}.",
    )


def _from_pydantic(annotation: Any) -> OutputType:
    adapter = _adapter(annotation)
    name = show(annotation)
    schema = _generating(annotation, adapter)
    constraint = text_constraint(schema, f"the type {name}")
    if constraint is not None:
        validate = adapter.validate_python if _is_text(annotation) else adapter.validate_strings
        said = _described_text(schema, adapter)
        return _text_type(name, constraint, _checked(name, validate), said, schema=json.dumps(schema))
    return _json_type(annotation, adapter, adapter.validate_json, annotation)


def _json_type(
    annotation: Any, adapter: TypeAdapter[Any], parse: Callable[[str], Any], shape: Any
) -> OutputType:
    """`parse` makes the value of a whole text, partial values have the type `shape`."""
    name = show(annotation)
    schema = _generating(annotation, adapter)
    try:
        constraint = json_schema(schema, ordered=True, whitespace="json.dumps", integers="digits")
    except SchemaError as error:
        raise TypeNotSupported(
            f"the JSON Schema of {name} cannot be followed: {error.message}",
            where=error.where,
            hint=error.hint,
        ) from error
    return OutputType(
        name=name,
        constraint=constraint,
        validate=_checked(name, parse),
        growing=lambda: GrowingView(shape),
        description=describe_schema(describing_schema(adapter)),
        schema=constraint.source,
    )


def _text_type(
    name: str,
    constraint: Constraint,
    validate: Callable[[str], Any],
    description: str = "",
    is_free_text: bool = False,
    schema: str | None = None,
) -> OutputType:
    return OutputType(
        name, constraint, validate, lambda: lambda text: text or None, is_free_text, description, schema
    )


def _adapter(annotation: Any) -> TypeAdapter[Any]:
    try:
        return TypeAdapter(annotation)
    except FAULTS as error:
        raise not_supported(annotation, error) from error


def _generating(annotation: Any, adapter: TypeAdapter[Any]) -> dict[str, Any]:
    try:
        return generating_schema(adapter)
    except FAULTS as error:
        raise not_supported(annotation, error) from error


def _checked(name: str, parse: Callable[[str], Any]) -> Callable[[str], Any]:
    """`parse` with its refusal as one of our errors, which holds the text and pydantic's own."""

    def validate(text: str) -> Any:
        try:
            return parse(text)
        except ValidationError as error:
            found = error.errors()
            for one in found:
                # subtle: a validator's own error knows the frames around it, and pydantic's error, which holds it,
                # is invisible to the garbage collector: matchers and results in those frames would stay for ever.
                own = one.get("ctx", {}).get("error")
                if isinstance(own, BaseException):
                    own.__traceback__ = None
            problems = [f"{'.'.join(map(str, one['loc'])) or 'value'}: {one['msg']}" for one in found]
            raise OutputInvalid(
                f"the output is well formed but not a valid {name}: {'; '.join(problems[:3])}",
                text=text,
                hint="A Python validator refused it, or a limit that JSON Schema cannot state.",
            ) from error
        except (ValueError, RecursionError) as error:
            raise OutputInvalid(
                f"the output cannot be read as a {name}: {error}",
                text=text,
                hint="It is nested too deeply or holds a number with too many digits; bound them in the schema.",
            ) from error

    return validate


def _is_text(annotation: Any) -> bool:
    while get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    return isinstance(annotation, type) and issubclass(annotation, str)


def _described_text(schema: dict[str, Any], adapter: TypeAdapter[Any]) -> str:
    shown = describing_schema(adapter)
    kind = shown.get("format", "text")
    said = f" {schema['description']}" if "description" in schema else ""
    return f"Answer with a {kind} and nothing else.{said}"
