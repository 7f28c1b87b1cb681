"""Arguments as one XML element per parameter, in a style whose elements do not show the type of their value.

    <parameter=city>
    Paris
    </parameter>

What: a parameter that is always a string is written without quotes and escapes. So is one that is a string or null;
``null`` then means null, and the string "null" cannot be written. Any other value is JSON. A style that shows types
needs no such rule: its elements are those of `xml_elements`, without optional white space.
Invariant: which of the three holds (the *form* of a parameter) depends on the language of the schema, not on its
spelling. It is decided once, when the constraint is made; reading uses it, and does no work in the core. What is
written reads back as a value of the schema. Strings do not contain texts that would end the element for the readers of
model servers.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import cached_property

from structgen import _core
from structgen.constraints.composition import Composition, body_of
from structgen.constraints.expressions import NOTHING, alternate, complement, intersect, literal
from structgen.constraints.failures import limit_exceeded
from structgen.constraints.json_schema.constraint import part_of_schema
from structgen.constraints.json_schema.nodes import TYPES
from structgen.constraints.json_schema.shapes import Shapes
from structgen.constraints.json_schema.strings import restrict_types
from structgen.constraints.occurrences import without
from structgen.errors import ConstraintError
from structgen.ir.grammar import Body
from structgen.vocabulary import Vocabulary

from .bodies import EMPTY, choice_of, listed, sequence_of
from .custom import PARAMETER, CustomFormat, custom_value
from .definitions import Tool
from .forms import Form
from .parameters import WRITTEN, constraint_at, parameters_of
from .xml_elements import xml_elements
from .xml_styles import XmlStyle
from .xml_values import SharedValues, string_body

__all__ = ["SharedParameters", "xml_arguments"]

_NULL = "null"


def xml_arguments(
    tool: Tool, style: XmlStyle, write: Callable[[str], Body], shared: SharedParameters
) -> tuple[Body, dict[str, Form]]:
    """Return every element, in the order in which the parameters are declared, and the form of each value.

    Args:
        tool: The tool.
        style: How elements are written.
        write: Returns the body of a text of the style, which may contain special tokens.
        shared: What is known of parameters of other tools of the turn.
    """
    if tool.input is not None:
        return _custom(tool, tool.input, style, write)
    if not style.types:
        return _untyped(tool, style, write, shared)
    body, rules = xml_elements(
        part_of_schema(tool.parameters, (), **WRITTEN),
        style,
        most_blanks=0,
        write=write,
        shared=shared.values,
    )
    return (body_of(Composition(body, f"arguments of {tool.name}", rules)) if rules else body), {}


def _custom(
    tool: Tool, format: CustomFormat, style: XmlStyle, write: Callable[[str], Body]
) -> tuple[Body, dict[str, Form]]:
    """Return the element with the input of a custom tool, and its form."""
    element = style.without_gaps.replace("$type", style.types.get("string", ""))
    before, _, after = element.replace("$name", PARAMETER).partition("$value")
    value = custom_value(tool.name, format, _never(style))
    return sequence_of((write(before), value, write(after))), {} if style.types else {PARAMETER: "string"}


def _never(style: XmlStyle) -> tuple[str, ...]:
    """Return the texts that no string contains."""
    return tuple(dict.fromkeys((style.end.strip(), *style.never)))


def _untyped(
    tool: Tool, style: XmlStyle, write: Callable[[str], Body], shared: SharedParameters
) -> tuple[Body, dict[str, Form]]:
    parts = []
    forms: dict[str, Form] = {}
    before, _, after = style.without_gaps.partition("$value")
    never = _never(style)
    for name, _, required in parameters_of(tool, "XML"):
        if not name or set(name) & set('<>\n"'):
            raise ConstraintError(
                f"{name!r:.60} is no name of an element", where=f"the parameters of {tool.name}"
            )
        shapes = Shapes(constraint_at(tool, ("properties", name)))
        forms[name], value = shared.parameter(shapes, never)
        parts.append((sequence_of((write(before.replace("$name", name)), value, write(after))), required))
    if style.between:
        return listed(parts, write(style.between)), forms
    return sequence_of([part if required else choice_of((EMPTY, part)) for part, required in parts]), forms


class SharedParameters:
    """What is known of the parameters of one turn.

    For parameters with equal schemas, the form is decided once, and strings are compiled once. Values that are JSON are
    not shared.
    """

    def __init__(self) -> None:
        self.values = SharedValues(shares_json=False)
        self._forms: dict[Hashable, tuple[Shapes, Form, Body | None]] = {}

    @cached_property
    def _engine(self) -> _core.Engine:
        # Not that of a shared vocabulary: what it compiles would stay in its caches.
        return Vocabulary.of_bytes().engine

    def parameter(self, shapes: Shapes, never: tuple[str, ...]) -> tuple[Form, Body]:
        """Return the form of the values of a schema, and their body.

        Args:
            shapes: The schema.
            never: Texts that no string contains.
        """
        content = shapes.content(shapes.root)
        key = (content, never)
        known = None if content is None else self._forms.get(key)
        if known is None:
            form = _form(shapes, self._engine)
            known = shapes, form, None if form == "json" else _string(shapes, form, never)
            if content is not None:
                self._forms[key] = known
        _, form, body = known
        # Values that are JSON are not shared: messages about them name their own schema.
        return form, body_of(shapes.constraint) if body is None else body


def _string(shapes: Shapes, form: Form, never: tuple[str, ...]) -> Body:
    strings = shapes.strings(shapes.root)
    if form == "string":
        return string_body(strings, never, is_padded=False) or ("choice", ())
    null = literal(_NULL)
    others = intersect([strings, without(never), complement(null)])
    return ("text", alternate([others, null]))


def _form(shapes: Shapes, engine: _core.Engine) -> Form:
    """Return how the values of a schema are written."""

    def has(*types: str) -> bool:
        if not possible & sum(TYPES[name] for name in types):
            return False
        try:
            return engine.compile(restrict_types(shapes.constraint.lower(), types)).empty_parts() is None
        except _core.LimitError as error:
            raise limit_exceeded(error, "a parameter") from None

    possible = shapes.types(shapes.root)
    if shapes.strings(shapes.root) == NOTHING:  # first, since it has a bound of its own
        return "json"
    if not has("string") or has("boolean", "object", "array", "number"):
        return "json"
    return "string or null" if has("null") else "string"
