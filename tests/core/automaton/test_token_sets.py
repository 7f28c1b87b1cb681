"""Sets of tokens as terminals, compared with their definition over token sequences (tests/oracles/token_twin.py)."""

from __future__ import annotations

import itertools
import random
from typing import Any

import numpy as np
import pytest

from structgen.constraints.composition import Composition
from structgen.constraints.expressions import literal
from structgen.constraints.grammar.builders import lark
from structgen.errors import EmptyConstraint
from structgen.matcher import Matcher
from structgen.vocabulary import Vocabulary
from tests.oracles.token_twin import Twin

LONGEST = 4

VOCABULARIES: dict[str, tuple[list[bytes | None], list[int], dict[str, int]]] = {
    # Tokens overlap; 4 is special, 5 ends a text, 6 is neither text nor named.
    "closed": ([b"a", b"b", b"ab", b"aa", None, None, None], [5], {"<s>": 4}),
    # b is no token on its own.
    "open": ([b"a", b"ab", b"bb", b"ba", None, None], [5], {"<s>": 4}),
    # Two tokens have the same text, and the one that ends a text has a name.
    "twice": ([b"a", b"b", b"a", b"ab", None], [4], {"<e>": 4}),
}
TEXTS = ["a", "b", "ab", "aa", "aba", "bb", ""]


def body_of(rnd: random.Random, twin: Twin, depth: int, is_bounded: bool) -> Any:
    inner = ["sequence", "sequence", "choice", "repeat", "tokens"]
    kind = rnd.choice(inner if depth else ["text", "tokens", "tokens"])
    if kind == "text":
        return ("text", literal(rnd.choice(TEXTS)))
    if kind == "tokens":
        allowed = None if rnd.random() < 0.4 else members(rnd, twin, 1)
        return ("tokens", (allowed, members(rnd, twin, 0), "here", False))
    if kind == "repeat":
        low = rnd.randrange(2)
        return (
            "repeat",
            body_of(rnd, twin, depth - 1, is_bounded),
            low,
            low + rnd.randrange(2) if is_bounded else None,
        )
    return (kind, tuple(body_of(rnd, twin, depth - 1, is_bounded) for _ in range(rnd.randint(2, 3))))


def members(rnd: random.Random, twin: Twin, least: int) -> tuple[Any, ...]:
    size = len(twin.texts)
    made: list[Any] = []
    for _ in range(rnd.randint(least, 2)):
        low = rnd.randrange(size)
        made.append(rnd.choice([(low, low), (low, low + rnd.randrange(4)), "ab", "a", *twin.specials]))
    return tuple(made)


def most_tokens(body: Any) -> int:
    """The tokens that the longest text of a bounded body can have."""
    kind = body[0]
    if kind == "text":
        return len(body[1][1])
    if kind == "tokens":
        return 1
    if kind == "repeat":
        return most_tokens(body[1]) * int(body[3])
    parts = [most_tokens(part) for part in body[1]]
    return max(parts) if kind == "choice" else sum(parts)


def bits_of(matcher: Matcher) -> set[int]:
    return set(np.flatnonzero(np.unpackbits(matcher.mask().view(np.uint8), bitorder="little")).tolist())


def after(body: Any, vocabulary: Vocabulary, tokens: tuple[int, ...]) -> Matcher:
    matcher = Matcher(Composition(body, "x"), vocabulary)
    assert all(matcher.advance(one) for one in tokens)
    return matcher


def check_place(matcher: Matcher, twin: Twin, allowed: set[int], is_text: bool) -> None:
    """The mask is `allowed`, and `advance` takes just these; the text may end where it `is_text`."""
    ending = twin.eos_ids if is_text else set()
    assert bits_of(matcher) == allowed | ending
    assert matcher.is_complete() == is_text
    for one in range(len(twin.texts)):
        assert matcher.accepts([one]) == int(one in allowed | ending)
        fork = matcher.fork()
        assert fork.advance(one) == (one in allowed | ending)


@pytest.mark.parametrize("name", VOCABULARIES)
@pytest.mark.parametrize("seed", range(12))
def test_masks_are_the_continuations_that_exist(name: str, seed: int) -> None:
    """Of languages that are enumerated whole: a token is allowed if and only if some text goes on with it."""
    parts = VOCABULARIES[name]
    vocabulary, twin = Vocabulary.from_tokens(parts[0], parts[1], specials=parts[2]), Twin(*parts)
    rnd = random.Random(f"{name} {seed}")
    body = body_of(rnd, twin, 2, True)
    while not 2 <= most_tokens(body) <= LONGEST:
        body = body_of(rnd, twin, 2, True)
    texts = twin.texts_of(body, LONGEST)
    if not texts:
        with pytest.raises(EmptyConstraint):
            Matcher(Composition(body, "x"), vocabulary)
        return
    live = {text[:length] for text in texts for length in range(len(text) + 1)}
    for prefix in sorted(live):
        if any(one in twin.eos_ids and prefix[:at] in texts for at, one in enumerate(prefix)):
            continue  # where the text may end, a token that ends it does so, though a set may have it
        allowed = {one for one in range(len(twin.texts)) if (*prefix, one) in live}
        matcher = after(body, vocabulary, prefix)
        check_place(matcher, twin, allowed, prefix in texts)
        rest = matcher.witness()
        assert rest is not None and (*prefix, *rest) in texts, (body, prefix, rest)
        forced = tuple(matcher.forced())
        assert all(len(longer) < len(prefix) + len(forced) or longer[len(prefix):][: len(forced)] == forced
                   for longer in texts if longer[: len(prefix)] == prefix)  # fmt: skip
        spelled = matcher.forced_bytes()
        bytes_after = [
            b"".join(twin.texts[t] for t in text[len(prefix) :])
            for text in texts
            if text[: len(prefix)] == prefix
        ]
        assert all(one.startswith(spelled) for one in bytes_after), (body, prefix, spelled)
        for length in range(len(prefix)):
            matcher.rollback(1)
            if length == 0:
                check_place(
                    matcher,
                    twin,
                    {one for one in range(len(twin.texts)) if (*prefix[:-1], one) in live},
                    prefix[:-1] in texts,
                )


@pytest.mark.parametrize("name", VOCABULARIES)
@pytest.mark.parametrize("seed", range(8))
def test_unbounded_languages_have_the_sequences_of_the_definition(name: str, seed: int) -> None:
    """Every short sequence is read as the definition reads it; what is alive has a completion."""
    parts = VOCABULARIES[name]
    vocabulary, twin = Vocabulary.from_tokens(parts[0], parts[1], specials=parts[2]), Twin(*parts)
    rnd = random.Random(f"{name} {seed}")
    body = body_of(rnd, twin, 2, False)
    length = 3
    texts = twin.texts_of(body, length)
    try:
        start = Matcher(Composition(body, "x"), vocabulary)
    except EmptyConstraint:
        assert not texts
        return
    live = {text[:count] for text in texts for count in range(len(text) + 1)}

    def walk(matcher: Matcher, prefix: tuple[int, ...]) -> None:
        assert matcher.is_complete() == (prefix in texts)
        rest = matcher.witness()
        assert rest is not None and twin.accepts(body, (*prefix, *rest)), (body, prefix, rest)
        allowed = bits_of(matcher)
        assert {one for one in range(len(twin.texts)) if (*prefix, one) in live} <= allowed
        for one in range(len(twin.texts)):
            fork = matcher.fork()
            read = fork.advance(one)
            assert read == (one in allowed)
            if read and not fork.is_finished and len(prefix) < length:
                walk(fork, (*prefix, one))

    walk(start, ())


def test_every_token_is_one_step_of_the_set() -> None:
    """The mask of all tokens of a large vocabulary is made at once, and a second time it is a look-up."""
    letters = [bytes([97 + i, 97 + j, 97 + k]) for i, j, k in itertools.product(range(26), repeat=3)]
    vocabulary = Vocabulary.from_tokens([*letters, None], [len(letters)])
    matcher = Matcher(
        Composition(("repeat", ("tokens", (None, ((3, 3),), "here", False)), 0, None), "x"), vocabulary
    )
    assert bits_of(matcher) == set(range(len(letters) + 1)) - {3}
    assert matcher.advance(10) and not matcher.advance(3) and matcher.text == letters[10]


LEXED: tuple[list[bytes | None], list[int], dict[str, int]] = (
    [b"a", b"b", b"ab", b"1", b" ", b"1 ", b"a1", None, None], [7], {"<s>": 8},
)  # fmt: skip


def lark_of(rnd: random.Random) -> str:
    """A small grammar of terminals that overlap, sets of tokens, and recursion."""
    items = [
        "NAME",
        "NUMBER",
        '"a"',
        "<[0-3]>",
        "<[2]>",
        "<[^4-6]>",
        "<[6,8]>",
        "<s>",
        "<[*]>",
        "x",
        "y",
        "(x y)?",
        "y*",
    ]

    def rule() -> str:
        return " | ".join(
            " ".join(rnd.choice(items) for _ in range(rnd.randint(1, 3))) for _ in range(rnd.randint(1, 3))
        )

    ignored = rnd.choice(['%ignore " "', ""])
    return (
        f"start: {rule()}\nx: {rule()} | NAME\ny: {rule()} | <[1]>\nNAME: /[ab]+/\nNUMBER: /1+/\n{ignored}\n"
    )


@pytest.mark.parametrize("lexer", ["longest", "lark"])
@pytest.mark.parametrize("seed", range(6))
def test_lexed_grammars_read_what_their_masks_allow(lexer: Any, seed: int) -> None:
    vocabulary = Vocabulary.from_tokens(LEXED[0], LEXED[1], specials=LEXED[2])
    rnd = random.Random(f"{lexer} {seed}")
    for _ in range(4):
        source = lark_of(rnd)
        try:
            matcher = Matcher(lark(source, lexer=lexer, contextual=rnd.random() < 0.3), vocabulary)
        except EmptyConstraint:  # a name next to a name
            continue
        for _ in range(8):
            allowed = bits_of(matcher)
            assert allowed == {one for one in range(vocabulary.size) if matcher.accepts([one])}, (
                source,
                matcher.tokens,
            )
            assert (7 in allowed) == matcher.is_complete()
            rest = matcher.witness()
            if rest is None:  # a name next to a name, where the search for a completion has met its bound
                assert matcher.unproven, (source, matcher.tokens)
                break
            done = matcher.fork()
            assert all(map(done.advance, rest)) and done.is_complete(), (source, matcher.tokens, rest)
            onward = sorted(allowed - {7})
            if not onward:
                break
            assert matcher.advance(rnd.choice(onward))
