"""Keys that patterns allow and that the object already has: exact where a finite language ends, linear in their number.

The slow twin tries whole keys: a byte may follow if and only if an unused key starts with the text so far and that
byte.
"""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterable
from typing import Any

import pytest

from structgen.constraints.json_schema import json_schema
from structgen.matcher import Matcher
from structgen.vocabulary import Vocabulary
from tests.core.small_vocabulary import allowed, byte_vocabulary, json_vocabulary, renewed, spell, text_ids

LANGUAGES: dict[str, list[str]] = {
    "^[ab]{1,7}$": ["".join(key) for n in range(1, 8) for key in itertools.product("ab", repeat=n)],
    "^(x|y[0-9]{2})$": ["x", *(f"y{i:02}" for i in range(100))],
    "^[éèê\n\t][a-z]$": [first + chr(97 + i) for first in "éèê\n\t" for i in range(26)],
    "^[一-仿]$": [chr(point) for point in range(0x4E00, 0x4F00)],
}
"""Too many texts to be taken as declared keys, and all of them."""


def schemas(pattern: str) -> Iterable[dict[str, Any]]:
    yield {"type": "object", "patternProperties": {pattern: True}, "additionalProperties": False}
    yield {"type": "object", "propertyNames": {"pattern": pattern}}


def written(keys: Iterable[str]) -> bytes:
    return ",".join(f"{json.dumps(key, ensure_ascii=False)}:1" for key in keys).encode()


def spelled(keys: Iterable[str]) -> list[bytes]:
    return [json.dumps(key, ensure_ascii=False).encode() for key in keys]


def next_bytes(matcher: Matcher, text: bytes) -> set[int]:
    return set(matcher.native.next_bytes(text)[0])


@pytest.mark.parametrize("pattern", LANGUAGES)
@pytest.mark.parametrize("form", [0, 1])
def test_every_byte_of_every_key(pattern: str, form: int) -> None:
    source = random.Random(pattern)
    keys = LANGUAGES[pattern]
    schema = list(schemas(pattern))[form]
    for missing in (0, 1, 2, 5, len(keys) // 2, len(keys) - 1):
        shuffled = source.sample(keys, len(keys))
        left, there = shuffled[:missing], shuffled[missing : missing + 300]
        left += shuffled[missing + 300 :]
        start = b"{" + written(there)
        matcher = Matcher(json_schema(schema), byte_vocabulary())
        for byte in start:
            assert matcher.advance(byte + 2)
        assert (ord(",") in next_bytes(matcher, b"")) == bool(left)
        if not left:
            continue
        tried, to_come = spelled(there[:30] + left[:10]), spelled(left)
        prefixes = {text[:n] for text in tried for n in range(1, len(text))}
        for prefix in sorted(prefixes):
            wanted = {text[len(prefix)] for text in to_come if text.startswith(prefix)}
            assert next_bytes(matcher, b"," + prefix) == wanted, (prefix, there, left)


@pytest.mark.parametrize("pattern", ["^[ab]{1,7}$", "^(x|y[0-9]{2})$"])
@pytest.mark.parametrize("missing", [1, 2, 3, 40])
def test_masks_are_exact(pattern: str, missing: int) -> None:
    """Each token of a vocabulary with long tokens is allowed if and only if it can be read."""
    source = random.Random(missing)
    keys = source.sample(LANGUAGES[pattern], len(LANGUAGES[pattern]))
    tokens = [bytes([byte]) for byte in range(256)]
    tokens += [
        key[:n].encode() + end
        for key in keys[:60]
        for n in (1, 2, 9)
        for end in (b"", b'"', b'":1', b'":1,"')
    ]
    tokens += [b'":1,"' + key.encode() + b'":1' for key in keys[:20]] + [
        b'":1}',
        b'1,"',
        b"1}",
        b":1,",
        b'":',
    ]
    vocabulary = Vocabulary.from_tokens([*tokens, None], [len(tokens)])
    for schema in schemas(pattern):
        matcher = Matcher(json_schema(schema), vocabulary)
        for byte in b"{" + written(keys[missing:]) + b',"':
            assert matcher.advance(byte)
        for byte in keys[0].encode() + b'":1':
            offered = allowed(matcher.mask())
            single = {token for token in range(len(tokens)) if matcher.fork().advance(token)}
            assert offered - {len(tokens)} == single
            assert matcher.advance(byte)


def test_random_masks_with_seen_keys() -> None:
    vocabulary = json_vocabulary(300)
    texts = set(text_ids(vocabulary))
    source = random.Random(1)
    for schema in schemas("^[a-c]+$"):
        matcher = Matcher(json_schema(schema), vocabulary)
        keys = ["".join(source.choices("abc", k=source.randint(1, 3))) for _ in range(40)]
        for token in spell(vocabulary, b"{" + written(dict.fromkeys(keys)), source):
            offered = allowed(matcher.mask())
            assert {one for one in texts if matcher.accepts([one])} == offered & texts
            assert token in offered
            assert matcher.advance(token)


def test_a_token_that_holds_a_second_key() -> None:
    """It may not hold the key that it closes, whichever mask was made first."""
    tokens = [*(bytes([byte]) for byte in range(256)), b'":1,"a":', b'":1,"b":', None]
    vocabulary = Vocabulary.from_tokens(tokens, [258])
    for key, other in ((b"a", 257), (b"b", 256), (b"c", None)):
        matcher = Matcher(json_schema({"type": "object"}), vocabulary)
        for byte in b'{"' + key:
            assert matcher.advance(byte)
        offered = allowed(matcher.mask()) & {256, 257}
        assert offered == ({256, 257} if other is None else {other})


def test_too_few_keys_for_min_properties() -> None:
    """Known at once, without a budget."""
    for schema in schemas("^[ab]{1,7}$"):
        for least, most in ((254, True), (255, False)):
            text = b"{" + written(["b"])
            matcher = Matcher(
                json_schema({"anyOf": [{"minProperties": least, **schema}, {"const": 1}]}), byte_vocabulary()
            )
            assert bool(next_bytes(matcher, text)) == most
            assert matcher.unproven == 0


@pytest.mark.parametrize("pattern", ["^[ab]{1,7}$", "^[ab]+$", "^(é|[a-z]{2,})$"])
def test_completions_use_the_remaining_keys(pattern: str) -> None:
    for schema in schemas(pattern):
        matcher = Matcher(json_schema({**schema, "minProperties": 200}), byte_vocabulary())
        witness = matcher.native.witness()
        assert witness is not None
        pairs = json.loads(witness, object_pairs_hook=list)
        assert len(dict(pairs)) == len(pairs) >= 200


@pytest.mark.parametrize("pattern", ["^k[0-9]+$", "^k[0-9]{1,9}$", "^k"])
def test_ten_thousand_keys(pattern: str) -> None:
    """The matcher's memory grows with the number of keys, that of the vocabulary's languages does not."""
    for schema in schemas(pattern):
        vocabulary = renewed(byte_vocabulary())
        matcher = Matcher(json_schema(schema), vocabulary)
        sizes = []
        for first, last in ((0, 1_000), (1_000, 10_000)):
            keys = (f"k{i}" for i in range(first, last))
            for byte in (b"," if first else b"{") + written(keys):
                assert matcher.advance(byte + 2)
            matcher.mask()
            sizes.append((matcher.native.memory, vocabulary.engine.memory))
        (few, languages), (many, languages_later) = sizes
        assert many < 15 * few
        assert languages_later <= languages + 10_000


@pytest.mark.parametrize(
    "schema",
    [{"type": "object"}, {"type": "object", "patternProperties": {"^e": {}, "x$": {"type": "string"}}}],
)
@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("{", ['"e1":"","":"', '"e1":1,"":"', '"e1":"","":1', '"e1":"","e1":1', '"e2', '"}a.5']),
        ('{"', ['e1":"","":"', 'e1":"","e1":1', '":"","":1', "e2"]),
        ('{"e', ['1":"","e":"', '1":"","e1":1', '":"","":1', '":"","e":1']),
        ('{"a":1,', ['"e1":"","":"', '"e1":"","a":1', '"":1,"":1', '"e2']),
    ],
)
def test_tokens_that_hold_two_keys(schema: dict[str, Any], text: str, pieces: list[str]) -> None:
    tokens = [*(bytes([byte]) for byte in range(256)), *(piece.encode() for piece in pieces)]
    vocabulary = Vocabulary.from_tokens([*tokens, None], [len(tokens)])
    matcher = Matcher(json_schema(schema, whitespace="compact"), vocabulary)
    assert all(matcher.advance(byte) for byte in text.encode())
    mask = matcher.mask()
    for token, piece in enumerate(tokens):
        assert (mask[token // 32] >> (token % 32)) & 1 == matcher.accepts([token]), piece
