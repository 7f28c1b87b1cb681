"""Reasoning with a cap in tokens: never more tokens, the answer stays reachable, mask and step agree."""

from __future__ import annotations

import random

import numpy as np
import pytest

import structgen as sg
from structgen.capped_matcher import CappedMatcher
from structgen.errors import CombinationError, EmptyConstraint, OptionError
from structgen.matcher import fill_masks

_BYTES = [bytes([byte]) for byte in range(256)]
_LONGER = [
    b"</", b"think", b"a<", b"</think>\n", b"ab", b"\xd9\x80", b"x</think>", b"k>{", b"<think>a", b"nk>12", b"\xb3\xe2",
]  # fmt: skip
VOCABULARIES = {
    "bytes": sg.Vocabulary.of_bytes(),
    "longer tokens": sg.Vocabulary.from_tokens([*_BYTES, None, *_LONGER], [256]),
    "markers are tokens": sg.Vocabulary.from_tokens(
        [*_BYTES, None, None, None, *_LONGER], [256], specials={"<think>": 257, "</think>": 258}
    ),
}


def allowed(matcher: sg.Matcher) -> list[int]:
    bits = np.unpackbits(matcher.mask().view(np.uint8), bitorder="little")
    return [int(token) for token in np.flatnonzero(bits)]


def reasoning_tokens(vocabulary: sg.Vocabulary, tokens: list[int], begin: bytes = b"<think>") -> int:
    """Return how many tokens have a byte between the markers: the slow twin of the count."""
    markers = set(vocabulary.specials.values())
    data = vocabulary.spelled_bytes(tokens)
    end = data.index(b"</think>")
    count = place = 0
    for token in tokens:
        size = len(vocabulary.spelled_bytes([token]))
        count += token not in markers and place + size > len(begin) and place < end
        place += size
    return count


@pytest.mark.parametrize("cap", [0, 1, 2, 3, 5, 9])
@pytest.mark.parametrize("name", VOCABULARIES)
def test_random_texts_keep_the_cap_and_end(name: str, cap: int) -> None:
    vocabulary = VOCABULARIES[name]
    for seed in range(12):
        rng = random.Random(f"{name} {cap} {seed}")
        matcher, tokens = sg.Matcher(sg.reasoning(bool, max_tokens=cap), vocabulary), []
        assert isinstance(matcher, CappedMatcher)
        while not matcher.is_finished:
            found = allowed(matcher)
            assert found, matcher.text
            assert matcher.allowed_count() == len(found)
            if seed < 2:
                for token in range(vocabulary.size):
                    is_read = matcher.advance(token)
                    assert is_read == (token in found), (token, matcher.text)
                    matcher.rollback(is_read)
            forced = matcher.forced()
            assert matcher.accepts(forced) == len(forced) and (not forced or found == forced[:1])
            ends = matcher.witness()
            assert ends is not None and matcher.accepts(ends) == len(ends)
            plain = [token for token in found if token < 256]
            token = rng.choice(plain if plain and rng.random() < 0.5 else found)
            assert matcher.advance(token)
            tokens.append(token)
        assert reasoning_tokens(vocabulary, tokens) <= cap


def test_the_whole_cap_can_be_used() -> None:
    for name, vocabulary in VOCABULARIES.items():
        matcher = sg.Matcher(sg.reasoning(bool, max_tokens=6), vocabulary)
        opened = [257] if name == "markers are tokens" else list(b"<think>")
        closed = [258] if name == "markers are tokens" else list(b"</think>")
        assert matcher.accepts([*opened, *b"abcdef", *closed, *b"true"]) == len(opened) + 6 + len(closed) + 4
        assert matcher.accepts([*opened, *b"abcdefg"]) == len(opened) + 6


def test_a_marker_that_turns_out_to_be_reasoning_counts() -> None:
    matcher = sg.Matcher(sg.reasoning(bool, max_tokens=6), VOCABULARIES["bytes"])
    assert matcher.accepts(list(b"<think>ab</thx")) == len(b"<think>ab</th")
    assert matcher.accepts(list(b"<think>ab</tx</think>true")) == len(b"<think>ab</tx</think>true")
    assert matcher.accepts(list(b"<think>ab</txy")) == len(b"<think>ab</tx")


def test_a_prompt_that_has_started_and_optional_reasoning() -> None:
    vocabulary = VOCABULARIES["bytes"]
    started = sg.Matcher(sg.reasoning(bool, open=None, max_tokens=2), vocabulary)
    assert started.accepts(list(b"ab</think>true")) == 14 and started.accepts(list(b"abc")) == 2
    optional = sg.Matcher(sg.reasoning(bool, optional=True, max_tokens=2), vocabulary)
    assert optional.accepts(list(b"true")) == 4
    assert (
        optional.accepts(list(b"<think>ab</think>true")) == 21 and optional.accepts(list(b"<think>abc")) == 9
    )


def test_forks_rollback_and_rows_of_masks() -> None:
    vocabulary = VOCABULARIES["bytes"]
    matcher = sg.Matcher(sg.reasoning(bool, max_tokens=3), vocabulary)
    for byte in b"<think>ab":
        assert matcher.advance(byte)
    fork = matcher.fork()
    assert fork.advance(ord("c")) and allowed(fork) == [ord("<")]
    assert len(allowed(matcher)) > 100
    out = np.zeros((2, vocabulary.words), dtype=np.int32)
    fill_masks([matcher, fork], out)
    assert (out[0] == matcher.mask()).all() and (out[1] == fork.mask()).all()
    fork.rollback(1)
    assert allowed(fork) == allowed(matcher)
    fork.reset()
    assert allowed(fork) == [ord("<")] and fork.text == b""


def test_processors_of_transformers_keep_the_cap() -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from structgen.integrations.transformers import ConstraintProcessor

    vocabulary = VOCABULARIES["longer tokens"]
    processor = ConstraintProcessor(sg.reasoning(bool, max_tokens=4), vocabulary)
    ids, end = torch.tensor([[0]]), vocabulary.eos_ids[0]
    torch.manual_seed(0)
    while int(ids[0, -1]) != end:
        scores = processor(ids, torch.randn(1, vocabulary.size))
        ids = torch.cat([ids, scores.softmax(-1).multinomial(1)], dim=1)
    tokens = ids[0, 1:-1].tolist()
    assert reasoning_tokens(vocabulary, tokens) <= 4
    assert vocabulary.spelled(tokens).endswith(("true", "false"))


def test_a_capped_constraint_cannot_be_an_operand() -> None:
    capped = sg.reasoning(bool, max_tokens=3)
    for combine in (
        lambda: sg.repeat(capped, 2),
        lambda: capped + "x",
        lambda: "x" | capped,
        lambda: sg.optional(capped),
    ):
        with pytest.raises(CombinationError, match="max_tokens cannot be part"):
            sg.Matcher(combine(), VOCABULARIES["bytes"])


def test_bad_caps() -> None:
    for wrong in (-1, True, 1.5, "3"):
        with pytest.raises(OptionError, match="max_tokens is"):
            sg.reasoning(bool, max_tokens=wrong)  # type: ignore[arg-type]
    letters = sg.Vocabulary.from_tokens([b"a", b"true", b"false", b"<think>", b"</think>true", None], [5])
    with pytest.raises(EmptyConstraint, match="spell the closing marker '</think>' alone"):
        sg.Matcher(sg.reasoning(bool, max_tokens=3), letters)


def test_equal_caps_are_equal() -> None:
    assert sg.reasoning(int, max_tokens=3) == sg.reasoning(int, max_tokens=3)
    assert sg.reasoning(int, max_tokens=3) != sg.reasoning(int, max_tokens=4)
    assert sg.reasoning(int, max_tokens=3) != sg.reasoning(int)
    assert len({sg.reasoning(int, max_tokens=3), sg.reasoning(int, max_tokens=3)}) == 1
