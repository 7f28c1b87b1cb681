"""The constraint "JSON that satisfies this schema", and `json_schema`, which makes it.

Why: the schema is read immediately. So a mistake is reported where the constraint is written, and a later change of
the caller's dict has no effect.

Invariant: the IR is complete and never changes; equality and hash are those of the IR, which includes the options.

Cost: reading is linear in the schema; combining is linear in both.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import Any

from structgen.argument_names import checks_names
from structgen.constraints.base import IR, Blame, Constraint, RuleViolation, Stop
from structgen.errors import CombinationError
from structgen.ir.schema import JsonValue, SchemaIR

from .explain.broken_rules import find_broken_rules
from .explain.contradictions import explain_contradiction
from .explain.embedded_values import find_embedded_value
from .instances import example_text, minimal_text, value_of
from .merging import combine
from .options import JsonSchemaOptions, make_options
from .parsing import parse_schema
from .pointers import escape, segments
from .reader import read_schema
from .references import Registry
from .whitespace import Whitespace

__all__ = ["JsonSchemaConstraint", "json_schema", "part_of_schema"]


class JsonSchemaConstraint(Constraint):
    """JSON that satisfies a schema; made by `json_schema`. `&` and `|` with another one return a schema again."""

    __slots__ = ("_ir", "options", "source")

    options: JsonSchemaOptions
    source: str | None
    """The schema as JSON, for engines that compile it themselves. None if several schemas were combined, or if a
    registry was given.
    """
    _ir: SchemaIR

    def __init__(self, ir: SchemaIR, options: JsonSchemaOptions, source: str | None = None) -> None:
        object.__setattr__(self, "_ir", ir)
        object.__setattr__(self, "options", options)
        object.__setattr__(self, "source", source)

    def lower(self) -> IR:
        """Return the IR of the schema."""
        return ("json", self._ir)

    def _and(self, other: Constraint) -> Constraint | None:
        if not isinstance(other, JsonSchemaConstraint):
            return None
        if self.options != other.options:
            raise CombinationError(
                f"& joins two JSON schemas only if their options are equal, not {self.options} and {other.options}",
                hint="Give both schemas the same options.",
            )
        return JsonSchemaConstraint(combine("allOf", self._ir, other._ir), self.options)

    def _or(self, other: Constraint) -> Constraint | None:
        if not isinstance(other, JsonSchemaConstraint) or self.options != other.options:
            return None
        return JsonSchemaConstraint(combine("anyOf", self._ir, other._ir), self.options)

    def example(self, seed: int = 0) -> JsonValue:
        """Return a random value that satisfies the schema; a seed gives the same value on every machine.

        The value is small and made for reading: declared keys (optional ones at random), words, small numbers, few
        items.

        Raises:
            UnsatisfiableSchema: No value satisfies the schema.
        """
        return value_of(self.example_text(seed))

    def example_text(self, seed: int = 0) -> str:
        """Return the JSON of `example`, with its numbers exactly as drawn, and white space as the option says."""
        return self._laid_out(example_text(self, self._ir, seed))

    def minimal(self) -> JsonValue:
        """Return the value of a shortest text.

        Its text has the fewest bytes of UTF-8: no optional white space, escapes only if JSON requires them, and
        numbers in their shortest spelling (``1e3`` is shorter than ``1000``). If the search budget ends first, it
        is the shortest value that was found, and `minimal_is_exact` returns False.

        Raises:
            UnsatisfiableSchema: No value satisfies the schema.
        """
        return value_of(self.minimal_text())

    def minimal_text(self) -> str:
        """Return the JSON of `minimal`, with white space as the option says: none if that is flexible."""
        return self._laid_out(minimal_text(self, self._ir)[0])

    def minimal_is_exact(self) -> bool:
        """Return whether `minimal` is proven to be shortest."""
        return minimal_text(self, self._ir)[1]

    def written_as(self, options: JsonSchemaOptions) -> JsonSchemaConstraint:
        """Return the same schema for texts of another form; the meaning of its formats does not change."""
        ir = SchemaIR(spelled=self._ir.spelled, **{**self._ir, "options": options.lower()})
        return JsonSchemaConstraint(ir, replace(options, formats=self.options.formats), self.source)

    def _laid_out(self, compact: str) -> str:
        return Whitespace.of(self.options.whitespace).lay_out(compact)

    def blame(self, part: str, is_empty: Callable[[IR], bool]) -> Blame | None:
        """Return the keywords that contradict each other at the pointer `part`."""
        return explain_contradiction(self._ir, part, lambda ir: is_empty(("json", ir)))

    def find_broken_rules(self, stop: Stop, checks: list[Callable[[IR], bool]]) -> list[RuleViolation]:
        """Return the keywords that reject the text, also if the schema is only a part of the constraint."""

        def on_ir(check: Callable[[IR], bool]) -> Callable[[SchemaIR], bool]:
            return lambda ir: check(("json", ir))

        rejected = find_embedded_value(self._ir, stop) if stop.is_part else stop
        return (
            []
            if rejected is None
            else find_broken_rules(self._ir, rejected, [on_ir(check) for check in checks])
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, JsonSchemaConstraint):
            return False if isinstance(other, Constraint) else NotImplemented
        return self is other or self._ir == other._ir

    def __hash__(self) -> int:
        return hash(self._ir)

    def describe(self) -> str:
        """Return the number of sub-schemas, as a phrase."""
        count = len(self._ir["nodes"])
        return f"a JSON schema of {count} sub-schema" + "s" * (count != 1)

    def written(self) -> list[tuple[str, str]]:
        """Return the options that differ from their defaults, and the schema as indented JSON if it is known."""
        usual = make_options({})
        names = [one.name for one in fields(usual)]
        chosen = [(name, getattr(self.options, name)) for name in names]
        chosen = [(name, str(value)) for name, value in chosen if value != getattr(usual, name)]
        if self.source is None:
            return chosen
        try:
            shown = json.dumps(json.loads(self.source), indent=2, ensure_ascii=False)
        except (ValueError, RecursionError):
            shown = self.source
        return [*chosen, ("", shown)]

    def __repr__(self) -> str:
        return f"<{self.describe()}>"


@checks_names
def json_schema(
    schema: str | bytes | dict[str, Any] | bool, *, registry: Registry | None = None, **options: object
) -> JsonSchemaConstraint:
    """Return the constraint of JSON that satisfies a schema.

    Besides `registry`, the keyword arguments are the fields of `JsonSchemaOptions`.

    Args:
        schema: The schema as JSON text or parsed, of draft 4, 6, 7, 2019-09 or 2020-12 (by ``$schema``).
        registry: Other documents that ``$ref`` may refer to: a mapping from URI to schema, or a
            `referencing.Registry`.
        whitespace: "flexible" (default), "compact", "json.dumps", "indented", or a `structgen.Whitespace`.
        ordered: False (default), or True: object keys come in the order in which ``properties`` declares them.
        escapes: "canonical" (default): only what JSON requires is escaped; "all": any spelling of RFC 8259.
        formats: "assert" (default): known formats constrain; "annotate": none do; "dialect": as ``$schema`` says.
        integers: "any" (default): every spelling of an integer, such as 7, 7.0 and 7e0; "digits": digits only.
        closed: False (default), or True: objects that declare ``properties`` and do not mention other keys have
            none.

    Raises:
        SchemaError: The schema is invalid (`SchemaInvalid`), has an unsupported keyword (`UnsupportedKeyword`), or
            a reference does not resolve (`ReferenceNotFound`). `structgen.check` reports all problems at once.
        RegexError: A pattern is invalid or unsupported.
        LimitExceeded: The schema is too large.
        OptionError: An option or the registry is invalid.

    Example:
        >>> import structgen as sg
        >>> sg.json_schema({"type": "integer", "minimum": 10}).minimal()
        10
    """
    return constraint_of_parsed(parse_schema(schema), schema, make_options(options), registry)


def constraint_of_parsed(
    parsed: JsonValue,
    schema: str | bytes | dict[str, Any] | bool,
    options: JsonSchemaOptions,
    registry: Registry | None = None,
) -> JsonSchemaConstraint:
    """Return `json_schema` of a schema that `parse_schema` has already parsed.

    Args:
        parsed: What `parse_schema` returned for `schema`.
        schema: The schema as it was given.
        options: The options of `json_schema`.
        registry: See `json_schema`.
    """
    ir, opened = read_schema(parsed, options, registry)
    if registry is not None or not opened.is_in_place:
        return JsonSchemaConstraint(ir, options)
    return JsonSchemaConstraint(ir, options, _source(schema, opened.pointers))


def part_of_schema(schema: dict[str, Any], names: Sequence[str], **options: object) -> JsonSchemaConstraint:
    """Return the constraint of the sub-schema at a path of keywords and keys.

    References inside it are resolved in the whole schema: ``#`` is the root of `schema`, not of the sub-schema.

    Args:
        schema: The whole schema.
        names: The keywords and keys that lead to the sub-schema.
        **options: As for `json_schema`.
    """
    chosen = make_options(options)
    pointer = "".join(f"/{escape(name)}" for name in names).replace("%", "%25")
    return JsonSchemaConstraint(read_schema(parse_schema(schema), chosen, part=pointer)[0], chosen)


def _source(schema: str | bytes | dict[str, Any] | bool, closed: Sequence[str] = ()) -> str | None:
    """Return the schema as JSON, with the objects at these pointers closed; None if JSON cannot represent it."""
    if isinstance(schema, (bytes, bytearray)):
        schema = schema.decode("utf-8-sig")
    try:
        text = schema if isinstance(schema, str) else json.dumps(schema)
        return _with_closed_objects(text, closed) if closed else text
    except (TypeError, ValueError, RecursionError, LookupError):
        return None


def _with_closed_objects(text: str, pointers: Sequence[str]) -> str:
    schema = json.loads(text)
    for pointer in pointers:
        place = schema
        for key in segments(pointer.removeprefix("#").replace("%", "%25")):
            place = place[int(key)] if isinstance(place, list) else place[key]
        place["additionalProperties"] = False
    return json.dumps(schema, allow_nan=False)
