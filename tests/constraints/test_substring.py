"""Runs of adjacent pieces of a text, compared with Python's slices."""

from __future__ import annotations

import itertools
import random

import pytest

import structgen as sg
from structgen import _core
from structgen.constraints import expressions
from structgen.constraints.expressions import EPSILON, NOTHING, alternate, substring
from structgen.errors import EmptyConstraint, LimitExceeded


def runs_of(pieces: list[str] | str, *, empty: bool) -> set[str]:
    """All runs, written out."""
    places = range(len(pieces) + 1)
    runs = {"".join(pieces[i:j]) for i in places for j in places if i < j}
    return runs | {""} if empty else runs - {""}


def accepted(expression: expressions.RE, texts: list[str]) -> list[str]:
    space = _core.RegexSpace()
    compiled = space.compile(expression)
    return [text for text in texts if space.matches(compiled, text.encode())]


TEXTS = ["".join(letters) for n in range(6) for letters in itertools.product("abc", repeat=n)]


@pytest.mark.parametrize("seed", range(60))
def test_runs_of_pieces(seed: int) -> None:
    random_ = random.Random(seed)
    letters = "ab" if seed % 2 else "abc"
    pieces = [
        "".join(random_.choices(letters, k=random_.randrange(0, 4))) for _ in range(random_.randrange(0, 9))
    ]
    for empty in (False, True):
        expected = runs_of(pieces, empty=empty)
        longer = [text + end for text in expected for end in ("", "a", "b")]
        texts = list(dict.fromkeys([*TEXTS, *longer]))
        expression = substring(pieces, empty=empty)
        assert set(accepted(expression, texts)) == expected & set(texts), pieces


@pytest.mark.parametrize("seed", range(40))
def test_runs_of_characters(seed: int) -> None:
    random_ = random.Random(seed)
    text = "".join(random_.choices("ab" if seed % 3 else "a\u00e9\U0001f600", k=random_.randrange(0, 40)))
    expected = runs_of(text, empty=True)
    longer = [part + end for part in expected for end in ("", "a", "b", "\u00e9")]
    texts = list(dict.fromkeys([*TEXTS, *longer]))
    assert set(accepted(substring(text), texts)) == {one for one in texts if one in text}


def test_repetitive_texts() -> None:
    for text in ("a" * 300, "ab" * 150, "a" * 100 + "b" + "a" * 100, ("a" * 9 + "b") * 20):
        texts = [
            text[i:j] + end for i in range(0, 120, 7) for j in range(i, 300, 11) for end in ("", "a", "b")
        ]
        assert accepted(substring(text), texts) == [one for one in texts if one in text]
        pieces = [text[i : i + 3] for i in range(0, len(text), 3)]
        expected = runs_of(pieces, empty=True)
        assert accepted(substring(pieces), texts) == [one for one in texts if one in expected]


def test_inside_other_expressions() -> None:
    part = substring(["ab", "a", "b"])
    expression = expressions.concat([part, ("literal", "c"), expressions.repeat(part, 2, 3)])
    runs = runs_of(["ab", "a", "b"], empty=True)
    expected = {
        a + "c" + "".join(rest) for a in runs for n in (2, 3) for rest in itertools.product(runs, repeat=n)
    }
    texts = ["".join(letters) for n in range(8) for letters in itertools.product("abc", repeat=n)]
    assert set(accepted(expression, texts)) == expected & set(texts)
    other = expressions.complement(substring("abcab"))
    assert accepted(other, TEXTS) == [text for text in TEXTS if text not in "abcab"]


def test_small_ones_and_surrogates() -> None:
    assert substring("") == substring([]) == substring(["", ""]) == EPSILON
    assert substring([], empty=False) == NOTHING
    assert substring(["ab"], empty=False) == ("literal", "ab")
    assert substring(["a", "b"]) == substring("ab")
    parted = substring(["ab", "\ud800", "c", "d"], empty=False)
    assert parted == alternate([("literal", "ab"), substring("cd", empty=False)])


def test_masks_agree_with_steps() -> None:
    text = "the cat sat on the mat, the dog sat on the log"
    tokens = [bytes([byte]) for byte in range(256)]
    words = sorted(
        {text[i:j] for i in range(len(text)) for j in range(i + 2, min(len(text), i + 7))} | {"the t", "ton"}
    )
    vocabulary = sg.Vocabulary.from_tokens(
        [*tokens, *(word.encode() for word in words), None], [256 + len(words)]
    )
    pieces = text.replace(" ", " |").split("|")
    for constraint, runs in ((sg.substring(text), text), (sg.substring(pieces), None)):
        matcher = sg.Matcher(constraint, vocabulary)
        random_ = random.Random(5)
        for _ in range(12):
            mask = matcher.mask()
            allowed = [i for i in range(vocabulary.size) if int(mask[i >> 5]) >> (i & 31) & 1]
            for i, word in enumerate(words):
                assert (256 + i in allowed) == (matcher.accepts([256 + i]) == 1)
                if runs is not None:
                    assert (256 + i in allowed) == (matcher.text.decode() + word in runs)
            spelled = [i for i in allowed if i < 256 + len(words)]
            if not spelled:
                break
            assert matcher.advance(random_.choice(spelled))


def test_a_long_text_takes_linear_work() -> None:
    random_ = random.Random(1)
    words = ["".join(random_.choices("etaoinshrdlu", k=random_.randrange(2, 9))) + " " for _ in range(40_000)]
    # Compiling may take four times as much: 40 units for each of the 240,000 characters.
    vocabulary = sg.Vocabulary.of_bytes().with_limits(call_steps=2_400_000)
    for constraint in (sg.substring("".join(words)), sg.substring(words), sg.substring("ab" * 120_000)):
        matcher = sg.Matcher(constraint, vocabulary)
        assert not matcher.explain("zz").ok
        matcher.mask()
    assert sg.Matcher(sg.substring(words), vocabulary).explain("".join(words[2000:2010])).ok


def test_limits_and_mistakes() -> None:
    with pytest.raises(LimitExceeded) as caught:
        sg.substring("a" * (expressions.MAX_SUBSTRING_CHARACTERS + 1))
    assert caught.value.limit == "substring_characters"
    with pytest.raises(sg.errors.ConstraintError):
        sg.substring([1])  # type: ignore[list-item]
    with pytest.raises(sg.errors.ConstraintError):
        sg.substring(b"abc")  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(12))
def test_what_the_vocabulary_cannot_spell_is_left_out(seed: int) -> None:
    random_ = random.Random(seed)
    pieces = ["".join(random_.choices("abc", k=random_.randrange(1, 4))) for _ in range(8)]
    vocabulary = sg.Vocabulary.from_tokens([b"a", b"b", b"ab", b"ba", b"bb", None], [5])  # there is no c
    runs = {run for run in runs_of(pieces, empty=False) if "c" not in run}
    if not runs:
        with pytest.raises(EmptyConstraint):
            sg.Matcher(sg.substring(pieces), vocabulary)
        return
    matcher = sg.Matcher(sg.substring(pieces), vocabulary)
    for _ in range(6):
        mask = int(matcher.mask()[0])
        read = matcher.text.decode()
        allowed = [i for i in range(5) if mask >> i & 1]
        expected = [
            i
            for i in range(5)
            if any(run.startswith(read + (vocabulary.token_bytes(i) or b"").decode()) for run in runs)
        ]
        assert allowed == expected
        assert matcher.is_complete() == (read in runs)
        if not allowed:
            break
        assert matcher.advance(random_.choice(allowed))


def test_in_templates_and_with_other_constraints() -> None:
    quotation = sg.substring("one two three two one", by="words")
    joined = quotation & sg.regex("t.*|o.*e")
    matcher = sg.Matcher(joined, sg.Vocabulary.of_bytes())
    assert [text for text in ("two", "three two", "one", "ne", " two", "two one") if matcher.explain(text).ok] == [
        "two", "three two", "one", "two one",
    ]  # fmt: skip
    assert sg.Matcher(quotation, sg.Vocabulary.of_bytes()).witness() is not None
