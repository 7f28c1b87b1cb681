r"""Under ``escapes="all"`` an escape may start if and only if some way to finish it leads to an accepted text.

The characters that `\u12` may still become are ranges of code points, which the core searches by their bytes. These
tests try them one by one.
"""

from __future__ import annotations

import random
import re

import pytest

from structgen.constraints.json_schema import json_schema
from structgen.errors import UnsatisfiableSchema
from structgen.matcher import Matcher
from tests.core.small_vocabulary import byte_vocabulary

HEX = "0123456789abcdef"
# What each pattern may begin with, and the least length of such a text.
PATTERNS = {
    "^[a-z]{2}$": [("[a-z]", 2)],
    "^[^a-z]b$": [("[^a-z]", 2)],
    "^[à-ÿ]x?$": [("[à-ÿ]", 1)],
    "^([\u0800-\u0fff]|[\U00010400-\U000107ff]a)$": [("[\u0800-\u0fff]", 1), ("[\U00010400-\U000107ff]", 2)],
    "^[\uabcd\ud7ff\ue000]+b{2}$": [("[\uabcd\ud7ff\ue000]", 3)],
    "^\U0010ffff{2}$": [("\U0010ffff", 2)],
    '^["\\\\\n/]c$': [('["\\\\\n/]', 2)],
    "^(?:[0-9]|[\u3040-\u30ff]{3}|[\U0001f600-\U0001f64f]{2})$": [
        ("[0-9]", 1),
        ("[\u3040-\u30ff]", 3),
        ("[\U0001f600-\U0001f64f]", 2),
    ],
}
CHARACTERS = "".join(chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000)


def spelled(character: str) -> str:
    """Its escape, without the backslash and the letter that begin it."""
    units = character.encode("utf-16-be").hex()
    return "\\u".join(units[i : i + 4] for i in range(0, len(units), 4))


def beginnings(source: random.Random) -> list[str]:
    some = ["", "0", "00", "006", "0", "ff", "d7f", "e00", "abc", "30", "d", "d8", "d801", "d83d", "dbff"]
    some += ["d801\\u", "d83d\\ud", "d83d\\ude", "d83d\\ude0", "dbff\\udff", "dbff\\udf"]
    some += ["".join(source.choice(HEX) for _ in range(source.randrange(1, 4))) for _ in range(12)]
    return some


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("most", [1, 2, 3])
def test_what_an_escape_may_become(pattern: str, most: int) -> None:
    source = random.Random(pattern + str(most))
    try:
        constraint = json_schema({"type": "string", "pattern": pattern, "maxLength": most}, escapes="all")
        matcher = Matcher(constraint, byte_vocabulary())
    except UnsatisfiableSchema:
        return
    escapes = {
        spelled(character)
        for first, least in PATTERNS[pattern]
        if least <= most
        for character in re.findall(first, CHARACTERS)
    }
    for started in beginnings(source):
        text = '"\\u' + started
        expected = any(escape.startswith(started) for escape in escapes)
        assert (matcher.viable_bytes(text.encode()) == len(text)) == expected, (pattern, most, text)
