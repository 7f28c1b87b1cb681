"""Tables of characters compared with the interpreter and with the `regex` package."""

from __future__ import annotations

import re
import unicodedata

import pytest
import regex as other

from structgen.constraints.expressions import ALL_RANGES, Ranges, normalise_ranges
from structgen.constraints.regex import casing, unicode
from structgen.constraints.regex.unicode_data import INDEX

EVERYTHING = "".join(chr(point) for low, high in ALL_RANGES for point in range(low, high + 1))
CASED = "".join(chr(point) for low, high in casing.CASED_BLOCKS for point in range(low, high + 1))


def ranges(pattern: str, engine: object = re) -> Ranges:
    found = engine.finditer(pattern + "+", EVERYTHING)  # type: ignore[attr-defined]
    return normalise_ranges((ord(match[0][0]), ord(match[0][-1])) for match in found)


@pytest.mark.parametrize("letter", ["d", "w", "s"])
def test_classes_are_those_of_the_interpreter(letter: str) -> None:
    assert unicode.python_class(letter) == ranges("\\" + letter)


def test_categories_are_those_of_unicodedata() -> None:
    points: dict[str, list[tuple[int, int]]] = {}
    for character in EVERYTHING:
        points.setdefault(unicodedata.category(character), []).append((ord(character), ord(character)))
    for category, expected in points.items():
        assert unicode.property_ranges(category) == normalise_ranges(expected)


@pytest.mark.parametrize(
    "name", ["Script=Greek", "sc=Latn", "scx=Deva", "Han", "Alphabetic", "Emoji", "XID_Start", "Lower"]
)
def test_properties_are_those_of_the_table(name: str) -> None:
    assert unicode.property_ranges(name) == ranges(rf"\p{{{name}}}", other)


@pytest.mark.parametrize(
    ("name", "same"),
    [
        ("Letter", "L"),
        ("gc=Lu", "Uppercase_Letter"),
        ("script=grek", "sc=Greek"),
        ("scx=Thai", "scx=thai"),
        ("Greek", "sc=Greek"),
    ],
)
def test_names_have_aliases(name: str, same: str) -> None:
    assert unicode.property_ranges(name) == unicode.property_ranges(same) is not None


def test_special_names() -> None:
    assert unicode.property_ranges("Any") == ALL_RANGES
    assert unicode.property_ranges("ASCII") == ((0, 127),)
    assigned = unicode.property_ranges("Assigned")
    unassigned = unicode.property_ranges("Cn")
    assert assigned is not None
    assert unassigned is not None
    assert normalise_ranges([*assigned, *unassigned]) == ALL_RANGES
    assert unicode.property_ranges("Nonsense") is None
    assert unicode.property_ranges("Nonsense=Greek") is None
    assert unicode.property_ranges("sc=Nonsense") is None


def test_every_entry_of_the_table_can_be_read() -> None:
    for entry in INDEX.split():
        assert unicode.property_ranges(entry.split("/")[0].split(":")[0])


def test_all_characters_with_case_are_in_the_blocks() -> None:
    for character in EVERYTHING:
        if character not in CASED and len(character.casefold()) == 1:
            assert character.lower() == character.upper() == character.casefold() == character


def test_python_case_is_that_of_re() -> None:
    for character in CASED:
        same = casing.variants(character, "python")
        if len(same) > 1 or character in "İıſ":
            assert sorted(same) == sorted(re.findall(re.escape(character), CASED, re.IGNORECASE)), character


def test_groups_of_case_are_closed() -> None:
    for dialect in ("python", "ecma"):
        for character in CASED:
            same = casing.variants(character, dialect)
            assert character in same
            assert {casing.variants(one, dialect) for one in same} == {same}


def test_ecma_case_is_simple_folding() -> None:
    assert set(casing.variants("k", "ecma")) == set("kK\u212a")
    assert set(casing.variants("ẞ", "ecma")) == set("ẞß")
    assert casing.variants("İ", "ecma") == "İ"
    assert casing.variants("ﬀ", "ecma") == "ﬀ"
    assert set(casing.variants("θ", "ecma")) == set("θΘϑϴ")


def test_ranges_are_closed_under_case() -> None:
    assert casing.close_ranges(((0x6B, 0x6B),), "ecma") == ((0x4B, 0x4B), (0x6B, 0x6B), (0x212A, 0x212A))
    assert casing.close_ranges(((0x6B, 0x6B),), "ecma", True) == ((0x4B, 0x4B), (0x6B, 0x6B))
    assert casing.close_ranges(((0x3B1, 0x3B2),), "ecma") == ((0x391, 0x392), (0x3B1, 0x3B2), (0x3D0, 0x3D0))
