"""Writes structgen/_core/regex/host_name_data.cpp: the kinds of characters of internationalised host names.

Why: the rules of IDNA 2008 need some 130 classes of characters. Characters that are in the same classes are of one
kind, and there are a few hundred kinds, so the core reads names kind by kind.
Run: python -m tools.make_host_name_data
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.oracles.idna_data import TABLES
from tests.oracles.international_names import LENGTHS, _orders, _ranges

TARGET = Path(__file__).parent.parent / "structgen/_core/regex/host_name_data.cpp"
SPECIAL = {
    "LowerL": "l",
    "MiddleDot": "·",
    "Keraia": "\u0375",
    "Geresh": "\u05f3\u05f4",
    "KatakanaDot": "・",
    "Joiner": "\u200d",
    "NonJoiner": "\u200c",
    "Hyphen": "-",
    "FullStop": ".",
    "OtherStop": "。．｡",
    "Capital": "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
}
TRAITS = {
    "Ascii": [(0, 0x7F)],
    "Mark": _ranges("MARK"),
    "Virama": _ranges("VIRAMA"),
    "JoinsBefore": _ranges("JOINING_L", "JOINING_D"),
    "JoinsAfter": _ranges("JOINING_R", "JOINING_D"),
    "Transparent": _ranges("JOINING_T"),
    "Greek": _ranges("Greek"),
    "Hebrew": _ranges("Hebrew"),
    "Japanese": _ranges("Hiragana", "Katakana", "Han"),
    "ArabicDigit": [(0x660, 0x669)],
    "ExtendedDigit": [(0x6F0, 0x6F9)],
}
DIRECTIONS = {
    "L": _ranges("BIDI_L"),
    "R": _ranges("BIDI_R", "BIDI_AL"),
    "AN": _ranges("BIDI_AN"),
    "EN": _ranges("BIDI_EN"),
    "NSM": _ranges("BIDI_NSM"),
}
ASCII_OF_LABELS = [(0x2D, 0x2D), (0x30, 0x39), (0x61, 0x7A)]
"""Of international ones: with each of `LENGTHS`."""
SECONDS = sorted(int(name.removeprefix("BEFORE_"), 16) for name in TABLES if name.startswith("BEFORE_"))


def members(ranges: Iterable[tuple[int, int]]) -> set[int]:
    return {point for low, high in ranges for point in range(low, high + 1)}


def kinds() -> tuple[dict[int, Any], list[int]]:
    """Each character's scripts, traits, special role, base, combining class, place in `SECONDS` and direction."""
    special = {ord(c): name for name, listed in SPECIAL.items() for c in listed}
    points = members(_ranges("PVALID")) | set(special) | members([(0x660, 0x669), (0x6F0, 0x6F9)])
    traits = {name: members(ranges) for name, ranges in TRAITS.items()}
    directions = {point: name for name, ranges in DIRECTIONS.items() for point in members(ranges)}
    orders = {point: order for order, ranges in _orders().items() for point in members(ranges)}
    within = members(ASCII_OF_LABELS)
    before: dict[int, int] = {}
    for bit, second in enumerate(SECONDS, 1):
        for point in members(_ranges(f"BEFORE_{second:X}")):
            before[point] = before.get(point, 0) | 1 << bit
    bases = [0, *sorted(set(before.values()))]
    kind_of_point: dict[int, Any] = {}
    for point in sorted(points):
        scripts = sum(
            1 << bit
            for bit, ((low, high), _) in enumerate(LENGTHS)
            if point in within or low <= point <= high
        )
        mine = tuple(name for name in TRAITS if point in traits[name])
        # subtle: the core relies on it for names that are written from right to left.
        assert "Japanese" not in mine or directions[point] == "L", hex(point)
        second = SECONDS.index(point) + 1 if point in SECONDS else 0
        base = bases.index(before.get(point, 0))
        assert not (base and orders.get(point)), hex(point)
        kind_of_point[point] = (
            scripts,
            mine,
            special.get(point, "None"),
            base,
            orders.get(point, 0),
            second,
            directions.get(point, "Other"),
        )
    return kind_of_point, bases


def _wrapped(items: Iterable[str]) -> list[str]:
    lines = [" "]
    for item in items:
        if len(lines[-1]) + len(item) > 122:
            lines.append(" ")
        lines[-1] += f" {item},"
    return lines


def main() -> None:
    by_point, bases = kinds()
    numbers: dict[Any, int] = {}
    ranges: list[list[int]] = []
    for point, kind in by_point.items():
        number = numbers.setdefault(kind, len(numbers) + 1)
        if ranges and ranges[-1][1] == point - 1 and ranges[-1][2] == number:
            ranges[-1][1] = point
        else:
            ranges.append([point, point, number])
    rows = []
    for scripts, mine, special, base, order, second, direction in numbers:
        traits = sum(1 << list(TRAITS).index(name) for name in mine)
        role = ["None", *SPECIAL].index(special)
        direction_number = ["Other", *DIRECTIONS].index(direction)
        rows.append(f"{{{scripts:#x}, {traits:#x}, {role}, {base}, {order}, {second}, {direction_number}}}")
    lines = [
        "// Kinds of characters of internationalised host names; written by tools/make_host_name_data.py.",
        '#include "regex/host_name_data.h"',
        "",
        "// clang-format off: tables",
        "namespace structgen {",
        "",
        "// Scripts, traits, role, base, combining class, second, direction.",
        "static const HostKind KINDS[] = {",
        "  {},",
        *_wrapped(rows),
        "};",
        "static const HostRange RANGES[] = {",
        *_wrapped(f"{{{low:#x}, {high:#x}, {number}}}" for low, high, number in ranges),
        "};",
        "static const uint64_t BASES[] = {",
        *_wrapped(f"{mask:#x}" for mask in bases),
        "};",
        "static const uint8_t LENGTHS[] = {",
        *_wrapped(str(most) for _, most in LENGTHS),
        "};",
        "",
        "const std::span<const HostKind> HOST_KINDS{KINDS};",
        "const std::span<const HostRange> HOST_RANGES{RANGES};",
        "const std::span<const uint64_t> HOST_BASES{BASES};",
        "const std::span<const uint8_t> HOST_LENGTHS{LENGTHS};",
        "",
        "}  // namespace structgen",
    ]
    TARGET.write_text("\n".join(lines) + "\n", "utf-8")


if __name__ == "__main__":
    main()
