"""Arguments as elements, written and read in the slow, obvious manner: one function for each direction.

A text may have several readings: in styles without types a value may be a string or JSON.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from itertools import product
from typing import Any

BLANKS = ("", "", "", " ", "\n", "\t\n", "\n  ")
_JSON_TYPE = {
    str: "string",
    bool: "boolean",
    int: "number",
    float: "number",
    type(None): "null",
    list: "array",
    dict: "object",
}
_COHERE = {
    "string": "raw",
    "number": "json",
    "boolean": "json",
    "null": "json",
    "array": "list",
    "object": "dict",
}
_KIMI_END = "<|close|>argument<|sep|>"
NEVER = {
    "qwen_xml": ("</parameter>", "<parameter=", "</function>", "<function=", "<tool_call>", "</tool_call>"),
    "minimax_xml": ("</parameter>", "</invoke>", "</minimax:tool_call>"),
    "deepseek_xml": ("</｜DSML｜parameter>", "</｜DSML｜invoke>"),
    "glm_xml": ("</arg_value>", "</tool_call>"),
    "cohere_xml": ("</cofl:value>", "</cofl:tool_call>"),
    "kimi_k3_xml": (_KIMI_END, "<|close|>call<|sep|>"),
}
STYLES = tuple(NEVER)


class Unreadable(Exception):
    """The text is no list of elements."""


# Writing.


def write(style: str, arguments: dict[str, Any], rng: random.Random) -> str:
    """The elements of these arguments, in their order, with white space here and there."""
    elements = [rng.choice(BLANKS) + _element(style, name, value, rng) for name, value in arguments.items()]
    return "".join(elements) + rng.choice(BLANKS)


def _element(style: str, name: str | None, value: Any, rng: random.Random) -> str:
    kind = _JSON_TYPE[type(value)]
    if style == "cohere_xml" and kind == "object":
        shown = write(style, value, rng)
    elif style == "cohere_xml" and kind == "array":
        shown = "".join(rng.choice(BLANKS) + _element(style, None, one, rng) for one in value) + rng.choice(
            BLANKS
        )
    elif kind == "string":
        shown = value
        if style == "qwen_xml" and (rng.random() < 0.5 or value.startswith("\n") or value.endswith("\n")):
            shown = f"\n{value}\n"
    else:
        shown = rng.choice(BLANKS) + json.dumps(value, ensure_ascii=False) + rng.choice(BLANKS)
    if style == "qwen_xml":
        return f"<parameter={name}>{shown}</parameter>"
    if style == "minimax_xml":
        return f'<parameter name="{name}">{shown}</parameter>'
    if style == "deepseek_xml":
        label = "true" if kind == "string" else "false"
        return f'<｜DSML｜parameter name="{name}" string="{label}">{shown}</｜DSML｜parameter>'
    if style == "glm_xml":
        return f"<arg_key>{name}</arg_key>{rng.choice(BLANKS)}<arg_value>{shown}</arg_value>"
    if style == "cohere_xml":
        named = "" if name is None else f'name="{name}" '
        return f'<cofl:value {named}type="{_COHERE[kind]}">{shown}</cofl:value>'
    name = (name or "").replace("&", "&amp;").replace('"', "&quot;")
    return f'<|open|>argument key="{name}" type="{kind}"<|sep|>{shown}{_KIMI_END}'


# Reading.

_ELEMENTS = {
    "qwen_xml": r"<parameter=(?P<name>[^<>\n]+)>(?P<value>.*?)</parameter>",
    "minimax_xml": r'<parameter name="(?P<name>[^"]+)">(?P<value>.*?)</parameter>',
    "deepseek_xml": r'<｜DSML｜parameter name="(?P<name>[^"]+)" string="(?P<type>true|false)">'
    r"(?P<value>.*?)</｜DSML｜parameter>",
    "glm_xml": r"<arg_key>(?P<name>[^<]+)</arg_key>\s*<arg_value>(?P<value>.*?)</arg_value>",
    "kimi_k3_xml": r'<\|open\|>argument key="(?P<name>[^"]+)" type="(?P<type>[a-z]+)"<\|sep\|>(?P<value>.*?)'
    + re.escape(_KIMI_END),
}


def readings(style: str, text: str) -> Iterator[list[tuple[str, Any]]]:
    """Each way to read a text: keys and values in their order. Raises `Unreadable`."""
    if style == "cohere_xml":
        pairs, place = _cohere(text, 0, named=True)
        if place != len(text):
            raise Unreadable(text)
        yield pairs
        return
    names, values = [], []
    place = 0
    while found := re.compile(r"\s*" + _ELEMENTS[style], re.DOTALL).match(text, place):
        parts = found.groupdict()
        names.append(parts["name"].replace("&quot;", '"').replace("&amp;", "&"))
        values.append(list(_values(style, parts.get("type"), parts["value"])))
        place = found.end()
    if text[place:].strip(" \t\r\n"):
        raise Unreadable(text)
    for chosen in product(*values):
        yield list(zip(names, chosen, strict=True))


def _values(style: str, label: str | None, text: str) -> Iterator[Any]:
    if any(one in text for one in NEVER[style]):
        raise Unreadable(text)
    if label in (None, "true", "string"):
        line = style == "qwen_xml"
        yield text[
            line and text.startswith("\n") : len(text) - (line and len(text) > 1 and text.endswith("\n"))
        ]
    if label in (None, "true", "string") and label is not None:
        return
    try:
        value = json.loads(text)
    except ValueError:
        return
    kind = _JSON_TYPE[type(value)]
    if kind != "string" and label in (None, "false", kind):
        yield value


def _cohere(text: str, place: int, *, named: bool) -> tuple[list[tuple[str, Any]], int]:
    """The elements from here on, and where they end."""
    opened = re.compile(r"\s*<cofl:value " + (r'name="([^"]+)" ' if named else "()") + r'type="(\w+)">')
    pairs: list[tuple[str, Any]] = []
    while found := opened.match(text, place):
        name, label = found.groups()
        place = found.end()
        value: Any
        if label in ("dict", "list"):
            inner, place = _cohere(text, place, named=label == "dict")
            value = dict(inner) if label == "dict" else [one for _, one in inner]
            if label == "dict" and len(value) != len(inner):
                raise Unreadable(text)
        else:
            end = text.find("</cofl:value>", place)
            if end < 0 or any(one in text[place:end] for one in NEVER["cohere_xml"]):
                raise Unreadable(text)
            value, place = text[place:end], end
            if label == "json":
                try:
                    value = json.loads(value)
                except ValueError:
                    raise Unreadable(text) from None
                if isinstance(value, (str, list, dict)):
                    raise Unreadable(text)
            elif label != "raw":
                raise Unreadable(text)
        if not text.startswith("</cofl:value>", place):
            raise Unreadable(text)
        place += len("</cofl:value>")
        pairs.append((name, value))
    blank = re.compile(r"\s*").match(text, place)
    return pairs, blank.end() if blank else place
