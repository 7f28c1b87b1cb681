"""What a call gives back: the constraint that an output type puts on the text, and the way from text to value.

What, in the order in which a type is looked at:
    a constraint                       its text as a str; for a JSON Schema the parsed value
    reasoning, Thinking[...]           reasoning, then the answer (`thinking`)
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
from .open_containers import rooted
from .raw_text import Text, text_constraint
from .readable import Unreadable, check_readable
from .schemas import describing_schema, generating_schema
from .thinking import GrowingThinking, answer_of, as_reasoning, thinking_of
from .views import GrowingText, GrowingValue, GrowingView, OnItem

__all__ = ["OutputType", "constraint_for_type", "output_type", "refusal"]


@short_repr
@dataclass(frozen=True)
class OutputType:
    """An output type, ready to be generated."""

    name: str
    constraint: Constraint
    validate: Callable[[str], Any]
    """From a whole text to the value; raises `OutputInvalid`."""
    growing: Callable[[], GrowingValue]
    """A new reader for one growing text: given the text so far, what there is of the value (None before there
    is anything). It reads only what is new."""
    growing_items: Callable[[tuple[str, ...], OnItem], GrowingValue] | None = field(default=None, repr=False)
    """The same, reporting each finished item of the array at a path; None where the text is not JSON."""
    is_free_text: bool = False
    """Every text is a value, so text that was cut off is one, too."""
    description: str = field(default="", repr=False)
    """What the prompt may tell the model about the form of the answer."""
    spells_specials: bool = False
    """Special tokens stand in the text that is validated, each by the text that names it."""
    schema: str | None = field(default=None, repr=False)
    """A JSON Schema of the value, as JSON, for engines that read schemas themselves; None where there is none."""

    source: Any = field(default=None, repr=False, compare=False)
    """What `output_type` was given."""

    # It never changes, so copies are the same object.

    def __copy__(self) -> OutputType:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> OutputType:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """What it was made from, as its functions hold pydantic's validators."""
        return output_type, (self.source,)

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
    reasoning = (
        annotation if isinstance(annotation, Reasoning | CappedReasoning) else as_reasoning(annotation)
    )
    if reasoning is not None:  # not kept: equal constraints may stand for answers of different types
        return replace(_from_reasoning(reasoning), source=annotation)
    declared = _Declared(annotation)
    try:
        hash(declared)
    except TypeError:  # metadata without a hash
        return _built(declared)
    return _cached(declared)


@checks_names
def constraint_for_type(annotation: Any) -> Constraint:
    """The constraint that the texts of a type satisfy; it combines with others by ``&``, ``|`` and ``+``."""
    return output_type(annotation).constraint


class _Declared:
    """An annotation as it is declared: `int | str` equals `str | int` for Python, but is another type here."""

    def __init__(self, annotation: Any) -> None:
        self.annotation = annotation
        self._key = _as_declared(annotation)

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Declared) and self._key == other._key


def _as_declared(annotation: Any) -> Any:
    """Parts in their order, values with their types."""
    if get_origin(annotation) is Literal:
        return Literal, tuple((type(value), value) for value in get_args(annotation))
    if get_origin(annotation) is Annotated:
        return Annotated, _as_declared(annotation.__origin__), annotation.__metadata__
    inner = get_args(annotation)
    return (get_origin(annotation), tuple(map(_as_declared, inner))) if inner else annotation


def _build(declared: _Declared) -> OutputType:
    annotation = declared.annotation
    if isinstance(annotation, Constraint):
        return _from_constraint(annotation)
    if annotation is str:
        return _text_type("str", Text(), str, str, is_free_text=True)
    if isinstance(annotation, (str, ForwardRef)):  # pydantic would evaluate it, even a stranger's
        raise TypeNotSupported(
            f"{annotation!r:.60} is a text, not a type",
            hint="Give the type itself; for texts take structgen.choice() or structgen.regex(), for a schema in JSON "
            "structgen.json_schema().",
        )
    if get_origin(annotation) in (Union, UnionType) and any(
        isinstance(p, Constraint) for p in get_args(annotation)
    ):
        # Python makes a union of `Literal["a"] | constraint` before the constraint is consulted.
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
            hint="Wrap a schema in structgen.json_schema(), a list of texts in structgen.choice().",
        )
    return _from_pydantic(annotation)


_TYPING = ("typing", "typing_extensions", "types")
"""Modules whose objects stand for types without being one: Any, NewType, TypeVar, ..."""


def _built(declared: _Declared) -> OutputType:
    return replace(_build(declared), source=declared.annotation)


_cached = lru_cache(maxsize=512)(_built)


def _from_constraint(constraint: Constraint) -> OutputType:
    if isinstance(constraint, JsonSchemaConstraint):
        return OutputType(
            name="JSON value",
            constraint=constraint,
            validate=_checked("JSON value", json.loads),
            **_growing(_adapter(Any)),
            schema=constraint.source,
        )
    return _text_type(constraint.describe(), constraint, str, str, constraint.instructions())


def _from_reasoning(reasoning: Reasoning | CappedReasoning) -> OutputType:
    answer = output_type(answer_of(reasoning))
    begin, end = reasoning.markers
    items = answer.growing_items
    said = f"First reason{f' after {begin}' if begin else ''}, write {end}, then answer."
    return OutputType(
        name=f"Thinking[{answer.name}]",
        constraint=reasoning,
        validate=thinking_of(reasoning, answer.validate),
        growing=lambda: GrowingThinking(reasoning, answer.growing()),
        growing_items=None
        if items is None
        else lambda path, on_item: GrowingThinking(reasoning, items(path[1:], on_item)),
        description=f"{said}\n\n{answer.description}" if answer.description else said,
        spells_specials=True,
    )


def _from_labels(annotation: Any, labels: dict[str, Any]) -> OutputType:
    listed = ", ".join(labels)

    def validate(text: str) -> Any:
        if text not in labels:  # of a server that does not keep to the constraint
            raise OutputInvalid(
                f"the output is not one of {listed}",
                text=text,
                hint="The server did not keep the model to them.",
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
    schema = _generating(annotation, adapter)
    constraint = text_constraint(schema, f"the type {name}")
    if constraint is not None:
        validate = adapter.validate_python if _is_text(annotation) else adapter.validate_strings
        _check_readable(annotation, adapter, constraint, validate)
        said = _described_text(schema, adapter)
        return _text_type(
            name, constraint, _checked(name, validate), _shown_text(adapter), said, schema=json.dumps(schema)
        )
    return _json_type(annotation, adapter, adapter.validate_json)


def _json_type(
    annotation: Any,
    adapter: TypeAdapter[Any],
    parse: Callable[[str], Any],
    appearance: Callable[[Any], Any] | None = None,
) -> OutputType:
    """`parse` makes the value of a whole text; `appearance` changes how partial values of `adapter` appear."""
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
    _check_readable(annotation, adapter, constraint, parse)
    return OutputType(
        name=name,
        constraint=constraint,
        validate=_checked(name, parse),
        **_growing(adapter, appearance),
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


def _growing(adapter: TypeAdapter[Any], appearance: Callable[[Any], Any] | None = None) -> dict[str, Any]:
    """The two ways to read a growing JSON text; the type is looked through when the first text grows."""

    @cache
    def index() -> SchemaIndex:
        return SchemaIndex(adapter)

    return {
        "growing": lambda: GrowingView(index(), show=appearance),
        "growing_items": lambda path, on_item: GrowingView(index(), show=appearance, items=(path, on_item)),
    }


def _shown_text(adapter: TypeAdapter[Any]) -> Callable[[str], Any] | None:
    """How a text that is not finished appears; None where it has no value before its end (a date)."""
    index = SchemaIndex(adapter)
    roots = index.text_roots(index.root)
    return None if roots is None else lambda text: rooted(text, roots)


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


def _check_readable(
    annotation: Any, adapter: TypeAdapter[Any], constraint: Constraint, parse: Callable[[str], Any]
) -> None:
    try:
        check_readable(adapter.core_schema, constraint, parse)
    except Unreadable as error:
        raise TypeNotSupported(
            f"{show(annotation)} cannot be an output type: {error}", hint=error.hint
        ) from error


def _checked(name: str, parse: Callable[[str], Any]) -> Callable[[str], Any]:
    """`parse` with its refusal as one of our errors, which holds the text and pydantic's own."""

    def validate(text: str) -> Any:
        try:
            return parse(text)
        except StructgenError:
            raise
        except Exception as error:  # validators are the user's code
            raise refusal(name, text, error) from error

    return validate


def refusal(name: str, text: str, error: Exception) -> OutputInvalid:
    """The error of a text that was to be a `name`, from what its validation raised."""
    if not isinstance(error, (ValueError, RecursionError)):
        return OutputInvalid(
            f"a validator of {name} raised {_shown_error(error)}",
            text=text,
            hint="Validators refuse a value with ValueError or AssertionError. The cause of this error says where it "
            "was raised.",
        )
    if not isinstance(error, ValidationError):
        return OutputInvalid(
            f"the output cannot be read as {name}: {error}",
            text=text,
            hint="It is nested too deeply or holds a number with too many digits; bound them in the schema.",
        )
    found = error.errors()
    for one in found:
        # subtle: a validator's own error knows the frames around it, and pydantic's error, which holds it,
        # is invisible to the garbage collector: matchers and results in those frames would stay for ever.
        own = one.get("ctx", {}).get("error")
        if isinstance(own, BaseException):
            own.__traceback__ = None
    problems = [f"{'.'.join(map(str, one['loc'])) or 'value'}: {one['msg']}" for one in found]
    return OutputInvalid(
        f"the output is well formed but not a valid {name}: {'; '.join(problems[:3])}",
        text=text,
        hint="A Python validator refused it, or a limit that JSON Schema cannot state.",
    )


def _shown_error(error: Exception) -> str:
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # its text is the user's code
        return type(error).__name__


def _is_text(annotation: Any) -> bool:
    while get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    return isinstance(annotation, type) and issubclass(annotation, str)


def _described_text(schema: dict[str, Any], adapter: TypeAdapter[Any]) -> str:
    shown = describing_schema(adapter)
    kind = shown.get("format", "text")
    said = f" {schema['description']}" if "description" in schema else ""
    return f"Answer with a {kind} and nothing else.{said}"
