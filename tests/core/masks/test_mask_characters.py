"""A mask allows exactly the tokens that a single step reads, also where tokens split, finish or join characters.

A mask takes whole subtrees of the token trie by the classes of their characters, which their first bytes determine. A
token that starts or ends inside a character has characters without a first byte. Random positions and samples of tokens
missed such tokens, so every token of real vocabularies is tried at the positions where they matter.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

import structgen as sg
from structgen.constraints.base import Constraint
from structgen.matcher import Matcher
from structgen.vocabulary import Vocabulary
from tests.core.small_vocabulary import allowed
from tests.real_tokenizers import NAMES, tokenizer_path

EOS = 0


def vocabulary_of(pieces: list[bytes]) -> Vocabulary:
    return Vocabulary.from_tokens([None, *(bytes([byte]) for byte in range(256)), *pieces], [EOS])


def encoded(first: int, end: int) -> list[bytes]:
    return [chr(code).encode() for code in range(first, end) if not 0xD800 <= code < 0xE000]


def split_characters(source: random.Random) -> list[bytes]:
    """Beginnings and ends of characters, alone and next to other characters, in subtrees of many nodes."""
    characters = (
        encoded(0x660, 0x66A) + encoded(0x628, 0x640) + encoded(0xC0, 0x100) + encoded(0x4E00, 0x4E30)
    )
    characters += encoded(0x1F600, 0x1F620) + encoded(0x1D7CE, 0x1D7E0)
    pieces = set(characters)
    for character in characters:
        other = source.choice(characters)
        cut = source.randrange(1, len(character))
        pieces |= {
            character[:cut],
            character[cut:],
            character + other[:1],
            character[cut:] + other,
            b"7" + character[:cut],
        }
        pieces |= {character[cut:] + b"a", character[cut:] + other[:-1], character[cut:] + b'"'}
    pieces |= {bytes([0xD9, second]) for second in range(0x80, 0xC0)}
    return sorted(piece for piece in pieces if len(piece) > 1)


def ill_formed(source: random.Random) -> list[bytes]:
    """Overlong and surrogate sequences beside well-formed ones with the same first bytes, and bytes of no text."""
    pieces = {bytes([first, second, 0x80]) for first in (0xE0, 0xED) for second in range(0x80, 0xC0)}
    pieces |= {
        bytes([first, second, 0x80, 0x81]) for first in (0xF0, 0xF4) for second in range(0x80, 0xC0, 3)
    }
    pieces |= {bytes([first, 0x80 + i]) for first in (0xC0, 0xC1, 0xC2, 0xF5, 0xFF) for i in range(14)}
    pieces |= {piece + source.choice(sorted(pieces)) for piece in sorted(pieces)[::5]}
    return sorted(pieces)


MADE = {"split characters": split_characters, "ill-formed": ill_formed}

# Each with texts after which the mask is looked at, besides the start and each byte inside the text's characters.
LANGUAGES: dict[str, tuple[Callable[[], Constraint], list[str]]] = {
    "digits": (lambda: sg.regex(r"\d{1,30}"), ["٣", "7", "𝟗"]),
    "words": (lambda: sg.regex(r"\w+"), ["é", "一"]),
    "capitals": (lambda: sg.regex(r"\p{Lu}+x?", dialect="ecma"), ["É", "Ж"]),
    "not a letter": (lambda: sg.regex(r"[^a-zé٣]*"), ["è", "一", "😀"]),
    "one character": (lambda: sg.regex(r"."), []),
    "choice": (lambda: sg.choice(["٣", "é", "日本", "😀a"]), ["日"]),
    "text": (lambda: sg.text("ل"), []),
    "enum": (lambda: sg.json_schema({"enum": ["٣", "ص", "é日"]}), ['"', '"é']),
    "pattern": (lambda: sg.json_schema({"type": "string", "pattern": r"^\p{Nd}\p{Lu}*$"}), ['"', '"٣É']),
    "open pattern": (lambda: sg.json_schema({"type": "string", "pattern": r"^\p{L}", "maxLength": 5}), ['"', '"é一']),
    "not": (lambda: sg.json_schema({"type": "string", "not": {"enum": ["٣", "é"]}}), ['"', '"é']),
    "length": (lambda: sg.json_schema({"type": "string", "maxLength": 2}), ['"', '"é', '"éa']),
    "keys": (
        lambda: sg.json_schema({"type": "object", "propertyNames": {"pattern": r"^\p{Nd}+$"}}),
        ['{"', '{"٣'],
    ),
    "idn-hostname": (lambda: sg.json_schema({"type": "string", "format": "idn-hostname"}), ['"', '"é']),
    "gbnf": (lambda: sg.gbnf('root ::= [٠-٩]+ | "é" root | "(" root ")" | [À-ß] [^٣]*'), ["٣", "(é", "À一"]),
    "lark": (
        lambda: sg.lark('start: (D | W | "é" "(" start ")")+\nD: /\\d+/\nW: /[^\\W\\d]+/\n%ignore " "'),
        ["٣", "é", "é(", "一 "],
    ),
    "other constraint in a grammar": (
        lambda: sg.lark('start: ("٣" | @x | "(" start ")")+', constraints={"x": sg.regex(r"\p{Lu}+;", dialect="ecma")}),
        ["٣", "É", "(É;"],
    ),
}  # fmt: skip


@pytest.fixture(scope="module", params=[*MADE, *NAMES])
def known(request: pytest.FixtureRequest) -> Vocabulary:
    if request.param in MADE:
        return vocabulary_of(MADE[request.param](random.Random(request.param)))
    transformers = pytest.importorskip("transformers")
    return Vocabulary.from_tokenizer(
        transformers.AutoTokenizer.from_pretrained(tokenizer_path(request.param))
    )


@pytest.fixture(scope="module")
def by_first_byte(known: Vocabulary) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for token in range(known.size):
        if piece := known.token_bytes(token):
            found.setdefault(piece[0], []).append(token)
    return found


def wrong_bits(matcher: Matcher, by_first_byte: dict[int, list[int]]) -> list[tuple[int, bytes | None]]:
    """Tokens whose bit differs from what a single step says; no token is read whose first byte is not."""
    mask = allowed(matcher.mask()) - set(matcher.vocabulary.eos_ids)
    steps = {
        token
        for first, tokens in by_first_byte.items()
        if matcher.viable_bytes(bytes([first])) == 1
        for token in tokens
        if matcher.accepts([token])
    }
    return [(token, matcher.vocabulary.token_bytes(token)) for token in sorted(mask ^ steps)]


@pytest.mark.parametrize("language", LANGUAGES)
def test_each_bit_agrees_with_a_step(
    known: Vocabulary, by_first_byte: dict[int, list[int]], language: str
) -> None:
    make, texts = LANGUAGES[language]
    if language == "idn-hostname" and known.size > 100_000:
        pytest.skip("its masks take seconds over so many tokens")
    matcher = Matcher(make(), known)
    single = {
        piece[0]: token
        for tokens in by_first_byte.values()
        for token in tokens
        if len(piece := known.token_bytes(token) or b"") == 1
    }
    assert not wrong_bits(matcher, by_first_byte)
    for text in texts:
        matcher.reset()
        for byte in text.encode():
            assert matcher.advance(single[byte]), (matcher.text, byte)
            if byte >= 0x80:
                assert not wrong_bits(matcher, by_first_byte)[:10], matcher.text
        assert not wrong_bits(matcher, by_first_byte)[:10], matcher.text
