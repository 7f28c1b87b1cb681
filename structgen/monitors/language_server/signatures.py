"""Signatures out of their labels: parameters, how they may be given, and which of them have a default.

Why: the protocol gives a signature as a text for people, with ranges for its parameters; how an argument may be given
stands only in that text, in the language's own syntax. Servers also differ in what they call a parameter: pyright
counts the marks ``/`` and ``*``, ty does not; so the active one is found by its place in the label.
Invariant: a label that cannot be read gives an open signature (anything may be given), never too few parameters.
Loose: zuban's labels lose the marks, so what may only be given by name, or only by place, is "positional" there.
Cost: one pass over each label.
Spec: Language Server Protocol 3.17, "Signature Help Request"; the Python reference, 8.7 "Function definitions".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from structgen.monitors.language_server.analysis import Parameter, ParameterKind, Signature, Signatures

__all__ = ["Dialect", "dialect_of", "read_label", "read_signatures"]

Dialect = Literal["python", "typescript", "other"]

_PAIRS = {"(": ")", "[": "]", "{": "}"}
_NAME = re.compile(r"\s*([^\W\d][\w$]*|\$[\w$]*)")


@dataclass(frozen=True, slots=True)
class _Piece:
    """The text of a parameter and where it stands in the label."""

    text: str
    start: int
    end: int


def dialect_of(language: str) -> Dialect:
    """Return how the labels of a language (the protocol's name for it) are written."""
    if language == "python":
        return "python"
    return "typescript" if language.startswith(("typescript", "javascript")) else "other"


def read_label(label: str, dialect: Dialect) -> Signature:
    """Return the signature that a label describes; open if it is not understood or says so (``...``)."""
    return _read(label, dialect)[0]


def read_signatures(result: Any, dialect: Dialect) -> Signatures | None:
    """Return what a server's answer means; None if it knows nothing of the call.

    Raises:
        TypeError, ValueError, KeyError, AttributeError: the answer breaks the protocol.
    """
    if result is None or not result["signatures"]:
        return None
    items = [_read_item(item, dialect, result.get("activeParameter")) for item in result["signatures"]]
    if all(item.is_open for item in items):
        return None
    active = result.get("activeSignature")
    return Signatures(tuple(items), active if isinstance(active, int) and 0 <= active < len(items) else 0)


def _read_item(item: dict[str, Any], dialect: Dialect, active: object) -> Signature:
    label = item["label"]
    if not isinstance(label, str):
        raise TypeError("a label is no string")
    given = item.get("parameters")
    if dialect == "other":
        signature, pieces = _plain(label, given), list[_Piece]()
    elif given is None and label.startswith("()"):
        return Signature(label, is_open=True)  # zuban, of what it does not know
    else:
        signature, pieces = _read(label, dialect)
    own = item.get("activeParameter")
    index = own if isinstance(own, int) else active
    return Signature(
        label, signature.parameters, _active(index, label, given or [], pieces, signature), signature.is_open
    )


def _plain(label: str, given: Any) -> Signature:
    """Return a signature in a language that has no reader: what the server lists, each to be given by place."""
    if given is None:
        return Signature(label, is_open=True)
    texts = [
        label[slice(*parameter["label"])] if isinstance(parameter["label"], list) else parameter["label"]
        for parameter in given
    ]
    return Signature(label, tuple(Parameter(text.strip()) for text in texts))


def _active(
    index: object, label: str, given: list[Any], pieces: list[_Piece], signature: Signature
) -> int | None:
    """Return which of the parameters is meant by an index in the server's list of them."""
    if not isinstance(index, int) or not 0 <= index < max(len(given), len(signature.parameters)):
        return None
    if index >= len(given) or not pieces:
        return index if index < len(signature.parameters) else None
    mark = given[index]["label"]
    if isinstance(mark, list):
        start = mark[0]
    else:
        nth = sum(parameter["label"] == mark for parameter in given[:index])
        start = -1
        for _ in range(nth + 1):
            start = label.find(mark, start + 1)
    for number, piece in enumerate(pieces):
        if piece.start <= start < piece.end or piece.start > start >= 0:
            return number
    return index if start < 0 and index < len(signature.parameters) else None


def _read(label: str, dialect: Dialect) -> tuple[Signature, list[_Piece]]:
    opening = _opening(label)
    split = None if opening is None else _split(label, opening)
    if split is None:
        return Signature(label, is_open=True), []
    read = _python if dialect == "python" else _typescript
    parameters = read([piece.text for piece in split])
    if parameters is None:
        return Signature(label, is_open=True), []
    pieces = [piece for piece, parameter in zip(split, parameters, strict=True) if parameter is not None]
    return Signature(label, tuple(parameter for parameter in parameters if parameter is not None)), pieces


def _opening(label: str) -> int | None:
    """Return where the parameters open: the first parenthesis that is not in type parameters."""
    depth = 0
    for index, character in enumerate(label):
        if character == "(" and depth == 0:
            return index
        if character in "<[":
            depth += 1
        elif character in ">]" and label[index - 1 : index] not in ("=", "-"):
            depth -= 1
    return None


def _split(label: str, opening: int) -> list[_Piece] | None:
    """Return the texts between the commas at the top of the parentheses that open here; None if they do not close."""
    pieces = []
    start = opening + 1
    for index, character in _top_level(label, start):
        if character in ",)":
            if label[start:index].strip():
                pieces.append(_Piece(label[start:index].strip(), start, index))
            start = index + 1
            if character == ")":
                return pieces
    return None


def _top_level(label: str, start: int) -> Iterator[tuple[int, str]]:
    """Yield characters outside of brackets and strings, up to the first bracket that closes an earlier one."""
    stack: list[str] = []
    quote = ""
    index = start
    while index < len(label):
        character = label[index]
        if quote:
            index += character == "\\"
            quote = "" if character == quote else quote
        elif character in "'\"`":
            quote = character
        elif character in _PAIRS:
            stack.append(_PAIRS[character])
        elif stack and character == stack[-1]:
            stack.pop()
        elif character == "<" and label[index + 1 : index + 2] not in (" ", "="):
            stack.append(">")
        elif not stack:
            yield index, character
        index += 1


def _outside(text: str, mark: str) -> int:
    """Return where a character first stands outside of brackets and strings; -1 if nowhere."""
    return next((index for index, character in _top_level(text, 0) if character == mark), -1)


def _python(texts: list[str]) -> list[Parameter | None] | None:
    """Return one for each text, None for the marks; None altogether where the parameters are not known."""
    parameters: list[Parameter | None] = []
    kind: ParameterKind = "positional"
    for text in texts:
        if text == "...":
            return None
        if text == "/":
            parameters = [
                parameter
                and Parameter(parameter.name, "positional-only", parameter.has_default, parameter.annotation)
                for parameter in parameters
            ]
            parameters.append(None)
            continue
        if text == "*":
            kind = "keyword"
            parameters.append(None)
            continue
        stars = len(text) - len(text.lstrip("*"))
        name = _NAME.match(text, stars)
        if name is None or stars > 2:
            return None
        equals = _outside(text, "=")
        rest = text[name.end() : equals if equals >= 0 else None].strip()
        kinds: tuple[ParameterKind, ...] = (kind, "var-positional", "var-keyword")
        parameters.append(Parameter(name[1], kinds[stars], equals >= 0, rest.removeprefix(":").strip()))
        kind = "keyword" if stars else kind
    return parameters


def _typescript(texts: list[str]) -> list[Parameter | None] | None:
    parameters: list[Parameter | None] = []
    for text in texts:
        colon = _outside(text, ":")
        head, annotation = (text, "") if colon < 0 else (text[:colon], text[colon + 1 :].strip())
        is_rest = head.startswith("...")
        head = head.removeprefix("...").strip()
        is_optional = head.endswith("?")
        name = head.rstrip("?").strip()
        parameters.append(
            Parameter(
                name, "var-positional" if is_rest else "positional", is_optional and not is_rest, annotation
            )
        )
    return parameters
