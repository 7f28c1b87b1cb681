"""Read a turn while it is written: its reasoning, its text and its calls, as far as they are certain.

Why: a client of a stream sees the arguments of a call while the model writes them.
What: a coroutine reads the texts of the `ToolFormat` from which the constraint is made. It stops at the end of the
text and continues when there is more. This is the only parser: finished turns are read by it, too.
Invariant: what was reported is never revoked. `reasoning`, `text` and the arguments of each call only grow, and the
events say how. Each text that `tools` allows is read.
Cost: linear in the text, in pieces of any size; nothing is compiled. Each piece is joined with the text that waits
for it, which is no longer than a marker.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence

from structgen.errors import OutputInvalid

from .argument_readers import read_arguments
from .definitions import Tool, ToolCall
from .events import AssistantTurn, EventKind, TurnEvent, arguments_of_text, merged
from .format_texts import COUNTERS, ToolFormat
from .forms import Forms
from .text_source import CutOff, GrowingText, Steps, TextSource

__all__ = ["MOST_LINES", "PartialCall", "PartialTurn"]

MOST_LINES = 2
"""Line ends between the reasoning and the text after it."""


class PartialCall:
    """The written part of a call."""

    __slots__ = ("_arguments", "is_whole", "name")

    def __init__(self, name: str, arguments: str = "", is_whole: bool = False) -> None:
        """Start with some text of the arguments."""
        self.name = name
        self.is_whole = is_whole
        """Whether the arguments are complete."""
        self._arguments = GrowingText(arguments)

    @property
    def arguments(self) -> str:
        """The JSON text of the arguments so far; an object once `is_whole`."""
        return str(self._arguments)

    def grow(self, piece: str) -> None:
        """Add a piece of the arguments."""
        self._arguments.append(piece)


class PartialTurn:
    """One turn, read while it is written.

    Args:
        format: How calls are written; None for a turn without calls.
        tools: The tools that may be called.
        forms: The forms of the constraint (`ToolTurn.forms`), which name each tool that the turn may call. Without
            them, it may call any of `tools`.
        think: The texts around the reasoning; the first is empty if the prompt ends with it. None: the turn has no
            reasoning.
        optional: The reasoning may be missing.
        answers: The turn is calls, or an answer with a constraint of its own, which may contain any text.
        is_opened: The prompt has opened the answer, or the text before calls.
    """

    def __init__(
        self,
        format: ToolFormat | None,
        tools: Sequence[Tool] = (),
        forms: Forms | None = None,
        *,
        think: tuple[str, str] | None = None,
        optional: bool = False,
        answers: bool = False,
        is_opened: bool = False,
    ) -> None:
        self._reasoning: GrowingText | None = None
        self.reasoning_end: int | None = None
        """The index of the character after the reasoning; None while the reasoning has no end."""
        self._text = GrowingText()
        self.text_start: int | None = None
        """The index of the first character of `text` in the turn; None while it is empty."""
        self.calls: list[PartialCall] = []
        self._format, self._tools, self._forms = format, tools, forms or {}
        self._think, self._optional, self._answers = think, optional, answers
        self._is_opened = is_opened
        self.is_whole = False
        """Whether the turn is complete."""
        self._source = TextSource()
        self._events: list[TurnEvent] = []
        self._error: OutputInvalid | None = None
        """Why the text is not a turn; no text after it makes it one."""
        self._steps = self._run()
        next(self._steps)

    @property
    def text(self) -> str:
        """The answer, or the text before the calls."""
        return str(self._text)

    @property
    def reasoning(self) -> str | None:
        """The reasoning so far; None without reasoning."""
        return None if self._reasoning is None else str(self._reasoning)

    def follow(self, text: str, *, ends: bool = False) -> list[TurnEvent]:
        """Read the new end of a text that is given as a whole, as `feed` does."""
        return self.feed(text[self._source.length :], ends=ends)

    def feed(self, piece: str, *, ends: bool = False) -> list[TurnEvent]:
        """Read more text, and return what is new.

        Args:
            piece: The next piece, with special tokens by their names.
            ends: No more text follows. A text that was cut off is read as far as possible.

        Raises:
            OutputInvalid: The text is not a turn.
        """
        if self._error is not None:
            raise self._error
        self._source.add(piece, ends=ends)
        self._events = []
        try:
            next(self._steps, None)
        except OutputInvalid as error:
            self._error = error
            raise
        return merged(self._events)

    def events_since(self, earlier: PartialTurn) -> list[TurnEvent] | None:
        """Return what this turn has that an earlier version of it had not reported.

        A text that is generated may go back from a dead end and continue in another way. None: the earlier version
        reported something that this one does not have.
        """
        before, now = self._reported(earlier), self._reported(self)
        if any(part not in now or not now[part].startswith(text) for part, text in before.items()):
            return None
        events = []
        for (kind, call), text in now.items():
            had = before.get((kind, call))
            name = self.calls[call].name if kind == "call_started" and call is not None else ""
            if kind in ("call_started", "call_finished"):
                events += [TurnEvent(kind, call=call, name=name)] if had is None else []
            elif had is None or len(text) > len(had):
                events.append(TurnEvent(kind, text[len(had or "") :], call))
        return events

    @staticmethod
    def _reported(turn: PartialTurn) -> dict[tuple[EventKind, int | None], str]:
        """Return the text of each part that was reported, in the order of events."""
        parts: dict[tuple[EventKind, int | None], str] = {}
        if turn.reasoning is not None:
            parts["reasoning", None] = turn.reasoning
        if turn.text:
            parts["content", None] = turn.text
        for index, call in enumerate(turn.calls):
            parts["call_started", index] = call.name
            parts["argument_delta", index] = call.arguments
            if call.is_whole:
                parts["call_finished", index] = ""
        return parts

    def whole(self) -> AssistantTurn:
        """Return the finished turn. Raises `OutputInvalid` if it was cut off."""
        if not self.is_whole:
            raise OutputInvalid(self._unfinished(), text=self._source.whole, hint="Raise max_tokens.")
        try:
            calls = [ToolCall(call.name, arguments_of_text(call.name, call.arguments)) for call in self.calls]
        except OutputInvalid as error:
            raise OutputInvalid(error.message, text=self._source.whole) from None
        return AssistantTurn(self.text, tuple(calls), self.reasoning)

    def _unfinished(self) -> str:
        if self._think is not None and self._is_thinking:
            return f"the reasoning has no end, {self._think[1]!r}"
        return f"the turn has no end: {self._source.whole[-40:]!r}"

    # -- the parts of a turn

    def _run(self) -> Steps:
        self._is_thinking = self._think is not None
        yield
        try:
            yield from self._turn()
        except CutOff:
            return
        self.is_whole = True

    def _turn(self) -> Steps:
        if self._think is not None:
            yield from self._thought(*self._think)
        format, source = self._format, self._source
        if format is None:
            yield from self._rest()
        elif format.is_framed:
            yield from self._frames(format)
        else:
            yield from source.expect(format.reply[0], format.specials)
            yield from self._text_or_calls(format)

    def _text_or_calls(self, format: ToolFormat) -> Steps:
        """Read a text without markers of its own, or calls, perhaps with such text before them."""
        source, end = self._source, format.reply[1]
        if self._answers:
            yield from self._answer_or_calls(format)
        elif format.at_start:
            has_calls = yield from source.is_next(format.marker)
            yield from (self._calls(format) if has_calls else self._rest())
        elif end:
            found = yield from source.until_one_of((format.marker, end), self._say)
            yield from (self._calls(format) if found == format.marker else self._end(end))
        elif (yield from source.until(format.marker, self._say)) is not None:
            yield from self._calls(format)

    def _thought(self, begin: str, end: str) -> Steps:
        source = self._source
        has_marker = self._format is not None and self._format.marks_answers
        if begin and (yield from source.one_of(begin)) is None:
            if not self._optional or (has_marker and source.is_cut_off_in(begin)):
                raise source.missing(begin)
            self._is_thinking = False
            return
        self._reason("")
        yield from source.through(end, self._reason)
        self._is_thinking = False
        self.reasoning_end = source.index
        if not has_marker:
            for _ in range(MOST_LINES):
                yield from source.one_of("\n")

    def _rest(self) -> Steps:
        end = "" if self._format is None else self._format.reply[1]
        if not (yield from self._source.up_to_last(end, self._say)):
            raise CutOff

    def _end(self, wanted: str) -> Steps:
        """Read the last text of the turn."""
        source = self._source
        yield from source.expect(wanted)
        yield from source.wait_for_end()
        if source.has_more:
            raise source.invalid("after the turn there is more")

    def _frames(self, format: ToolFormat) -> Steps:
        """Read text with markers, or calls, perhaps with such text before them."""
        source, say, answer = self._source, format.say, format.answer
        if self._is_opened:
            if not (yield from self._shared_frame(format)):
                yield from self._calls(format)
            return
        begins = [begin for begin in (answer[0], say[0], format.opening) if begin]
        begin = yield from source.one_of(*begins, ahead=True)
        if begin is None:
            raise source.missing(*begins)
        if begin == answer[0] != say[0]:
            yield from source.expect(begin)
            yield from source.up_to_last(answer[1], self._say)
            return
        if begin == say[0]:
            yield from source.expect(begin)
            if say[0] == answer[0] and (yield from self._shared_frame(format)):
                return
            if say[0] != answer[0]:
                yield from source.through(say[1], self._say)
        yield from self._calls(format)

    def _shared_frame(self, format: ToolFormat) -> Generator[None, None, bool]:
        """Read text whose markers do not show whether calls follow. Returns whether it was the answer."""
        source, end = self._source, format.answer[1]
        if self._answers:
            empty = format.say[1] + format.opening
            if (format.says_always or self._is_opened) and (yield from source.is_next(empty)):
                yield from source.expect(format.say[1])
                return False
            yield from source.up_to_last(end, self._say)
            return True
        yield from source.through(format.say[1], self._say)
        more = end.removeprefix(format.say[1])
        found = yield from source.one_of(more, format.opening, ahead=True)
        if found == format.opening:
            return False
        if found is None and source.has_more and source.is_cut_off_in(format.opening):
            raise CutOff
        yield from source.expect(more, (*format.specials, more))
        return True

    def _answer_or_calls(self, format: ToolFormat) -> Steps:
        """Read a turn that begins with calls, or has none."""
        source = self._source
        if not (yield from source.is_next(format.opening)):
            yield from self._rest()
            return
        if format.at_start:
            # An answer may have the same beginning as calls; only the end shows which it is.
            yield from source.wait_for_end()
            calls = PartialTurn(format, self._tools, self._forms)
            try:
                calls.feed(source.rest, ends=True)
                calls.whole()  # what is written as arguments may be no JSON
            except OutputInvalid:
                yield from self._rest()
                return
        yield from self._calls(format)

    # -- calls

    def _calls(self, format: ToolFormat) -> Steps:
        source = self._source
        yield from source.expect(format.begin, format.specials)
        if format.margin:
            yield from source.one_of(format.margin)
        yield from source.expect(format.first_text, format.specials)
        following = "" if format.between is None else format.between + format.first_text
        last = format.end or format.reply[1]
        ends = [last, format.margin + last] if last else []
        nexts = [text for text in (following, *ends) if text]
        while True:
            yield from self._call(format)
            found = yield from source.one_of(*nexts, ahead=True)
            if found not in ends and source.has_more and source.is_cut_off_in(*ends):
                raise CutOff  # `following` may be the beginning of the end
            source.position += len(found or "")
            if found != following or not following:
                break
        if found is None:
            if following and source.has_more and source.is_cut_off_in(following):
                raise CutOff
            yield from source.expect(format.end, format.specials)
        elif not format.end:
            source.position -= len(last)  # the end of `reply` is read below
        yield from self._end(format.reply[1])

    def _call(self, format: ToolFormat) -> Steps:
        """Read a call after its first text."""
        source, index = self._source, len(self.calls)
        pieces = format.pieces[1:] if format.first_text else format.pieces
        for place, (kind, text) in enumerate(pieces):
            if kind == "text":
                yield from source.expect(text, format.specials if place == len(pieces) - 1 else ())
            elif kind == "name":
                name = yield from self._name(pieces[place + 1])
                if self._forms and name not in self._forms:
                    raise source.invalid(f"{name} is called, which this turn could not call")
                self.calls.append(PartialCall(name))
                self._emit(TurnEvent("call_started", call=index, name=name))
            elif kind == "arguments":
                yield from read_arguments(source, format, self._forms.get(name), self._grow)
                self.calls[index].is_whole = True
                self._emit(TurnEvent("call_finished", call=index))
            else:
                yield from source.counter(*COUNTERS[text])

    def _name(self, following: tuple[str, str]) -> Generator[None, None, str]:
        """Read a name. What follows it counts, since one name may be the beginning of another."""
        source = self._source
        after = following[1] if following[0] == "text" else ""
        names = {tool.name + after: tool.name for tool in self._tools}
        found = yield from source.one_of(*names, ahead=True)
        if found is None:
            raise source.missing(*names)
        source.position += len(names[found])
        return names[found]

    # -- what is reported

    def _emit(self, event: TurnEvent) -> None:
        self._events.append(event)

    def _say(self, piece: str) -> None:
        if self.text_start is None:
            self.text_start = self._source.index - len(piece)
        self._text.append(piece)
        self._emit(TurnEvent("content", piece))

    def _reason(self, piece: str) -> None:
        if self._reasoning is None:
            self._reasoning = GrowingText()
        self._reasoning.append(piece)
        self._emit(TurnEvent("reasoning", piece))

    def _grow(self, piece: str) -> None:
        self.calls[-1].grow(piece)
        self._emit(TurnEvent("argument_delta", piece, len(self.calls) - 1))
