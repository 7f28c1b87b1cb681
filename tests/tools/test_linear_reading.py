"""Reading a turn in pieces: the events are those of the slow way, and the work grows with the text alone."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from structgen.errors import StructgenError
from structgen.tools import FORMATS, AssistantTurn, ToolCall, ToolTurn, TurnEvent, merged, tools

from .random_calls import turns
from .turns import TWO_CALLS
from .walks import FUNCTIONS, weather


def slow_events(turn: ToolTurn, pieces: list[str]) -> list[list[TurnEvent]]:
    """Read each beginning of the text with a new reader, and return what it has more than the reader before."""
    found, before, text = [], turn.parser()._reader, ""
    for index, piece in enumerate(pieces):
        reader, text = turn.parser()._reader, text + piece
        reader.feed(text, ends=index == len(pieces) - 1)
        events = reader.events_since(before)
        assert events is not None
        found.append([event for event in events if event.text or event.kind.startswith("call")])
        before = reader
    return found


def cut(text: str, rng: random.Random) -> list[str]:
    pieces, most = [], rng.choice((1, 2, 7, 40))
    while text:
        size = rng.randint(1, most)
        pieces.append(text[:size])
        text = text[size:]
    return [*pieces, ""]


def agree(turn: ToolTurn, text: str, rng: random.Random) -> None:
    pieces = cut(text, rng)
    parser = turn.parser()
    fast = [parser.feed(piece) for piece in pieces[:-1]] + [parser.finish()]
    empty = TurnEvent("reasoning")
    assert [[event for event in events if event != empty] for events in fast] == slow_events(turn, pieces)


@pytest.mark.parametrize("name", FORMATS)
@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data(), seed=st.integers(0, 2**32))
def test_events_are_those_of_the_slow_way(name: str, data: st.DataObject, seed: int) -> None:
    definitions, wanted = data.draw(turns(FORMATS[name]))
    try:
        turn = tools(definitions, format=name, reasoning="optional")
        text = turn.render(wanted)
    except StructgenError:
        return
    agree(turn, text, random.Random(seed))


@pytest.mark.parametrize("name", FORMATS)
def test_two_calls_as_in_the_slow_way(name: str) -> None:
    for seed in range(4):
        agree(tools(FUNCTIONS, format=name), TWO_CALLS[name], random.Random(seed))


class Counted(str):
    """A text that counts the characters that are copied from it or compared with it. Its copies count, too."""

    work = 0

    def __getitem__(self, index: Any) -> str:
        piece = super().__getitem__(index)
        Counted.work += len(piece)
        return Counted(piece)

    def startswith(self, wanted: Any, *span: Any) -> bool:
        Counted.work += len(wanted)
        return super().startswith(wanted, *span)

    def endswith(self, wanted: Any, *span: Any) -> bool:
        Counted.work += len(wanted)
        return super().endswith(wanted, *span)

    def find(self, wanted: str, start: Any = 0, *end: Any) -> int:
        found = super().find(wanted, start, *end)
        Counted.work += (len(self) if found < 0 else found) - start
        return found


def work_of(turn: ToolTurn, text: str, size: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """Return the characters that are looked at, copied or kept together while a text is read in pieces."""
    parser = turn.parser()
    reader = parser._reader
    source = reader._source
    add = source.add

    def counted(piece: str, *, ends: bool = False) -> None:
        add(piece, ends=ends)
        Counted.work += len(source.text)  # each piece is joined with the unread text
        source.text = Counted(source.text)

    monkeypatch.setattr(source, "add", counted)
    Counted.work = 0
    events = 0
    for start in range(0, len(text), size):
        events += len(parser.feed(text[start : start + size]))
    parser.finish()
    assert events < len(text) / size * 4 + 50  # nothing is reported twice
    return Counted.work


def long_turn(name: str, length: int) -> tuple[ToolTurn, str]:
    """Return a turn with long reasoning, long text, a long argument and several calls."""
    format = FORMATS[name]

    def note(text: str) -> str:
        """Note a text."""
        return text

    turn = tools([note, weather], format=name, reasoning=True)
    has_text = not format.at_start and not (format.is_framed and not format.say[0])
    calls = [
        ToolCall("note", {"text": "aé \n" * (length // 4)}),
        *[ToolCall("weather", {"city": "Rome"})] * 9,
    ]
    said = "b<" * length if has_text else ""
    wanted = AssistantTurn(said, tuple(calls if format.between is not None else calls[:1]), "c" * length)
    return turn, turn.render(wanted)


@pytest.mark.parametrize("name", FORMATS)
def test_work_is_linear_in_the_text(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts characters, not seconds: four times the text takes four times the work, in pieces of any size."""
    short, long = long_turn(name, 500), long_turn(name, 2_000)
    for size in (1, 10, 10_000):
        few, many = (work_of(*each, size, monkeypatch) for each in (short, long))
        assert many < 100 * len(long[1])
        assert many < 1.2 * few * len(long[1]) / len(short[1]), (size, few, many)


@pytest.mark.parametrize("name", ["llama3_json", "pythonic"])
def test_work_is_linear_where_only_the_end_decides(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn that may be an answer or a call, in the same notation."""
    work = []
    for length in (1_000, 4_000):
        turn = tools([weather], format=name, answer=str)
        text = FORMATS[name].marker + '"a' * length
        work.append(work_of(turn, text, 3, monkeypatch))
    assert work[1] < 5 * work[0]


def test_merging_is_linear() -> None:
    class Piece(str):
        joins = 0

        def __add__(self, other: str) -> str:
            Piece.joins += 1
            return Piece(super().__add__(other))

    events = [TurnEvent("content", Piece("ab"))] * 50
    assert merged(events) == [TurnEvent("content", "ab" * 50)] and Piece.joins == 0
