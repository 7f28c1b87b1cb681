"""The metadata of a GGUF file: its key-value pairs, without the tensors.

Why: the file's own package creates an object per array element, which takes seconds for a vocabulary. This module
takes a tenth of a second, and needs no package.

Invariant: a length that points outside the file is an error, not an allocation.

Source: the GGUF specification, versions 2 and 3, little-endian.
"""

from __future__ import annotations

import mmap
import struct
from pathlib import Path
from typing import Any

import numpy as np

from structgen.errors import VocabularyError

__all__ = ["read_metadata"]

_MAGIC = b"GGUF"
_STRING, _ARRAY = 8, 9
# Value types by number: little-endian numpy scalars.
_SCALARS = {
    0: "u1",
    1: "i1",
    2: "<u2",
    3: "<i2",
    4: "<u4",
    5: "<i4",
    6: "<f4",
    7: "?",
    10: "<u8",
    11: "<i8",
    12: "<f8",
}
_LENGTH = struct.Struct("<Q")
_HEADER = struct.Struct("<4sIQQ")
_TYPE = struct.Struct("<I")


def read_metadata(path: Path) -> dict[str, Any]:
    """Return the values by key: numbers, booleans, bytes (texts that are not decoded), numpy arrays, lists of bytes.

    Raises:
        VocabularyError: The file is not a valid GGUF file.
    """
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _Reader(data).pairs()
    except (ValueError, IndexError, struct.error) as error:
        raise VocabularyError(f"{path} is not a valid GGUF file: {error}") from error


class _Reader:
    def __init__(self, data: mmap.mmap) -> None:
        self._data = data
        self._at = 0

    def pairs(self) -> dict[str, Any]:
        magic, version, _tensors, count = self._unpack(_HEADER)
        if magic != _MAGIC or version not in (2, 3):
            raise ValueError("it does not start like a file of version 2 or 3")
        pairs = {}
        for _ in range(count):
            key = self._string().decode("utf-8", "replace")
            pairs[key] = self._value(self._unpack(_TYPE)[0])
        return pairs

    def _unpack(self, form: struct.Struct) -> tuple[Any, ...]:
        values = form.unpack_from(self._data, self._at)
        self._at += form.size
        return values

    def _take(self, length: int) -> bytes:
        start, self._at = self._at, self._at + length
        if self._at > len(self._data):
            raise ValueError(f"a value at byte {start} is longer than the file")
        return self._data[start : self._at]

    def _string(self) -> bytes:
        return self._take(self._unpack(_LENGTH)[0])

    def _value(self, kind: int) -> Any:
        if kind == _STRING:
            return self._string()
        if kind == _ARRAY:
            return self._array()
        if kind not in _SCALARS:
            raise ValueError(f"unknown value type {kind} at byte {self._at}")
        dtype = np.dtype(_SCALARS[kind])
        return np.frombuffer(self._take(dtype.itemsize), dtype)[0].item()

    def _array(self) -> Any:
        kind, count = self._unpack(_TYPE)[0], self._unpack(_LENGTH)[0]
        if kind == _STRING:
            return [self._string() for _ in range(count)]
        if kind not in _SCALARS:
            raise ValueError(f"unknown element type {kind} at byte {self._at}")
        dtype = np.dtype(_SCALARS[kind])
        return np.frombuffer(self._take(dtype.itemsize * count), dtype)
