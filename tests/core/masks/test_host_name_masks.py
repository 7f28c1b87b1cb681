"""Masks inside internationalised host names, compared with a step for each token; and the lengths of what is missing.

The mask takes tokens by classes of characters, which drop what nothing in the token depends on. This must not show at
characters that depend on their neighbours (combining marks, joiners, dots and signs between letters). Nor may it show
at tokens with parts of characters, where a label or a name is full, or with length bounds in addition to the format.
"""

from __future__ import annotations

import functools
import random

import pytest

import structgen as sg
from structgen._core._native import RegexSpace
from structgen.vocabulary import Vocabulary
from tests.core.small_vocabulary import allowed

EOS = 0
SCRIPTS = (
    "abcklxyz019-",
    "ABcl-",
    "äöüßéłžl·",
    "αβγάς͵",
    "абвё",
    "אבג׳״0",
    "ابتدي٠٩۰۹ۿ7",
    "कखग्ािं",
    "தமிழா்",
    "กขคาิ์",
    "あいアイ・ー一二が",
    "가나한글",
    "aei\u0301\u0308\u0323\u0345",
    "क्ب\u200c\u200dلl\u00b7l",
    "\U00010330\U00020000",
    "ab.一.。",
)


@functools.cache
def vocabulary() -> Vocabulary:
    """All bytes, words of each script and of all, and such words without their first or last bytes."""
    rng = random.Random(1)
    pieces = {bytes([byte]) for byte in range(256)}
    everything = "".join(SCRIPTS)
    for script in SCRIPTS:
        for _ in range(60):
            word = "".join(rng.choices(script, k=rng.choice((1, 2, 2, 3, 4, 6))))
            if rng.random() < 0.25:
                word += rng.choice(everything)
            written = word.encode()
            pieces |= {written, written[rng.choice((0, 0, 1, 2)) :], written[: -rng.choice((1, 2))]}
            if rng.random() < 0.3:
                pieces |= {written + end for end in (b'"', b'",', b"\\n", b"\\u00e9", b".", b"@", b'@a.b"')}
    pieces |= {b"a" * n for n in (8, 16, 24, 40)} | {b"a" * 60 + b".b", b"-" * 5, b'".', '一"'.encode()}
    return Vocabulary.from_tokens([None, *sorted(pieces - {b""})], [EOS])


def check(matcher: sg.Matcher, rng: random.Random, steps: int) -> None:
    """Compare masks along a random text."""
    for _ in range(steps):
        ids = allowed(matcher.mask())
        for token in range(1, vocabulary().size):
            assert (token in ids) == matcher.accepts([token]), (vocabulary().token_bytes(token), matcher.text)
        inside = sorted(ids - {EOS})
        if not inside:
            return
        assert matcher.advance(rng.choice(inside))


STARTS = [
    b'"',
    b'"' + b"a" * 59,
    b'"' + ("a" * 62 + ".").encode() * 3 + b"a" * 50,
    '"αβ.b.c.defghijklmnop'.encode(),
    '"א1.一'.encode()[:-1],
    '"räk.'.encode(),
    '"ア・'.encode(),
    '"ب'.encode(),
    '"क्'.encode(),
    b'"e',
]
BOUNDS: list[dict[str, int]] = [{}, {"maxLength": 70}, {"minLength": 30}, {"minLength": 9, "maxLength": 12}]


@pytest.mark.parametrize("bounds", BOUNDS, ids=str)
@pytest.mark.parametrize("name", ["idn-hostname", "idn-email"])
def test_masks(name: str, bounds: dict[str, int]) -> None:
    compiled = sg.json_schema({"type": "string", "format": name, **bounds})
    for start in STARTS:
        rng = random.Random(repr((name, bounds, start)))
        matcher = sg.Matcher(compiled, vocabulary())
        before = start.replace(b'"', b'"p@') if name == "idn-email" else start
        if all(matcher.advance(_byte(byte)) for byte in before):
            check(matcher, rng, 4)


def test_keys_and_escapes() -> None:
    """Names as the keys of an object, and names that may be written with escapes."""
    keys = {
        "type": "object",
        "propertyNames": {"format": "idn-hostname"},
        "additionalProperties": {"const": 1},
    }
    for schema, options, start in (
        (keys, {}, b'{"'),
        ({"type": "string", "format": "idn-hostname"}, {"escapes": "all"}, b'"r'),
        ({"type": "string", "format": "idn-hostname", "pattern": "^[^x]+$"}, {}, b'"r'),
    ):
        matcher = sg.Matcher(sg.json_schema(schema, **options), vocabulary())
        assert all(matcher.advance(_byte(byte)) for byte in start)
        check(matcher, random.Random(4), 4)


def _byte(byte: int) -> int:
    return _bytes()[byte]


@functools.cache
def _bytes() -> dict[int, int]:
    found = ((vocabulary().token_bytes(token), token) for token in range(1, vocabulary().size))
    return {text[0]: token for text, token in found if text is not None and len(text) == 1}


def _after(space: RegexSpace, state: int, text: bytes) -> int:
    for byte in text:
        state = space.derivative(state, byte)
    return state


@pytest.mark.parametrize(
    "start",
    [
        *("ü" * 23, "אב", "ب١", "ア・", "ж・l·", "͵", "ü.b", "א.b-", "ü.b.c"),
        *("ü." + "b" * 62, "ü." + "b" * 63, "ü.b." + "c" * 63, "ü.b.c.d.e.fgh", "α.b.c.defghijklmnopqrst"),
        *(
            ("a" * 62 + ".") * 3 + end
            for end in ("", "a", "a" * 40, "a" * 60, "a" * 30 + ".b", "a" * 55 + "-")
        ),
        *("a" * 63 + "." + "b" * 63 + ".c." + "d" * 60 + end for end in ("", ".", ".e" * 20, "ddd")),
    ],
    ids=lambda start: ascii(start)[:12] + str(len(start)),
)
def test_lengths_of_what_is_missing(start: str) -> None:
    """Each length of a rest, against names that are drawn out character by character."""
    space = RegexSpace()
    state = _after(space, space.compile(("host_names", True)), start.encode())
    assert space.alive(state)
    drawing = "a1אب." if any(character in "אب" for character in start) else "al.α一"
    characters = [character.encode() for character in drawing]
    now = {state}
    for length in range(260):
        if not now:
            assert not space.has_length(state, length, None)
            return
        assert space.has_length(state, length, length) == any(map(space.nullable, now)), length
        now = {after for one in now for text in characters if (after := _after(space, one, text)) != 0}


@pytest.mark.parametrize("length", [63, 64, 255, 256, 257, 600])
def test_tokens_that_are_longer_than_names(length: int) -> None:
    single = [bytes([b]) for b in range(256)]
    vocabulary = Vocabulary.from_tokens([None, *single, b"a" * length], eos_ids=[EOS])
    constraint = sg.json_schema({"type": "string", "format": "idn-hostname"}, whitespace="compact")
    matcher = sg.Matcher(constraint, vocabulary)
    assert matcher.advance(1 + ord('"'))
    offered = allowed(matcher.mask())
    assert {1 + ord(c) for c in "az09"} <= offered
    assert (257 in offered) == (length <= 63) == matcher.fork().advance(257)
