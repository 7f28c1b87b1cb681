"""Check that the texts of a type can be validated.

Pydantic describes some types as JSON that it cannot read from JSON.

Why: a type that is accepted must give values. A type that cannot is refused, by name, where it is declared.

What: rules for single parts, which `schemas` applies while it describes a type, and `check_readable`, which
validates the shortest text of a whole type.

Cost: `check_readable` compiles the constraint for a vocabulary of bytes.
"""

from __future__ import annotations

import enum
import functools
import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from pydantic import ValidationError
from pydantic.errors import PydanticUserError
from pydantic_core import SchemaValidator, to_jsonable_python

from structgen.constraints.base import Constraint
from structgen.errors import StructgenError
from structgen.matcher import Matcher
from structgen.vocabulary import Vocabulary

__all__ = [
    "Unreadable",
    "check_hashable",
    "check_readable",
    "check_values",
    "other_names",
    "with_plain_alias",
]


class Unreadable(PydanticUserError):
    """A part of a type has texts that its validation rejects."""

    def __init__(
        self, reason: str, hint: str = "Use a type that JSON can state, and convert the value afterwards."
    ) -> None:
        super().__init__(reason, code=None)
        self.hint = hint


def check_values(schema: Any, values: Iterable[Any]) -> None:
    """Raise `Unreadable` for the first of a type's finitely many values that cannot be read from its JSON text."""
    validator = SchemaValidator(schema)
    for value in values:
        plain = getattr(value, "value", value)
        try:
            validator.validate_json(json.dumps(to_jsonable_python(plain)))
        except (ValidationError, ValueError) as error:
            kind = type(value).__name__
            raise Unreadable(
                f"its value {value!r:.60} cannot be read from JSON",
                f"Derive the enum from str: class {kind}(str, enum.Enum)."
                if isinstance(value, enum.Enum)
                else "Literals are strings, integers, booleans or None; values of enums may be any JSON value.",
            ) from error


def with_plain_alias(name: str, field: Any) -> Any:
    """Return the field with one plain key as its alias, the first of several; a path into other values is refused."""
    alias = field.get("validation_alias")
    if alias is None or isinstance(alias, str):
        return field
    paths = alias if alias and isinstance(alias[0], list) else [alias]
    plain = next((path[0] for path in paths if len(path) == 1 and isinstance(path[0], str)), None)
    if plain is None:
        raise Unreadable(
            f"its field {name!r} is read from a path inside other values (AliasPath)",
            "Add a plain name: validation_alias=AliasChoices('name', AliasPath(...)).",
        )
    return {**field, "validation_alias": plain}


def other_names(fields: dict[str, Any], declared: Iterable[str]) -> list[str]:
    """Return further names of fields that the schema does not declare."""
    names = []
    for name, field in fields.items():
        alias = field.get("validation_alias")
        paths = [alias] if isinstance(alias, str) else alias or []
        names += [name, *(path if isinstance(path, str) else path[0] for path in paths)]
    return [name for name in dict.fromkeys(names) if isinstance(name, str) and name not in declared]


def check_hashable(items: Any) -> None:
    """Raise `Unreadable` if the items of a set have no hash."""
    while isinstance(items, dict) and items.get("type") in ("default", "nullable"):
        items = items["schema"]
    kind = items.get("type") if isinstance(items, dict) else None
    has_none = kind in ("list", "dict", "set", "typed-dict", "deque", "counter", "ordered-dict")
    if kind in ("model", "dataclass"):
        has_none = getattr(items["cls"], "__hash__", None) is None
    if has_none:
        raise Unreadable(
            "the items of a set need a hash",
            "Use a list, tuples instead of lists, or ConfigDict(frozen=True) of the model.",
        )


def check_readable(core: Any, constraint: Constraint, parse: Callable[[str], Any]) -> None:
    """Raise `Unreadable` if the shortest text of a type is rejected, and no user code can be the reason."""
    for node in _nodes(core):
        if _imports(node):
            raise Unreadable(
                "validation would import any module that the text names", "Use a Literal of names."
            )
    if any(_runs_code(node) for node in _nodes(core)):
        return
    try:
        shortest = Matcher(constraint, Vocabulary.of_bytes()).witness()
    except StructgenError:  # there is no text, or a limit is exceeded, which generation reports
        return
    if shortest is None:
        return
    text = bytes(shortest).decode()
    try:
        parse(text)
    except ValidationError as error:
        first = error.errors()[0]
        location = ".".join(map(str, first["loc"]))
        raise Unreadable(
            f"validation rejects {text[:60]!r}{f' at {location}' * bool(location)}: {first['msg']}"
        ) from error


def _nodes(core: Any) -> Iterator[dict[str, Any]]:
    """Yield all core schemas inside one, each once."""
    waiting, seen = [core], set()
    while waiting:
        part = waiting.pop()
        if isinstance(part, (list, tuple)):
            waiting += part
        elif isinstance(part, dict) and id(part) not in seen:
            seen.add(id(part))
            yield part
            waiting += [value for key, value in part.items() if key not in ("serialization", "metadata")]


def _imports(node: dict[str, Any]) -> bool:
    return str(node.get("type", "")).startswith("function-") and _function(node)[1] == "import_string"


def _runs_code(node: dict[str, Any]) -> bool:
    """Return whether validation calls functions, which may be user code, or depends on clocks and files."""
    kind = str(node.get("type", ""))
    if (
        "now_op" in node
        or node.get("post_init")
        or node.get("custom_init")
        or callable(node.get("discriminator"))
    ):
        return True
    return kind.startswith("function-")


def _function(node: dict[str, Any]) -> tuple[str, str]:
    function: Any = node["function"]["function"]
    while isinstance(function, functools.partial):
        function = function.func
    return str(getattr(function, "__module__", "")).partition(".")[0], str(getattr(function, "__name__", ""))
