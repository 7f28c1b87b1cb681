"""Convert results of tools to JSON, so that what the model is shown does not depend on how Python prints a value.

What: models, dataclasses, named tuples and mappings are objects; sets, ranges and other collections are lists, sets in
sorted order; dates, other kinds of numbers, paths and the like are written as pydantic writes them. Numbers that JSON
lacks (NaN), and values that nothing else converts, become texts.
Invariant: `shown` never raises an `Exception`, and its text is JSON; equal values give equal texts in every process.
Cost: linear in the value.
"""

from __future__ import annotations

import base64
import dataclasses
import enum
import json
import math
from collections.abc import Collection, Mapping, Set
from typing import Any

from pydantic import BaseModel
from pydantic_core import to_jsonable_python

__all__ = ["shown"]

_DEEPEST = 60
"""Levels of nesting; deeper values become texts."""
_LONGEST_REPR = 400
_MOST_BITS = 4_096
"""The most bits of an integer that is written in decimal digits."""


def shown(value: Any) -> str:
    """Return a result as text: a text unchanged, any other value as JSON."""
    if isinstance(value, str):
        return _text(value)
    try:
        return json.dumps(_plain(value, ()), ensure_ascii=False, allow_nan=False)
    except Exception:  # noqa: BLE001 — code of the value's class may raise anything
        return json.dumps(_described(value), ensure_ascii=False)


def _plain(value: Any, above: tuple[int, ...]) -> Any:
    """Return the value in JSON's own types."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, enum.Enum):
        return _plain(value.value, above)
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, int):
        return int(value) if value.bit_length() <= _MOST_BITS else hex(value)
    if isinstance(value, float):
        if math.isfinite(value):
            return float(value)
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, (bytes, bytearray, memoryview)):
        return _of_bytes(bytes(value))
    if id(value) in above:
        return "(the same value again)"
    if len(above) >= _DEEPEST:
        return _described(value)
    return _of_container(value, (*above, id(value)))


def _of_container(value: Any, above: tuple[int, ...]) -> Any:
    if isinstance(value, BaseModel):
        return _plain(_fields_of(value), above)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: _plain(getattr(value, field.name, None), above) for field in dataclasses.fields(value)
        }
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return _plain(value._asdict(), above)
    if isinstance(value, Mapping):
        return {_key(key): _plain(item, above) for key, item in value.items()}
    if isinstance(value, Collection) and not isinstance(value, type):
        listed = [_plain(item, above) for item in value]
        return (
            sorted(listed, key=lambda item: json.dumps(item, sort_keys=True))
            if isinstance(value, Set)
            else listed
        )
    return _of_other(value, above)


def _fields_of(model: BaseModel) -> Any:
    """Return the output of a model's serializers, or its fields if they fail."""
    try:
        return model.model_dump(mode="json", by_alias=True, warnings=False)
    except Exception:  # noqa: BLE001 — serializers are the user's code
        return {
            **{name: getattr(model, name, None) for name in type(model).model_fields},
            **(model.model_extra or {}),
        }


def _of_other(value: Any, above: tuple[int, ...]) -> Any:
    if isinstance(value, BaseException):
        return f"{type(value).__name__}: {value}"
    try:
        return _plain(to_jsonable_python(value), above)
    except Exception:  # noqa: BLE001 — code of the value's class may raise anything
        pass
    tolist = getattr(value, "tolist", None)  # arrays and numbers of numpy, torch, pandas
    if callable(tolist) and not isinstance(value, type):
        return _plain(tolist(), above)
    return _described(value)


def _key(key: Any) -> str:
    """Return a key of an object; a key that is not text is written as JSON."""
    plain = _plain(key, ())
    return plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)


def _of_bytes(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return base64.b64encode(data).decode()


def _text(value: str) -> str:
    """Return the text without lone surrogates, which tokenizers do not accept."""
    return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _described(value: Any) -> str:
    try:
        return _text(repr(value)[:_LONGEST_REPR])
    except Exception:  # noqa: BLE001 — code of the value's class may raise anything
        return f"a {type(value).__name__}"
