"""How model families write the arguments of a call as XML elements: one table of texts.

Why: the constraint of arguments and their reader use the same few texts. So a style is a row of data, without code.
What: ``$name``, ``$type`` and ``$value`` in `element` are placeholders, and ``$gap`` is optional white space. White
space is also allowed before each element, after the last one, and around JSON.
Source: the styles of a ``json_schema`` in XGrammar's structural tags; the chat template of Qwen3-Coder.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from structgen.brief import short_repr

__all__ = ["STYLES", "XmlStyle"]

_JSON_TYPES = ("string", "number", "boolean", "null", "array", "object")


@short_repr
@dataclass(frozen=True)
class XmlStyle:
    """The texts of one style."""

    name: str
    element: str
    """One argument."""
    types: Mapping[str, str] = field(default_factory=dict)
    """The value of ``$type`` for each JSON type. Without it, strings are not marked."""
    item: str = ""
    """An item of an array, if arrays are `nested`."""
    nested: tuple[str, ...] = ()
    """Types whose values are nested elements: ``object`` or ``array``. Others are JSON."""
    escapes: Mapping[str, str] = field(default_factory=dict)
    """Escapes of characters of a declared key inside quotes. Other keys do not contain these characters."""
    is_padded: bool = False
    """Whether one line end before and one after a string do not belong to it."""
    never: tuple[str, ...] = ()
    """Texts around the arguments that no value contains, in addition to the end of its element."""
    between: str = ""
    """The text between two elements; the turns of `tools` have it."""

    @property
    def without_gaps(self) -> str:
        """The element without ``$gap``, as the turns of `tools` have it."""
        return self.element.replace("$gap", "")

    @property
    def end(self) -> str:
        """The end of a value's element, which no value contains."""
        return self.without_gaps.partition("$value")[2]

    @cached_property
    def forms(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """Each ``$type`` with the JSON types that share it and are written alike; strings are always separate."""
        groups: dict[tuple[str, str], tuple[str, ...]] = {}
        for kind in _JSON_TYPES:
            shown = self.types.get(kind, "")
            key = (shown, kind if kind == "string" or kind in self.nested else "")
            groups[key] = (*groups.get(key, ()), kind)
        return tuple([(shown, kinds) for (shown, _), kinds in groups.items()])


_LISTED = (
    XmlStyle(
        "qwen_xml",
        "<parameter=$name>$value</parameter>",
        is_padded=True,
        never=("<parameter=", "</function>", "<function=", "<tool_call>", "</tool_call>"),
    ),
    XmlStyle(
        "minimax_xml",
        '<parameter name="$name">$value</parameter>',
        never=("</invoke>", "</minimax:tool_call>"),
    ),
    XmlStyle(
        "deepseek_xml",
        '<｜DSML｜parameter name="$name" string="$type">$value</｜DSML｜parameter>',
        types={
            "string": "true",
            **dict.fromkeys(_JSON_TYPES[1:], "false"),
        },
        never=("</｜DSML｜invoke>",),
    ),
    XmlStyle(
        "glm_xml",
        "<arg_key>$name</arg_key>$gap<arg_value>$value</arg_value>",
        never=("</tool_call>",),
    ),
    XmlStyle(
        "cohere_xml",
        '<cofl:value name="$name" type="$type">$value</cofl:value>',
        types={
            "string": "raw",
            **dict.fromkeys(("number", "boolean", "null"), "json"),
            "array": "list",
            "object": "dict",
        },
        item='<cofl:value type="$type">$value</cofl:value>',
        nested=("object", "array"),
        never=("</cofl:tool_call>",),
    ),
    XmlStyle(
        "kimi_k3_xml",
        '<|open|>argument key="$name" type="$type"<|sep|>$value<|close|>argument<|sep|>',
        types={kind: kind for kind in _JSON_TYPES},
        escapes={"&": "&amp;", '"': "&quot;"},
        never=("<|close|>call<|sep|>",),
    ),
)

STYLES: dict[str, XmlStyle] = {style.name: style for style in _LISTED}
"""The styles by name."""
