"""Read an unfinished turn: its reasoning, its text and its calls, as far as they are certain.

Why: a client of a stream sees the arguments of a call while the model writes them. OpenAI's API sends them as JSON, so
keyword arguments and XML elements are converted to JSON here, piece by piece.
What: a coroutine reads the templates of the constraint (`ToolFormat`). It stops at the end of the text and continues
when there is more.
Invariant: what was reported is never revoked. `reasoning`, `text` and the arguments of each call only grow, and for a
complete turn they equal what `TurnReader` reads.
Cost: linear in the text; nothing is compiled.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass

from structgen.errors import OutputInvalid

from .definitions import Tool
from .formats import ToolFormat
from .forms import Form, Forms

__all__ = ["PartialCall", "PartialTurn"]

_STRUCTURE = re.compile(r'["{}\[\]]')
_VALUE = re.compile(r'["{}\[\](),TFN]')
_ESCAPE = re.compile(r'["\\]')
_WORDS = {"True": "true", "False": "false", "None": "null"}
_NULL = "null"
_PARAMETER, _PARAMETER_END = "<parameter=", "\n</parameter>"
_MOST_LINES = 2
"""Line ends between the reasoning and the text after it."""

_Steps = Generator[None, None, None]
_Found = Generator[None, None, str | None]
_Grow = Callable[[str], None]


class _CutOff(Exception):
    """The text ends in the middle of a part of the turn."""


@dataclass
class PartialCall:
    """The written part of a call."""

    name: str
    arguments: str = ""
    """JSON text; an object once `is_whole`."""
    is_whole: bool = False

    def grow(self, piece: str) -> None:
        """Append to the arguments."""
        self.arguments += piece


class PartialTurn:
    """One turn, read while it is written.

    Args:
        format: How calls are written; None for a turn without calls.
        tools: The tools that may be called.
        forms: The forms of the constraint (`ToolTurn.forms`).
        think: The texts around the reasoning; the first is empty if the prompt ends with it. None: the turn has no
            reasoning.
        optional: The reasoning may be missing.
        answers: The turn is calls, or an answer with a constraint of its own, which may contain any text.
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
    ) -> None:
        self.reasoning: str | None = None
        """None if there is no reasoning so far."""
        self.text = ""
        """The answer, or the text before the calls."""
        self.calls: list[PartialCall] = []
        self._format, self._tools, self._forms = format, tools, forms or {}
        self._think, self._optional, self._answers = think, optional, answers
        self.is_whole = False
        """Whether the turn is complete."""
        self._source, self._at, self._ends = "", 0, False
        self._steps = self._run()
        next(self._steps)

    def feed(self, text: str, *, ends: bool = False) -> None:
        """Read more text.

        Args:
            text: The whole text so far, with special tokens by their names.
            ends: No more text follows. A text that was cut off is read as far as possible.

        Raises:
            OutputInvalid: The text is not a turn.
        """
        self._source, self._ends = text, ends
        next(self._steps, None)

    # -- the parts of a turn

    def _run(self) -> _Steps:
        yield
        try:
            yield from self._turn()
        except _CutOff:
            return
        self.is_whole = True

    def _turn(self) -> _Steps:
        if self._think is not None:
            yield from self._thought(*self._think)
        format = self._format
        if format is None:
            yield from self._rest()
        elif format.is_framed:
            yield from self._frames(format)
        elif self._answers:
            yield from self._answer_or_calls(format)
        elif format.at_start:
            yield from (self._calls(format) if (yield from self._is_next(format.marker)) else self._rest())
        elif (yield from self._until(format.marker, self._say)) is not None:
            yield from self._calls(format)

    def _thought(self, begin: str, end: str) -> _Steps:
        if begin and (yield from self._one_of(begin)) is None:
            is_framed = self._format is not None and self._format.is_framed
            if not self._optional or (is_framed and self._ends and begin.startswith(self._left)):
                raise self._missing(begin)
            return
        self.reasoning = ""
        yield from self._through(end, self._reason)
        if self._format is None or not self._format.is_framed:
            for _ in range(_MOST_LINES):
                yield from self._one_of("\n")

    def _rest(self) -> _Steps:
        yield from self._until("", self._say)

    def _frames(self, format: ToolFormat) -> _Steps:
        """Read text with markers, or calls, perhaps with such text before them."""
        say, answer = format.say, format.answer
        begins = [begin for begin in (answer[0], say[0], _opening(format)) if begin]
        begin = yield from self._one_of(*begins, ahead=True)
        if begin is None:
            raise self._missing(*begins)
        if begin == answer[0]:
            self._at += len(begin)
            yield from self._rest()
            return
        if begin == say[0]:
            self._at += len(begin)
            yield from self._through(say[1], self._say)
        yield from self._calls(format)

    def _answer_or_calls(self, format: ToolFormat) -> _Steps:
        """Read a turn that begins with calls, or has none."""
        if not (yield from self._is_next(_opening(format))):
            yield from self._rest()
            return
        if format.at_start:
            # An answer may have the same beginning as calls; only the end shows which it is.
            while not self._ends:
                yield
            calls = PartialTurn(format, self._tools, self._forms)
            with contextlib.suppress(OutputInvalid):
                calls.feed(self._left, ends=True)
            if not calls.is_whole:
                yield from self._rest()
                return
        yield from self._calls(format)

    def _calls(self, format: ToolFormat) -> _Steps:
        opening = format.call.partition("$name")[0]
        yield from self._expect(format, format.begin)
        yield from self._expect(format, opening)
        following = None if format.between is None else format.between + opening
        while True:
            yield from self._call(format)
            if following is None or (yield from self._one_of(following)) is None:
                break
        if following and self._left and following.startswith(self._left):
            raise _CutOff
        yield from self._expect(format, format.end)
        while not self._ends:
            yield
        if self._left:
            raise OutputInvalid(f"after the calls there is more: {self._left[:40]!r}", text=self._source)

    def _call(self, format: ToolFormat) -> _Steps:
        middle, _, closing = format.call.partition("$name")[2].partition("$arguments")
        names = {tool.name + middle: tool for tool in self._tools}
        found = yield from self._one_of(*names)
        if found is None:
            raise self._missing(*names)
        tool = names[found]
        call = PartialCall(tool.name)
        self.calls.append(call)
        if format.arguments == "json":
            yield from self._json_object(call.grow)
        elif format.arguments == "python":
            yield from self._keywords(call.grow)
        else:
            yield from self._elements(call.grow, self._forms.get(tool.name, {}))
        call.is_whole = True
        yield from self._expect(format, closing)

    # -- arguments

    def _json_object(self, grow: _Grow) -> _Steps:
        """Read a JSON object, unchanged."""
        depth = 0
        while True:
            found = _STRUCTURE.search(self._source, self._at)
            if found is None:
                self._pass_on(len(self._source), grow)
                yield from self._more()
                continue
            self._pass_on(found.start(), grow)
            if found[0] == '"':
                yield from self._string(grow)
                continue
            self._pass_on(found.end(), grow)
            depth += 1 if found[0] in "{[" else -1
            if depth == 0:
                return

    def _keywords(self, grow: _Grow) -> _Steps:
        """Read keyword arguments of Python, up to the closing parenthesis."""
        separator = "{"
        while not (yield from self._is_next(")")):
            name: list[str] = []
            yield from self._through("=", name.append)
            grow(f"{separator}{json.dumps(''.join(name), ensure_ascii=False)}: ")
            separator = ", "
            yield from self._python_value(grow)
            yield from self._one_of(", ")
        grow("{}" if separator == "{" else "}")

    def _python_value(self, grow: _Grow) -> _Steps:
        """Read a value up to the comma or parenthesis after it. It is JSON except for three words."""
        depth = 0
        while True:
            found = _VALUE.search(self._source, self._at)
            self._pass_on(len(self._source) if found is None else found.start(), grow)
            if found is None:
                yield from self._more()
            elif found[0] == '"':
                yield from self._string(grow)
            elif found[0] in "TFN":
                word = yield from self._one_of(*_WORDS)
                if word is None:
                    raise self._missing(*_WORDS)
                grow(_WORDS[word])
            elif found[0] in ",)" and depth == 0:
                return
            else:
                depth += {"{": 1, "[": 1, "(": 1, ",": 0}.get(found[0], -1)
                self._pass_on(found.end(), grow)

    def _elements(self, grow: _Grow, forms: Mapping[str, Form]) -> _Steps:
        """Read one XML element per parameter."""
        separator = "{"
        while (yield from self._one_of(_PARAMETER)) is not None:
            name: list[str] = []
            yield from self._through(">\n", name.append)
            key = "".join(name)
            grow(f"{separator}{json.dumps(key, ensure_ascii=False)}: ")
            separator = ", "
            form = forms.get(key, "json")
            if form == "json":
                yield from self._through(_PARAMETER_END, grow)
            else:
                yield from self._xml_text(grow, may_be_null=form == "string or null")
            yield from self._one_of("\n")
        if self._ends and _PARAMETER.startswith(self._left):
            raise _CutOff
        grow("{}" if separator == "{" else "}")

    def _xml_text(self, grow: _Grow, *, may_be_null: bool) -> _Steps:
        """Read a text without quotes, up to the end of its element."""
        null = _NULL + _PARAMETER_END
        if may_be_null and (yield from self._one_of(null)) is not None:
            grow(_NULL)
            return
        grow('"')
        yield from self._through(
            _PARAMETER_END, lambda piece: grow(json.dumps(piece, ensure_ascii=False)[1:-1])
        )
        grow('"')

    def _string(self, grow: _Grow) -> _Steps:
        """Read a JSON string with its quotes. An escape is passed on once it is complete."""
        self._pass_on(self._at + 1, grow)
        while True:
            found = _ESCAPE.search(self._source, self._at)
            self._pass_on(len(self._source) if found is None else found.start(), grow)
            if found is None:
                yield from self._more()
            elif found[0] == '"':
                self._pass_on(found.end(), grow)
                return
            else:
                length = 6 if self._source.startswith("u", found.end()) else 2
                while len(self._source) < found.start() + length:
                    yield from self._more()
                    length = 6 if self._source.startswith("u", found.end()) else 2
                self._pass_on(found.start() + length, grow)

    # -- steps

    @property
    def _left(self) -> str:
        return self._source[self._at :]

    def _say(self, piece: str) -> None:
        self.text += piece

    def _reason(self, piece: str) -> None:
        self.reasoning = (self.reasoning or "") + piece

    def _pass_on(self, end: int, grow: _Grow) -> None:
        if end > self._at:
            grow(self._source[self._at : end])
            self._at = end

    def _more(self) -> _Steps:
        """Wait for more text."""
        if self._ends:
            raise _CutOff
        yield

    def _one_of(self, *wanted: str, ahead: bool = False) -> _Found:
        """Read one of these texts, or with `ahead` only find it. Returns None if the text has none of them here."""
        longest = max(map(len, wanted))
        while True:
            for text in wanted:
                if self._source.startswith(text, self._at):
                    self._at += 0 if ahead else len(text)
                    return text
            rest = self._source[self._at : self._at + longest]
            if self._ends or not any(text.startswith(rest) for text in wanted):
                return None
            yield

    def _is_next(self, wanted: str) -> Generator[None, None, bool]:
        return (yield from self._one_of(wanted, ahead=True)) is not None

    def _until(self, wanted: str, grow: _Grow, *, must_come: bool = False) -> _Found:
        """Pass text on up to one of `wanted`, which is returned and not read.

        Without one, all text is passed on. With `must_come`, a suffix that may be the beginning of one is kept.
        """
        while True:
            start = self._source.find(wanted, self._at) if wanted else -1
            if start >= 0:
                self._pass_on(start, grow)
                return wanted
            held = 0 if self._ends and not must_come else _overlap(self._source, self._at, wanted)
            self._pass_on(len(self._source) - held, grow)
            if self._ends:
                return None
            yield

    def _through(self, wanted: str, grow: _Grow) -> _Steps:
        """Pass text on up to `wanted`, and read `wanted`, too."""
        if (yield from self._until(wanted, grow, must_come=True)) is None:
            raise _CutOff
        self._at += len(wanted)

    def _expect(self, format: ToolFormat, wanted: str) -> _Steps:
        """Read exactly this text. A special token that ended the text may be missing at its very end."""
        if not wanted or (yield from self._one_of(wanted)) is not None:
            return
        if self._left or wanted not in format.specials:
            raise self._missing(wanted)

    def _missing(self, *wanted: str) -> Exception:
        """Return the error of a text that has none of these here, or is cut off inside one."""
        if self._ends and any(text.startswith(self._left) for text in wanted):
            return _CutOff()
        return OutputInvalid(
            f"{wanted[0]!r} is missing at character {self._at}: {self._left[:40]!r}", text=self._source
        )


def _opening(format: ToolFormat) -> str:
    return format.begin + format.call.partition("$name")[0]


def _overlap(text: str, start: int, wanted: str) -> int:
    """Return how many characters at the end of the text may be the beginning of `wanted`."""
    for length in range(min(len(wanted) - 1, len(text) - start), 0, -1):
        if text.endswith(wanted[:length]):
            return length
    return 0
