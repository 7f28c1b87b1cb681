r"""Sets of characters by Unicode property: the meaning of ``\w``, ``\d``, ``\s`` and ``\p{...}``.

Why: Python's classes are exactly those of the running interpreter's `unicodedata`. Scripts and the other binary
properties come from a table of our own, because `unicodedata` does not have them.

Invariant: results are normalised ranges (see `expressions`), computed once and shared.

Cost: the first Unicode ``\w`` or category visits the characters outside large uniform blocks, which takes about 15
ms; nothing is computed on import.

Source: Unicode Standard Annex 44; ECMA-262, table "Binary Unicode property aliases".
"""

from __future__ import annotations

import unicodedata
import zlib
from base64 import b85decode
from collections.abc import Callable
from functools import cache

from structgen.constraints.expressions import Ranges, negate_ranges, normalise_ranges

__all__ = ["ASCII_DIGIT", "ASCII_SPACE", "ASCII_WORD", "ECMA_SPACE", "property_ranges", "python_class"]

ASCII_DIGIT: Ranges = ((0x30, 0x39),)
ASCII_WORD: Ranges = ((0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A))
ASCII_SPACE: Ranges = ((0x09, 0x0D), (0x20, 0x20))
ECMA_SPACE: Ranges = normalise_ranges(
    [(9, 13), (0x20, 0x20), (0xA0, 0xA0), (0x1680, 0x1680), (0x2000, 0x200A), (0x2028, 0x2029)]
    + [(0x202F, 0x202F), (0x205F, 0x205F), (0x3000, 0x3000), (0xFEFF, 0xFEFF)]
)

# Blocks whose characters share every property that this module uses of `str` and `unicodedata` (ideographs,
# Hangul, private use, planes without characters); a test checks them.
_UNIFORM = (
    (0x3400, 0x4DB0), (0x4E00, 0x9FE0), (0xAC00, 0xD7A3), (0xE000, 0xF8FF), (0x17000, 0x187E0),
    (0x20000, 0x2A6D0), (0x2A700, 0x2B730), (0x2B740, 0x2B810), (0x2B820, 0x2CEA0), (0x2CEB0, 0x2EBE0),
    (0x30000, 0x31340), (0x40000, 0xE0000), (0xE01F0, 0xEFFFF), (0xF0000, 0xFFFFD), (0x100000, 0x10FFFD),
)  # fmt: skip


def _segments() -> list[tuple[int, int, bool]]:
    """Return the scalar values in order, as (low, high, uniform)."""
    result: list[tuple[int, int, bool]] = []
    position = 0
    for low, high in (*_UNIFORM, (0x110000, 0)):
        if position < low:
            result.append((position, low - 1, False))
        if high:
            result.append((low, high, True))
            position = high + 1
    return result


def _matching(predicate: Callable[[str], bool]) -> Ranges:
    ranges: list[tuple[int, int]] = []
    for low, high, uniform in _segments():
        if uniform:
            if predicate(chr(low)):
                ranges.append((low, high))
            continue
        flags = bytes(map(predicate, map(chr, range(low, high + 1))))
        start = flags.find(1)
        while start >= 0:
            stop = flags.find(0, start)
            stop = len(flags) if stop < 0 else stop
            ranges.append((low + start, low + stop - 1))
            start = flags.find(1, stop)
    return normalise_ranges(ranges)


@cache
def python_class(letter: str) -> Ranges:
    r"""Return what Python's ``\w``, ``\d`` or ``\s`` matches in a str pattern without ``re.ASCII``."""
    if letter == "w":
        return normalise_ranges([*_matching(str.isalnum), (0x5F, 0x5F)])
    if letter == "d":
        return _matching(str.isdecimal)
    # The characters of str.isspace, which is stable across Unicode versions; a test compares.
    return normalise_ranges([*ECMA_SPACE[:-1], (0x1C, 0x1F), (0x85, 0x85)])


@cache
def _categories() -> dict[str, Ranges]:
    scripts: dict[str, list[tuple[int, int]]] = {}
    for low, high, uniform in _segments():
        if uniform:
            scripts.setdefault(unicodedata.category(chr(low)), []).append((low, high))
            continue
        start, current = low, unicodedata.category(chr(low))
        for point, category in enumerate(map(unicodedata.category, map(chr, range(low, high + 1))), low):
            if category != current:
                scripts.setdefault(current, []).append((start, point - 1))
                start, current = point, category
        scripts.setdefault(current, []).append((start, high))
    return {category: normalise_ranges(ranges) for category, ranges in scripts.items()}


_CATEGORY_NAMES = """
C other; Cc control cntrl; Cf format; Cn unassigned; Co privateuse; Cs surrogate;
L letter; LC casedletter; Ll lowercaseletter; Lm modifierletter; Lo otherletter; Lt titlecaseletter;
Lu uppercaseletter; M mark combiningmark; Mc spacingmark; Me enclosingmark; Mn nonspacingmark;
N number; Nd decimalnumber digit; Nl letternumber; No othernumber;
P punctuation punct; Pc connectorpunctuation; Pd dashpunctuation; Pe closepunctuation;
Pf finalpunctuation; Pi initialpunctuation; Po otherpunctuation; Ps openpunctuation;
S symbol; Sc currencysymbol; Sk modifiersymbol; Sm mathsymbol; So othersymbol;
Z separator; Zl lineseparator; Zp paragraphseparator; Zs spaceseparator"""


@cache
def _category_names() -> dict[str, str]:
    names: dict[str, str] = {}
    for entry in _CATEGORY_NAMES.split(";"):
        short, *long = entry.split()
        for name in (short, *long):
            names[name.upper()] = short
    return names


@cache
def _category(name: str) -> Ranges | None:
    short = _category_names().get(name)
    if short is None:
        return None
    categories = ("Lu", "Ll", "Lt") if short == "LC" else (short,)
    return normalise_ranges(
        piece
        for category, ranges in _categories().items()
        if category in categories or category[0] in categories
        for piece in ranges
    )


@cache
def _table() -> dict[str, tuple[int, int]]:
    """Return where each property of the table starts and ends."""
    from .unicode_data import INDEX  # large, and few patterns need it

    spans: dict[str, tuple[int, int]] = {}
    position = 0
    for entry in INDEX.split():
        names, length = entry.rsplit(":", 1)
        for name in names.split("/"):
            spans[name] = (position, position + int(length))
        position += int(length)
    return spans


@cache
def _table_data() -> bytes:
    from .unicode_data import DATA  # large, and few patterns need it

    return zlib.decompress(b85decode("".join(DATA.split())))


@cache
def _table_ranges(name: str) -> Ranges | None:
    span = _table().get(name)
    if span is None:
        return None
    numbers: list[int] = []
    number = shift = 0
    for byte in _table_data()[span[0] : span[1]]:
        number |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            numbers.append(number)
            number = shift = 0
    ranges: list[tuple[int, int]] = []
    position = 0
    for gap, length in zip(numbers[::2], numbers[1::2], strict=True):
        ranges.append((position + gap, position + gap + length))
        position += gap + length + 1
    return normalise_ranges(ranges)


def property_ranges(expression: str) -> Ranges | None:
    r"""Return the set that ``\p{expression}`` names, or None if the name is unknown.

    Names are compared without case, spaces, hyphens and underscores. A bare name is a general category, a binary
    property or (as in Perl) a script.
    """
    name, equals, value = expression.partition("=")
    name, value = _loose(name), _loose(value)
    if equals:
        if name in ("GENERALCATEGORY", "GC"):
            return _category(value)
        if name in ("SCRIPT", "SC"):
            return _table_ranges("SC=" + value)
        if name in ("SCRIPTEXTENSIONS", "SCX"):
            return _table_ranges("SCX=" + value) or _table_ranges("SC=" + value)
        return None
    if name == "ANY":
        return negate_ranges(())
    if name == "ASCII":
        return ((0, 0x7F),)
    if name == "ASSIGNED":
        unassigned = _category("CN")
        return None if unassigned is None else negate_ranges(unassigned)
    ranges = _category(name)
    if ranges is None:
        ranges = _table_ranges(name)
    return _table_ranges("SC=" + name) if ranges is None else ranges


def _loose(name: str) -> str:
    return name.replace("_", "").replace("-", "").replace(" ", "").upper()
