"""Output types: the constraint that a type puts on the text, and the conversion from text to value.

How a type is interpreted; the first row that applies decides:
    a constraint                       its text as a str; for a JSON Schema the parsed value
    reasoning, Thinking[...]           reasoning, then the answer (`thinking`)
    str                                free text, until the model ends it
    Literal, Enum, bool, None, unions  one of the labels, unquoted (`labels`)
    a function                         a call with validated arguments (`functions`)
    anything pydantic can describe     JSON; at the top level a string (str with limits, date, UUID, ...)
                                       is written without quotes

JSON is written as `json.dumps` writes it, with one space after each comma and colon. That is the form that models
have seen most, and it leaves no room for endless white space. For other forms use `json_schema(...,
whitespace=...)`.

Invariant: `validate` is pydantic's verdict, so each returned value is valid. Objects have the declared fields in
the declared order.

Limits: the following are checked at the end and raise `OutputInvalid`: keys and lengths that only hold after
conversion, bounds of datetimes, times and durations, Python validators, and `now` constraints. `docs/types.md`
lists them.

Cost: building a type takes pydantic's time and one pass over the schema; types are cached.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache, reduce
from operator import or_
from types import UnionType
from typing import Annotated, Any, ForwardRef, Literal, Union, get_args, get_origin

from pydantic import TypeAdapter, ValidationError

from structgen.argument_names import checks_names
from structgen.brief import short_repr
from structgen.constraints.base import Constraint, is_type
from structgen.constraints.choice import choice
from structgen.constraints.composition import CappedReasoning, Reasoning
from structgen.constraints.json_schema import JsonSchemaConstraint, json_schema
from structgen.errors import OutputInvalid, SchemaError, StructgenError, TypeNotSupported

from .blame import FAULTS, arguments_adapter, not_supported, show
from .core_schemas import SchemaIndex
from .describe import describe_schema, is_one_object
from .functions import arguments_of, bind, is_function
from .iterables import with_lists
from .labels import labels_of
from .open_containers import wrap_in_roots
from .raw_text import Text, text_constraint
from .readable import Unreadable, check_readable
from .schemas import describing_schema, generating_schema
from .thinking import GrowingThinking, answer_of, as_reasoning, thinking_of
from .views import GrowingText, GrowingValue, GrowingView, OnItem

__all__ = ["OutputType", "constraint_for_type", "output_type", "validation_error"]


@short_repr
@dataclass(frozen=True)
class OutputType:
    """An output type, ready for generation."""

    name: str
    constraint: Constraint
    validate: Callable[[str], Any]
    """Converts a complete text to the value; raises `OutputInvalid`."""
    growing: Callable[[], GrowingValue]
    """Returns a new reader for one growing text. The reader takes the text so far and returns the value so far, or
    None before there is a value. It parses only the new part.
    """
    growing_items: Callable[[tuple[str, ...], OnItem], GrowingValue] | None = field(default=None, repr=False)
    """The same, and reports each complete item of the array at a path; None if the text is not JSON."""
    is_free_text: bool = False
    """Whether every text is a value, also one that was cut off."""
    description: str = field(default="", repr=False)
    """What the prompt may say about the form of the answer."""
    spells_specials: bool = False
    """Whether the text that is validated contains the names of special tokens."""
    schema: str | None = field(default=None, repr=False)
    """A JSON Schema of the value, as JSON, for engines that compile schemas themselves; None for values without one."""

    source: Any = field(default=None, repr=False, compare=False)
    """The argument of `output_type`."""

    # It is immutable, so a copy is the same object.

    def __copy__(self) -> OutputType:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> OutputType:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the source, since the functions contain pydantic's validators."""
        return output_type, (self.source,)

    @property
    def is_json(self) -> bool:
        """Whether its texts are JSON."""
        return isinstance(self.constraint, JsonSchemaConstraint)

    @property
    def has_fields(self) -> bool:
        """Whether it is one object with declared fields, or a list of such objects."""
        return bool(self.description) and self.schema is not None and is_one_object(self.schema)

    def partial(self, text: str) -> Any:
        """Return the value so far, after the start of a text."""
        return self.growing()(text)


def output_type(annotation: Any) -> OutputType:
    """Return the output type of an annotation, a constraint or a function.

    Args:
        annotation: What `structgen.generate` accepts as its type.

    Raises:
        TypeNotSupported: The type cannot be generated; the error names the part.
    """
    if isinstance(annotation, OutputType):
        return annotation
    reasoning = (
        annotation if isinstance(annotation, Reasoning | CappedReasoning) else as_reasoning(annotation)
    )
    if reasoning is not None:  # not cached: equal constraints may stand for answers of different types
        return replace(_from_reasoning(reasoning), source=annotation)
    declared = _DeclaredType(annotation)
    try:
        hash(declared)
    except TypeError:  # metadata without a hash
        return _build_with_source(declared)
    return _cached(declared)


@checks_names
def constraint_for_type(annotation: Any) -> Constraint:
    """Return the constraint that the texts of a type satisfy; combine it with others by ``&``, ``|`` and ``+``.

    Args:
        annotation: A type, a function or a constraint.

    Raises:
        TypeNotSupported: The type cannot be generated.
    """
    return output_type(annotation).constraint


class _DeclaredType:
    """An annotation as it is declared: `int | str` equals `str | int` in Python, but is a different type here."""

    def __init__(self, annotation: Any) -> None:
        self.annotation = annotation
        self._key = _as_declared(annotation)

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _DeclaredType) and self._key == other._key


def _as_declared(annotation: Any) -> Any:
    """Return a key with parts in their order and values with their types."""
    if get_origin(annotation) is Literal:
        return Literal, tuple((type(value), value) for value in get_args(annotation))
    if get_origin(annotation) is Annotated:
        return Annotated, _as_declared(annotation.__origin__), annotation.__metadata__
    inner = get_args(annotation)
    return (get_origin(annotation), tuple(map(_as_declared, inner))) if inner else annotation


def _build(declared: _DeclaredType) -> OutputType:
    annotation = declared.annotation
    if isinstance(annotation, Constraint):
        return _from_constraint(annotation)
    if annotation is str:
        return _text_type("str", Text(), str, str, is_free_text=True)
    if isinstance(
        annotation, (str, ForwardRef)
    ):  # pydantic would evaluate it, even if it comes from a stranger
        raise TypeNotSupported(
            f"{annotation!r:.60} is a text, not a type",
            hint="Pass the type itself. For texts use structgen.choice() or structgen.regex(), for a schema in JSON "
            "structgen.json_schema().",
        )
    if get_origin(annotation) in (Union, UnionType) and any(
        isinstance(p, Constraint) for p in get_args(annotation)
    ):
        # Python builds a union from `Literal["a"] | constraint` before it calls the constraint's operator.
        return _from_constraint(reduce(or_, map(constraint_for_type, get_args(annotation))))
    labels = labels_of(annotation)
    if labels is not None:
        return _from_labels(annotation, labels)
    if is_function(annotation):
        model, adapter = arguments_adapter(annotation)
        return _json_type(
            model, adapter, lambda text: bind(annotation, adapter.validate_json(text)), arguments_of
        )
    if (lists := with_lists(annotation)) is not annotation:
        return output_type(lists)
    if not is_type(annotation) and type(annotation).__module__ not in _TYPING:
        raise TypeNotSupported(
            f"{annotation!r:.60} is a value, not a type",
            hint="Pass a schema to structgen.json_schema(), a list of texts to structgen.choice().",
        )
    return _from_pydantic(annotation)


_TYPING = ("typing", "typing_extensions", "types")
"""Modules whose objects denote types without being types: Any, NewType, TypeVar, ..."""


def _build_with_source(declared: _DeclaredType) -> OutputType:
    return replace(_build(declared), source=declared.annotation)


_cached = lru_cache(maxsize=512)(_build_with_source)


def _from_constraint(constraint: Constraint) -> OutputType:
    if isinstance(constraint, JsonSchemaConstraint):
        return OutputType(
            name="JSON value",
            constraint=constraint,
            validate=_wrap_errors("JSON value", json.loads),
            **_growing_readers(_adapter(Any)),
            schema=constraint.source,
        )
    return _text_type(constraint.describe(), constraint, str, str, constraint.instructions())


def _from_reasoning(reasoning: Reasoning | CappedReasoning) -> OutputType:
    answer = output_type(answer_of(reasoning))
    begin, end = reasoning.markers
    items = answer.growing_items
    instructions = f"First reason{f' after {begin}' if begin else ''}, write {end}, then answer."
    return OutputType(
        name=f"Thinking[{answer.name}]",
        constraint=reasoning,
        validate=thinking_of(reasoning, answer.validate),
        growing=lambda: GrowingThinking(reasoning, answer.growing()),
        growing_items=None
        if items is None
        else lambda path, on_item: GrowingThinking(reasoning, items(path[1:], on_item)),
        description=f"{instructions}\n\n{answer.description}" if answer.description else instructions,
        spells_specials=True,
    )


def _from_labels(annotation: Any, labels: dict[str, Any]) -> OutputType:
    listed = ", ".join(labels)

    def validate(text: str) -> Any:
        if text not in labels:  # from a server that does not enforce the constraint
            raise OutputInvalid(
                f"the output is not one of {listed}",
                text=text,
                hint="The server did not enforce the constraint.",
            )
        return labels[text]

    return OutputType(
        name=show(annotation),
        constraint=choice(labels),
        validate=validate,
        growing=lambda: GrowingText(None, validate),
        description=f"Answer with one of: {listed}.",
    )


def _from_pydantic(annotation: Any) -> OutputType:
    adapter = _adapter(annotation)
    name = show(annotation)
    schema = _generating_schema(annotation, adapter)
    constraint = text_constraint(schema, f"the type {name}")
    if constraint is not None:
        validate = adapter.validate_python if _is_text(annotation) else adapter.validate_strings
        _check_readable(annotation, adapter, constraint, validate)
        instructions = _text_instructions(schema, adapter)
        return _text_type(
            name,
            constraint,
            _wrap_errors(name, validate),
            _partial_text(adapter),
            instructions,
            schema=json.dumps(schema),
        )
    return _json_type(annotation, adapter, adapter.validate_json)


def _json_type(
    annotation: Any,
    adapter: TypeAdapter[Any],
    parse: Callable[[str], Any],
    appearance: Callable[[Any], Any] | None = None,
) -> OutputType:
    """Return a type written as JSON; `parse` converts a complete text, and `appearance` changes partial values."""
    name = show(annotation)
    schema = _generating_schema(annotation, adapter)
    try:
        constraint = json_schema(schema, ordered=True, whitespace="json.dumps", integers="digits")
    except SchemaError as error:
        raise TypeNotSupported(
            f"the JSON Schema of {name} is not supported: {error.message}",
            where=error.where,
            hint=error.hint,
        ) from error
    _check_readable(annotation, adapter, constraint, parse)
    return OutputType(
        name=name,
        constraint=constraint,
        validate=_wrap_errors(name, parse),
        **_growing_readers(adapter, appearance),
        description=describe_schema(describing_schema(adapter)),
        schema=constraint.source,
    )


def _text_type(
    name: str,
    constraint: Constraint,
    validate: Callable[[str], Any],
    appearance: Callable[[str], Any] | None,
    description: str = "",
    is_free_text: bool = False,
    schema: str | None = None,
) -> OutputType:
    return OutputType(
        name=name,
        constraint=constraint,
        validate=validate,
        growing=lambda: GrowingText(appearance, validate),
        is_free_text=is_free_text,
        description=description,
        schema=schema,
    )


def _growing_readers(
    adapter: TypeAdapter[Any], appearance: Callable[[Any], Any] | None = None
) -> dict[str, Any]:
    """Return the two readers of a growing JSON text; the type is analysed when the first text grows."""

    @cache
    def index() -> SchemaIndex:
        return SchemaIndex(adapter)

    return {
        "growing": lambda: GrowingView(index(), show=appearance),
        "growing_items": lambda path, on_item: GrowingView(index(), show=appearance, items=(path, on_item)),
    }


def _partial_text(adapter: TypeAdapter[Any]) -> Callable[[str], Any] | None:
    """Return how an incomplete text appears; None if it has no value before its end, such as a date."""
    index = SchemaIndex(adapter)
    roots = index.text_roots(index.root)
    return None if roots is None else lambda text: wrap_in_roots(text, roots)


def _adapter(annotation: Any) -> TypeAdapter[Any]:
    try:
        return TypeAdapter(annotation)
    except FAULTS as error:
        raise not_supported(annotation, error) from error


def _generating_schema(annotation: Any, adapter: TypeAdapter[Any]) -> dict[str, Any]:
    try:
        return generating_schema(adapter)
    except FAULTS as error:
        raise not_supported(annotation, error) from error


def _check_readable(
    annotation: Any, adapter: TypeAdapter[Any], constraint: Constraint, parse: Callable[[str], Any]
) -> None:
    try:
        check_readable(adapter.core_schema, constraint, parse)
    except Unreadable as error:
        raise TypeNotSupported(
            f"{show(annotation)} cannot be an output type: {error}", hint=error.hint
        ) from error


def _wrap_errors(name: str, parse: Callable[[str], Any]) -> Callable[[str], Any]:
    """Return `parse` with its failures as `OutputInvalid`, with the text and pydantic's error."""

    def validate(text: str) -> Any:
        try:
            return parse(text)
        except StructgenError:
            raise
        except Exception as error:  # validators are user code
            raise validation_error(name, text, error) from error

    return validate


def validation_error(name: str, text: str, error: Exception) -> OutputInvalid:
    """Return the error for a text that is not a valid `name`.

    Args:
        name: The name of the type.
        text: The complete text.
        error: What its validation raised.
    """
    if not isinstance(error, (ValueError, RecursionError)):
        return OutputInvalid(
            f"a validator of {name} raised {_shown_error(error)}",
            text=text,
            hint="Validators must reject a value with ValueError or AssertionError. See the cause of this error.",
        )
    if not isinstance(error, ValidationError):
        return OutputInvalid(
            f"the output cannot be converted to {name}: {error}",
            text=text,
            hint="It is nested too deeply, or has a number with too many digits. Bound them in the schema.",
        )
    details = error.errors()
    for detail in details:
        # subtle: a validator's own error refers to the frames around it. Pydantic's error, which contains it, is
        # invisible to the garbage collector, so matchers and results in those frames would never be freed.
        own = detail.get("ctx", {}).get("error")
        if isinstance(own, BaseException):
            own.__traceback__ = None
    problems = [f"{'.'.join(map(str, detail['loc'])) or 'value'}: {detail['msg']}" for detail in details]
    return OutputInvalid(
        f"the output is well formed but not a valid {name}: {'; '.join(problems[:3])}",
        text=text,
        hint="A Python validator rejected it, or a limit that JSON Schema cannot state.",
    )


def _shown_error(error: Exception) -> str:
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001 — `__str__` of the error is user code
        return type(error).__name__


def _is_text(annotation: Any) -> bool:
    while get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    return isinstance(annotation, type) and issubclass(annotation, str)


def _text_instructions(schema: dict[str, Any], adapter: TypeAdapter[Any]) -> str:
    shown = describing_schema(adapter)
    kind = shown.get("format", "text")
    instructions = f" {schema['description']}" if "description" in schema else ""
    return f"Answer with a {kind} and nothing else.{instructions}"
