"""The public canvas: pieces, questions, what it says where nothing fits."""

from __future__ import annotations

import numpy as np
import pytest

import structgen as sg
from structgen.diffusion import GAP, Canvas, Hole
from structgen.diffusion.canvas import Piece
from structgen.errors import CanvasInfeasible, CombinationError, EmptyConstraint, OptionError

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
    with pytest.raises(OptionError, match="no token"):
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
    assert len(found) <= 2  # behind the bracket, and behind a comma
    assert all(len(one) > 20 for one in found)
