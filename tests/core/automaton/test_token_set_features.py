"""Sets of tokens in completions, explanations, joins, canvases, infilling and generation."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import structgen as sg
from structgen import _core
from structgen.errors import CombinationError, ConstraintError, VocabularyMismatch
from tests.oracles.scripted_model import ScriptedModel

BYTES = sg.Vocabulary.of_bytes(specials=["<|a|>", "<|b|>"])
A, B = BYTES.specials["<|a|>"], BYTES.specials["<|b|>"]


def test_members_are_numbers_texts_and_ranges() -> None:
    def allowed(constraint: sg.Constraint) -> list[int]:
        bits = np.unpackbits(sg.Matcher(constraint, BYTES).mask().view(np.uint8), bitorder="little")
        return np.flatnonzero(bits).tolist()

    assert allowed(sg.token(97)) == allowed(sg.token("a")) == [97]
    assert allowed(sg.token("<|b|>")) == allowed(sg.token(B)) == [B]
    assert allowed(sg.tokens([5, range(10, 13), "a", "<|a|>"])) == [5, 10, 11, 12, 97, A]
    assert allowed(sg.tokens(range(250, 1000))) == [250, 251, 252, 253, 254, 255, A, B]
    assert allowed(sg.tokens(range(250, 1000), exclude=[251, "<|b|>"])) == [250, 252, 253, 254, 255, A]
    assert allowed(sg.tokens(exclude=range(2, 256))) == [0, 1, A, B]
    assert allowed(sg.tokens()) == [number for number in range(BYTES.size) if number != 256]
    assert allowed(sg.token(256)) == [256]  # the end of a text, named by itself
    assert allowed(sg.tokens("a")) == [97]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: sg.token(1.5), "names tokens by number or text, not by 1.5, a float"),  # type: ignore[arg-type]
        (lambda: sg.tokens([True]), "names tokens by number or text, not by True"),
        (lambda: sg.tokens(exclude=[None]), "names tokens by number or text"),  # type: ignore[list-item]
        (lambda: sg.token(-1), "no token has the number -1"),
        (lambda: sg.token(2**32), "no token has the number"),
        (lambda: sg.tokens(["", 5]), "cannot name a token by the empty text"),
        (lambda: sg.token("\ud800"), "lone surrogate"),
        (lambda: sg.tokens(range(0, 9, 2)), "without a step"),
    ],
)
def test_invalid_members_are_refused(wrong: Any, message: str) -> None:
    with pytest.raises(ConstraintError, match=message) as error:
        wrong()
    assert error.value.hint


@pytest.mark.parametrize(
    "constraint", [sg.token(999), sg.tokens("xyz"), sg.tokens(exclude="xyz"), sg.tokens([1, 700])]
)
def test_a_vocabulary_without_the_token(constraint: sg.Constraint) -> None:
    with pytest.raises(
        VocabularyMismatch, match="of the vocabulary has the text|not in the vocabulary"
    ) as error:
        sg.Matcher(constraint, BYTES)
    assert error.value.hint and str(error.value.where).startswith("token")


def test_completions_write_one_token_of_a_set() -> None:
    constraint = (
        sg.regex("[0-9]{2}") + sg.tokens([A, range(100, 120)]) + sg.repeat(sg.tokens(exclude="x"), 2, 2)
    )
    matcher = sg.Matcher(constraint, BYTES)
    rest = matcher.witness()
    assert rest is not None and len(rest) == 5 and rest[2] in range(100, 120)
    assert all(map(matcher.advance, rest)) and matcher.is_complete()
    matcher.reset()
    assert matcher.witness_text() is None and "read whole" in str(matcher.search_failure)
    assert matcher.least_tokens(10) == 5


def test_forced_tokens_and_bytes() -> None:
    one = sg.Matcher(sg.regex("ab") + sg.token("<|a|>") + sg.regex("c"), BYTES)
    assert one.forced() == [97, 98, A, 99] and one.forced_bytes() == b"ab"
    some = sg.Matcher(sg.regex("ab") + (sg.token(120) | sg.regex("cd")), BYTES)
    assert some.forced() == [97, 98] and some.forced_bytes() == b"ab"
    text = sg.Matcher(sg.token(97) + sg.regex("b"), BYTES)
    assert text.forced() == [97, 98] and text.forced_bytes() == b""


def test_texts_and_tokens() -> None:
    named, special, plain = sg.tokens(), sg.token("<|a|>"), sg.regex("a")
    assert sg.Matcher(named, BYTES).names_text_tokens
    assert not sg.Matcher(special, BYTES).names_text_tokens and not sg.Matcher(plain, BYTES).names_text_tokens
    matcher = sg.Matcher(sg.repeat(named, 3, 3), BYTES)
    assert all(map(matcher.advance, [97, A, 98])) and matcher.text == b"ab"
    assert sg.Matcher(named, BYTES).viable_bytes("a") == 0


def test_explanations_start_after_the_last_token_that_is_read_whole() -> None:
    record = sg.json_schema({"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]})
    matcher = sg.Matcher(sg.regex("[a-z]+") + sg.token("<|a|>") + record, BYTES)
    assert all(map(matcher.advance, [*b"so", A]))
    shown = matcher.explain('{"x": "y"}')
    assert (shown.position, shown.instance, shown.viable) == (len('so{"x": '), "/x", False)
    assert [rule.keyword for rule in shown.rules] == ["type"]
    assert matcher.explain('{"x": 1}').ok
    before = sg.Matcher(sg.gbnf('root ::= "x" !<[97]>'), BYTES).explain("x")
    assert before.viable and not before.ok and before.expected == ("<[^97]>",)


def test_joins_are_refused() -> None:
    with pytest.raises(CombinationError, match="tokens that are read as a whole, <\\[5\\]>"):
        sg.token(5) & sg.regex(".*")
    with pytest.raises(CombinationError):
        sg.dispatch({"<t>": sg.token(5)}, forbidden="xy")


def test_infilling_is_refused_for_sets_of_tokens() -> None:
    with pytest.raises(CombinationError, match="names tokens by number"):
        sg.infill(ScriptedModel(""), "a {{x}} b", x=sg.tokens(range(97, 100)))


def test_canvases_hold_sets_of_tokens_without_text() -> None:
    vocabulary = sg.Vocabulary.from_tokens([b"a", b"b", b"ab", None, None, None, None], [6])
    program = vocabulary.engine.compile(sg.gbnf('root ::= <[3-5]> [ab]* (<[4]> | "b" <[3,5]>)').lower())
    texts = [
        tokens for tokens in itertools.product(range(6), repeat=3)
        if all(map((matcher := _core.Matcher(program)).advance, tokens)) and matcher.is_complete()
    ]  # fmt: skip
    canvas = _core.Canvas(_core.CanvasProgram(program), [-1, -1, -1], [], [], 20_000, 1 << 26)
    for place in range(3):
        out = np.zeros((3, vocabulary.words), dtype=np.int32)
        canvas.masks(out)
        bits = np.unpackbits(out[place].view(np.uint8), bitorder="little")
        assert set(np.flatnonzero(bits).tolist()) == {tokens[place] for tokens in texts}
    with pytest.raises(ValueError, match="names tokens of text by number"):
        _core.CanvasProgram(vocabulary.engine.compile(sg.gbnf("root ::= <[0]>").lower()))


class _Decoding(ScriptedModel):
    def decode(self, tokens: Sequence[int]) -> str:
        return bytes(self.vocabulary.decode(tokens)).decode()


def test_generation_and_sampling_over_tokens() -> None:
    """The model's tokens are drawn from the sets, and the text of the result is what they spell."""
    constraint = sg.token("h") + sg.repeat(sg.tokens(exclude="z"), 4, 4)
    assert sg.run(ScriptedModel("hello"), "say", constraint, temperature=0).text == "hello"
    with pytest.raises(VocabularyMismatch):
        sg.run(ScriptedModel("hello"), "say", sg.token("hello"))
    drawn = sg.sample(_Decoding("hello"), "say", sg.tokens(["a", "b"]) + sg.regex("[cd]"), n=8, seed=1)
    assert set(drawn.texts) <= {"ac", "ad", "bc", "bd"} and len(drawn.texts)
