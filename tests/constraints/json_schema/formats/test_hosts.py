"""Internationalised host names against the package `idna`, which checks them character by character."""

from __future__ import annotations

import random
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from structgen._core._native import RegexSpace
from structgen.constraints.json_schema import json_schema
from structgen.constraints.json_schema.formats import hosts
from structgen.constraints.json_schema.formats.build import RE, alt
from structgen.constraints.regex import RegexConstraint
from structgen.matcher import Matcher
from tests.core.small_vocabulary import byte_vocabulary
from tests.oracles.international_names import LENGTHS, _ranges, international_name
from tests.oracles.json_spelling import accepts

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


@cache
def _by_expression(composed: bool) -> RE:
    """The language of the core's machine as an expression with a part for each rule."""
    return alt(hosts.hostname(), international_name(hosts._plain_label(), composed=composed))


@cache
def _text_matcher(language: RE) -> Matcher:
    return Matcher(RegexConstraint("", "ecma", language), byte_vocabulary())


def _names() -> list[str]:
    """Labels of one script or of all, some of them long, with stops of all kinds between."""
    source = random.Random(7)
    allowed = _allowed()
    everything = "".join(SCRIPTS) + "AZ"
    found = []
    for _ in range(600):
        name = ""
        for _ in range(source.choice((1, 1, 2, 3, 4, 6))):
            script = source.choice((source.choice(SCRIPTS), everything, "ab-", "abcA1"))
            label = source.choices(script, k=source.choice((1, 2, 3, 5, 8, 14, 24)))
            if source.random() < 0.3:
                label.insert(source.randint(0, len(label)), chr(source.choice(allowed)))
            if source.random() < 0.02:
                label = ["a"] * source.choice((61, 62, 63, 64))
            name += "".join(label) + source.choice("....\u3002")
        found.append(name[:-1] if source.random() < 0.9 else name)
    return [*found, *(("a" * 62 + ".") * 4 + "b" * n for n in (0, 1, 2)), "a.b.c.d" + ".ü" * 9 + ".xyz"]


@pytest.mark.parametrize("composed", [True, False])
def test_machine_reads_as_the_expression(composed: bool) -> None:
    """The same bytes may follow, and the same names are complete."""
    machine, expression = _text_matcher(("host_names", composed)), _text_matcher(_by_expression(composed))
    for name in _names():
        one, other = machine.fork(), expression.fork()
        for byte in name.encode():
            assert one.is_complete() == other.is_complete(), ascii(name)
            advanced = one.advance(byte + 2)
            assert advanced == other.advance(byte + 2), ascii(name)
            if not advanced:
                break
        else:
            assert one.is_complete() == other.is_complete(), ascii(name)
            assert (one.mask() == other.mask()).all(), ascii(name)


def test_lengths_of_names_after_other_text() -> None:
    """A name may begin at any length of the text before it, however long that is."""
    space = RegexSpace()
    text = space.concat(space.repeat(space.literals(["a"]), 0, None), space.compile(("host_names", True)))
    for length in (1, 2, 254, 300, 1_000):
        assert space.has_length(text, length, length)
    assert not space.has_length(text, 0, 0)
