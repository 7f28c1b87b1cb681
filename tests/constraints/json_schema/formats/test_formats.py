"""Formats against the official suite and against jsonschema-rs."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from structgen._core._native import RegexSpace
from structgen.constraints.json_schema import Support
from structgen.constraints.json_schema.formats import FORMATS, Format
from tests.oracles.international_names import by_expressions
from tests.oracles.language_twin import draw, matches
from tests.shared import schema_suite

DRAFTS = {"draft4": 4, "draft6": 6, "draft7": 7, "draft2019-09": 2019, "draft2020-12": 2020}
PREFIX = "optional/format/"


def _suite_texts(draft: str) -> Iterator[tuple[str, str, bool]]:
    for name, text in schema_suite().groups(draft):
        if not name.startswith(PREFIX):
            continue
        for group in json.loads(text):
            schema = group["schema"]
            if isinstance(schema, dict) and schema.get("format") in FORMATS:
                for test in group["tests"]:
                    if isinstance(test["data"], str):
                        yield schema["format"], test["data"], test["valid"]


@cache
def _expressions(language: Any) -> Any:
    return by_expressions(language)


@cache
def _compiled(language: Any) -> tuple[RegexSpace, Any]:
    space = RegexSpace()
    return space, space.compile(language)


@cache  # the drafts share formats and texts
def _oracle_matches(language: Any, text: str) -> bool:
    return matches(_expressions(language), text)


@cache
def _core_matches(language: Any, text: str) -> bool:
    space, compiled = _compiled(language)
    return space.matches(compiled, text.encode())


@pytest.mark.parametrize("draft", DRAFTS)
def test_official_suite(draft: str) -> None:
    wrong = []
    for name, text, valid in _suite_texts(draft):
        found = Format.find(name, DRAFTS[draft])
        assert found is not None, name
        language = found.build()
        accepted = _oracle_matches(language, text)
        assert _core_matches(language, text) == accepted, (name, text)
        narrower = found.support is Support.APPROXIMATE and valid
        if accepted != valid and not narrower:
            wrong.append((name, text))
    assert not wrong


@cache
def _peer(name: str) -> Any:
    validators = pytest.importorskip("jsonschema_rs")
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", "format": name}
    return validators.validator_for(schema, validate_formats=True)


def _peer_is_wrong(name: str, text: str) -> bool:
    """jsonschema-rs takes `,-./:` and the like for digits of dates and times."""
    return name in ("date", "time", "date-time") and any(c in "!\"#$%&'()*+,-./:;<=>?@" for c in text)


@pytest.mark.parametrize("name", FORMATS)
def test_drawn_texts_are_valid(name: str) -> None:
    language = _expressions(FORMATS[name].build())
    source = random.Random(7)
    drawn = [text for _ in range(300) if (text := draw(language, source)) is not None]
    assert len(drawn) > 20
    wrong = [text for text in drawn if not _peer(name).is_valid(text)]
    assert not wrong


@pytest.mark.parametrize("name", FORMATS)
def test_changed_texts_agree_with_the_peer(name: str) -> None:
    found = FORMATS[name]
    language = _expressions(found.build())
    source = random.Random(11)
    known = sorted({text for format_name, text, _ in _suite_texts("draft2020-12") if format_name == name})
    known = [text for text in known if len(text) < 70]
    wrong = []
    for _ in range(300):
        text = _changed(source.choice(known), known, source)
        theirs = _peer(name).is_valid(text)
        ours = matches(language, text)
        narrower = found.support is Support.APPROXIMATE and theirs
        if ours != theirs and not narrower and not (theirs and _peer_is_wrong(name, text)):
            wrong.append(text)
    assert not wrong


def _changed(text: str, others: list[str], source: random.Random) -> str:
    letters = list(text)
    for _ in range(source.randint(1, 3)):
        place = source.randint(0, len(letters))
        other = source.choice(others)
        start = source.randint(0, len(other))
        letters[place : place + source.randint(0, 2)] = other[start : start + source.randint(0, 4)]
    return "".join(letters)


def test_every_day_of_four_centuries() -> None:
    import calendar

    language = FORMATS["date"].build()
    for year in (1900, 1999, 2000, 2004, 2023, 2100, 2400):
        for month in range(1, 13):
            last = calendar.monthrange(year, month)[1]
            for day in (0, 1, 28, 29, 30, 31, 32):
                assert matches(language, f"{year:04}-{month:02}-{day:02}") == (1 <= day <= last)


@pytest.mark.parametrize("minutes", range(0, 1440, 37))
def test_leap_seconds_stand_only_at_the_end_of_a_day(minutes: int) -> None:
    language = FORMATS["time"].build()
    for sign, offset in (("+", minutes), ("-", minutes)):
        local = (23 * 60 + 59 + (offset if sign == "+" else -offset)) % 1440
        for shift in (0, 1, -1, 60, 600):
            clock = (local + shift) % 1440
            text = f"{clock // 60:02}:{clock % 60:02}:60.5{sign}{offset // 60:02}:{offset % 60:02}"
            # -00:00 says that the offset is unknown, so nothing ties the leap second to UTC.
            assert matches(language, text) == (shift == 0 and not text.endswith("-00:00")), text


def test_languages_are_built_once() -> None:
    assert all(found.build() is found.build() for found in FORMATS.values())
