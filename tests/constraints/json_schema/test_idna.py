"""Internationalised host names against the package `idna`, which checks them character by character."""

from __future__ import annotations

import random
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from structgen.constraints.json_schema import json_schema
from structgen.constraints.json_schema.formats.idna import LENGTHS, _ranges
from structgen.matcher import Matcher
from tests.core.small_vocabulary import byte_vocabulary
from tests.core.written_form import accepts

SCRIPTS = (
    "abcxyz019-",
    "äöüßéłž",
    "αβγάς͵",
    "абвё",
    "אבג׳״",
    "ابتي٠٩۰۹ۿ",
    "कखग्ािं",
    "தமிழா்",
    "กขคาิ์",
    "あいアイ・ー一二",
    "가나한글",
    "\u0301\u0308\u0323\u0345",
    "\u200c\u200d\u00b7l",
    "\U00010330\U00020000",
)
letters = st.sampled_from(SCRIPTS).flatmap(st.sampled_from) | st.sampled_from("".join(SCRIPTS))
scripted = st.sampled_from(SCRIPTS).flatmap(lambda script: st.text(st.sampled_from(script), max_size=8))
labels = scripted | st.text(letters, max_size=8)


@cache
def _allowed() -> list[int]:
    return [point for low, high in _ranges("PVALID") for point in range(low, high + 1)]


@cache
def _package() -> Any:
    return pytest.importorskip("idna")


@cache
def _matcher() -> Matcher:
    return Matcher(json_schema({"type": "string", "format": "idn-hostname"}), byte_vocabulary())


def is_accepted(name: str) -> bool:
    return accepts(_matcher().fork(), f'"{name}"')


def is_valid_label(label: str) -> bool:
    """As IDNA 2008 has it; ASCII labels may be upper case."""
    if label.isascii():
        return 0 < len(label) < 64 and "-" not in (label[0], label[-1]) and label[2:4] != "--"
    try:
        return len(_package().alabel(label)) <= 63
    except _package().IDNAError:
        return False


def is_valid_name(name: str) -> bool:
    parts = name.split(".")
    if not all(map(is_valid_label, parts)):
        return False
    try:
        has_rtl = any(_package().check_bidi(part) and _is_rtl(part) for part in parts)
        return not has_rtl or all(_package().check_bidi(part, check_ltr=True) for part in parts)
    except _package().IDNABidiError:
        return False


def _is_rtl(label: str) -> bool:
    import unicodedata

    return any(unicodedata.bidirectional(c) in ("R", "AL", "AN") for c in label)


@settings(max_examples=1000, deadline=None)
@given(labels)
def test_labels(label: str) -> None:
    assert is_accepted(label) == is_valid_label(label), ascii(label)


@settings(max_examples=1000, deadline=None)
@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=3), st.text(letters, max_size=2))
def test_labels_of_all_characters(places: list[int], end: str) -> None:
    allowed = _allowed()
    # Most characters are ideographs; the marks and letters of the first planes matter more.
    label = "".join(chr(allowed[place % (len(allowed) if place % 2 else 9000)]) for place in places) + end
    assert is_accepted(label) == is_valid_label(label), ascii(label)


@settings(max_examples=500, deadline=None)
@given(labels.filter(bool), labels.filter(bool))
def test_names(first: str, second: str) -> None:
    name = f"{first}.{second}"
    assert is_accepted(name) == is_valid_name(name), ascii(name)


@pytest.mark.parametrize(("block", "most"), LENGTHS, ids=str)
def test_labels_of_full_length_fit(block: tuple[int, int], most: int) -> None:
    """Labels made to be long in Punycode: code points far apart, at places that go up and down."""
    low, high = block
    source = random.Random(low)
    for _ in range(3000):
        plain = source.randint(0, most - 1)
        count = most - plain
        near = source.choice([low, source.randint(low, high)])
        spread = source.choice([1, 20, high - low])
        points = [min(high, max(low, near + source.randint(0, spread))) for _ in range(count)]
        order = source.choice([sorted(points), sorted(points, reverse=True), points])
        text = [*("a" * plain), *map(chr, (p for p in order if not 0xD800 <= p <= 0xDFFF))]
        if source.random() < 0.5:
            source.shuffle(text)
        assert len("".join(text).encode("punycode")) <= 59


@pytest.mark.parametrize(
    ("name", "accepted"),
    [
        ("例え.テスト", True),
        ("münchen.example", True),
        ("a" * 63, True),
        ("a" * 64, False),
        ("xn--mnchen-3ya", False),
        ("ß" * 23, True),
        ("ü" * 60, False),
        ("cafe\u0301", False),
        ("க\u0bbe", True),
        ("0a.א", False),
        ("a0.א", True),
    ],
)
def test_known_names(name: str, accepted: bool) -> None:
    assert is_accepted(name) == accepted
