"""The public canvas: pieces, questions, what it says where nothing fits."""

from __future__ import annotations

import itertools
import re
from collections import Counter

import numpy as np
import pytest

import structgen as sg
from structgen.diffusion import GAP, Canvas, Hole
from structgen.diffusion.canvas import Piece
from structgen.errors import (
    CanvasInfeasible,
    CombinationError,
    EmptyConstraint,
    LimitExceeded,
    OptionError,
    TypeNotSupported,
)

BYTES = sg.Vocabulary.of_bytes()
JSON = sg.grammar("json")


def test_a_canvas_is_filled_piece_by_piece() -> None:
    canvas = Canvas(JSON, BYTES, ['{"a": ', Hole(3), "}"])
    assert len(canvas) == 10 and canvas.open_cells == [6, 7, 8]
    assert canvas.cells == (slice(0, 6), slice(6, 9), slice(9, 10))
    assert canvas.text() == '{"a": ░░░}' and canvas.is_exact
    assert ord("}") not in canvas.allowed(6) and ord("[") in canvas.allowed(6)
    fork = canvas.fork()
    assert canvas.commit(6, ord("[")) and not canvas.commit(8, ord("}")) and canvas.commit(8, ord("]"))
    assert canvas.text() == '{"a": [░]}' and fork.text() == '{"a": ░░░}'
    assert canvas.allowed(6).tolist() == [ord("[")]
    assert set(canvas.allowed(7)) == set(b"0123456789 \t\r\n")
    canvas.reopen(8)
    assert canvas.tokens[8] is None and ord("0") not in canvas.allowed(8)
    assert np.array_equal(canvas.masks()[7], canvas.mask(7))
    assert canvas.completion() is not None


def test_holes_of_several_lengths_and_gaps() -> None:
    some = Canvas(sg.regex("a{2,4}b"), BYTES, ["a", Hole(0, 9), "b"])
    assert not some.is_exact and some.completable() and set(some.allowed(1)) == {ord("a")}
    assert len(some.allowed(5)) == 0
    gap = Canvas(JSON, BYTES, ['{"a": ', GAP, "]}"])
    assert gap.completable() and gap.completion() is None and gap.open_cells == []
    assert ord("[") in gap.allowed(6) and gap.text() == '{"a": …]}'
    with pytest.raises(OptionError, match="gap"):
        gap.best(np.zeros((len(gap), BYTES.size), dtype=np.float32))


@pytest.mark.parametrize(
    ("pieces", "start", "end", "said"),
    [
        (['{"a" 3', Hole(5)], 2, 6, "has 'a\" 3' (cells 2 to 5)"),
        (["[", Hole(4), "tru]"], 7, 9, "ends with 'u]'"),
        (["[", Hole(9), "x"], 10, 11, "ends with 'x' (cell 10)"),
        (["]", Hole(2)], 0, 1, "begins with ']' (cell 0)"),
        (["[", GAP, "] ]"], 0, 0, ""),
    ],
)
def test_what_is_to_blame(pieces: list[Piece], start: int, end: int, said: str) -> None:
    canvas = Canvas(JSON, BYTES, pieces)
    if not said:
        canvas.check()
        return
    with pytest.raises(CanvasInfeasible) as caught:
        canvas.check()
    assert said in str(caught.value)
    assert (caught.value.start, caught.value.end) == (start, end)


def test_too_few_cells() -> None:
    with pytest.raises(CanvasInfeasible, match="takes 3") as caught:
        Canvas(sg.regex("a(bcd|bcde)f"), BYTES, ["a", Hole(2), "f"]).check()
    assert caught.value.needed == 3
    with pytest.raises(CanvasInfeasible, match="not right"):
        Canvas(sg.regex("a(bcd|bcde)f"), BYTES, ["a", Hole(6), "f"]).check()


def test_what_no_canvas_takes() -> None:
    python = sg.grammar("python")
    with pytest.raises(CombinationError, match="indented"):
        Canvas(python, BYTES, [Hole(4)])
    with pytest.raises(CombinationError, match="uniqueItems"):
        Canvas(sg.json_schema({"type": "array", "uniqueItems": True}), BYTES, [Hole(4)])
    with pytest.raises(EmptyConstraint):
        Canvas(sg.regex("a") & sg.regex("b"), BYTES, [Hole(1)])
    with pytest.raises(OptionError, match="made of tokens"):
        Canvas(JSON, BYTES, [3.5])  # type: ignore[list-item]
    with pytest.raises(OptionError, match="not a token"):
        Canvas(JSON, BYTES, [100_000])
    with pytest.raises(OptionError, match="a hole"):
        Hole(4, 2)
    with pytest.raises(OptionError, match="most of a hole"):
        Hole(0, 10**9)


def test_what_a_gap_takes_does_not_depend_on_how_far_it_is() -> None:
    """Places around a gap lead back to each other, also across the words in which sets of places are kept."""
    pieces = [bytes([byte]) for byte in range(32, 127)]
    several = [b"1,", b",1", b"],[", b'","', b'":', b"1]", b"[[", b"]]", b',"a', b"[1,[2", b"]],[["]
    known = sg.Vocabulary.from_tokens([None, *pieces, *several], [0])
    found = set()
    for count in range(80):
        numbers = [1 + ord(character) - 32 for character in "1," * count]
        canvas = Canvas(JSON, known, [1 + ord("[") - 32, *numbers, GAP, "]"])
        found.add(tuple(canvas.allowed(1 + len(numbers))))
    assert len(found) <= 2  # after the bracket, and after a comma
    assert all(len(one) > 20 for one in found)


@pytest.mark.parametrize(
    ("pattern", "pieces"),
    [
        ("a*", [Hole(1, 2)]),
        ("", [Hole(3), Hole(0, 1)]),
        ("(ab)*", [Hole(1), Hole(0, 2), Hole(1)]),
        ("a+b?", [Hole(0, 3), Hole(1)]),
    ],
)
def test_closed_cells_and_cells_that_hold_none(pattern: str, pieces: list[Hole]) -> None:
    """All fillings, with closing tokens in all cells after the text and holes that may be shorter before its end."""
    vocabulary = sg.Vocabulary.from_tokens([b"a", b"b", None], [2])
    canvas = Canvas(sg.regex(pattern), vocabulary, pieces, closing=[2])
    cells = len(canvas)
    optional = {
        cell
        for piece, places in zip(pieces, canvas.cells, strict=True)
        for cell in range(places.start + piece.least, places.stop)
    }
    log_p = np.log(np.random.default_rng(1).dirichlet(np.ones(3), size=cells)).astype(np.float32)
    weights: dict[tuple[int | None, ...], float] = {}
    for filled in itertools.product([0, 1, 2, None], repeat=cells):
        held = [token for token in filled if token is not None]
        left = [cell for cell, token in enumerate(filled) if token is None]
        text = "".join("ab"[token] for token in held if token != 2)
        closed = held.index(2) if 2 in held else len(held)
        if 2 in filled and None in filled[filled.index(2) :]:
            continue
        # Of a hole the last cells are left.
        in_order = all(
            cell in optional and (cell + 1 == places.stop or filled[cell + 1] is None)
            for cell in left
            for places in canvas.cells
            if places.start <= cell < places.stop
        )
        if in_order and set(held[closed:]) <= {2} and re.fullmatch(pattern, text):
            weights[filled] = float(
                sum(log_p[cell, token] for cell, token in enumerate(filled) if token is not None)
            )
    best = canvas.best(log_p)
    assert best is not None and best[1] == pytest.approx(max(weights.values()), abs=1e-4)
    assert weights[tuple(best[0])] == pytest.approx(best[1], abs=1e-4)
    total = float(np.logaddexp.reduce(list(weights.values())))
    counts: Counter[tuple[int | None, ...]] = Counter()
    draws = 4_000
    for seed in range(draws):
        drawn = canvas.draw(log_p, seed)
        assert drawn is not None and drawn[1] == pytest.approx(total, abs=1e-3)
        counts[tuple(drawn[0])] += 1
    # Total variation: the mean over such samples is below sqrt(k / draws) / 2; 4 times that has a tiny chance.
    distance = sum(abs(counts[one] / draws - np.exp(weight - total)) for one, weight in weights.items()) / 2
    assert set(counts) <= set(weights) and distance < 2 * np.sqrt(len(weights) / draws)


def test_a_gap_takes_no_token() -> None:
    canvas = Canvas(sg.regex("abbbc"), sg.Vocabulary.of_bytes(), ["a", GAP, "c"])
    with pytest.raises(OptionError, match="cell 1 is a gap"):
        canvas.commit(1, ord("b"))
    assert canvas.completable()


def test_what_is_after_a_text_may_be_closed_before_a_gap() -> None:
    vocabulary = sg.Vocabulary.from_tokens([b"a", b"b", None], [2])
    assert Canvas(sg.regex("a"), vocabulary, [Hole(2), GAP], closing=[2]).completable()
    assert Canvas(sg.regex("a*"), vocabulary, [Hole(2), GAP], closing=[2]).allowed(1).tolist() == [0, 2]


def test_completions_close_what_has_to_be_closed() -> None:
    vocabulary = sg.Vocabulary.from_tokens([b"a", b"b", None], [2])
    assert Canvas(sg.regex("a"), vocabulary, [Hole(3)], closing=[2]).completion() == [0, 2, 2]


def test_bad_arguments_of_canvases() -> None:
    vocabulary = sg.Vocabulary.of_bytes()
    for options, said in (({"closing": [999]}, "999 in closing"), ({"closing": ["a"]}, "'a' in closing")):
        with pytest.raises(OptionError, match=said):
            Canvas(sg.regex("a"), vocabulary, [Hole(1)], **options)  # type: ignore[arg-type]
    for pieces in (5, "aa", None):
        with pytest.raises(OptionError, match="pieces is"):
            Canvas(sg.regex("a"), vocabulary, pieces)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="not a constraint") as reported:
        Canvas("json", vocabulary, [Hole(1)])  # type: ignore[arg-type]
    assert reported.value.hint == "sg.grammar('json')"
    canvas = Canvas(sg.regex("a*"), vocabulary, [Hole(2)])
    weights = np.zeros((2, vocabulary.size), dtype=np.float32)
    for cell in (-1, 2, 1.0, "0", True, None):
        for ask in (
            canvas.mask,
            canvas.allowed,
            canvas.is_open,
            canvas.reopen,
            lambda one: canvas.commit(one, 97),
        ):
            with pytest.raises(OptionError, match="cell is .*from 0 to 1"):
                ask(cell)  # type: ignore[arg-type]
    for token in (-1, vocabulary.size, 1.5):
        with pytest.raises(OptionError, match="token is"):
            canvas.commit(0, token)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="seed is -1"):
        canvas.draw(weights, -1)
    for wrong in (np.nan, np.inf):
        weights[0, 3] = wrong
        with pytest.raises(OptionError, match="not log probabilities"):
            canvas.best(weights)
    for many in ([GAP] * 5_000, [Hole(0, 1)] * 10_000):
        with pytest.raises(LimitExceeded, match="side by side"):
            Canvas(sg.regex("a*"), vocabulary, many).completable()
    wide = Canvas(sg.grammar("cpp"), vocabulary, [Hole(24)])
    with pytest.raises(LimitExceeded, match="canvas_bytes"):
        wide.best(np.zeros((24, vocabulary.size), dtype=np.float32))


def test_what_a_canvas_was_made_with_can_be_opened() -> None:
    vocabulary = sg.Vocabulary.of_bytes()
    canvas = Canvas(sg.regex("ab|cd"), vocabulary, ["a", Hole(1)])
    assert canvas.allowed(1).tolist() == [ord("b")]
    canvas.reopen(0)
    assert canvas.is_open(0) and canvas.allowed(0).tolist() == [ord("a"), ord("c")]
    assert canvas.commit(0, ord("c")) and canvas.allowed(1).tolist() == [ord("d")]


def test_blame_knows_of_closing_tokens_and_of_large_grammars() -> None:
    vocabulary = sg.Vocabulary.from_tokens([b"a", b"b", None], [2])
    with pytest.raises(CanvasInfeasible) as reported:
        Canvas(sg.regex("aaaa"), vocabulary, [Hole(2), 2], closing=[2]).check()
    assert reported.value.needed == 4
    code = sg.Vocabulary.of_bytes()
    with pytest.raises(CanvasInfeasible) as reported:
        Canvas(sg.grammar("cpp"), code, ["int f() { return ", Hole(1), "1}"]).check()
    with pytest.raises(CanvasInfeasible, match="░"):
        Canvas(sg.regex("a.b|c.d"), code, ["a", Hole(1), "d"]).check()
    with pytest.raises(TypeNotSupported, match="is a value, not a type"):
        Canvas({"type": "integer"}, code, [Hole(1)])
