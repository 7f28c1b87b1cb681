"""Read the text of a finished turn: its reasoning, its text and its calls.

Why: a loop runs the calls, so it must read exactly what the constraint lets a model write, in every format.
What: the text is read from left to right with the templates of the constraint. Arguments are read in their own
notation, so a marker inside a string does not count.
Invariant: each text that `tools` allows is read; a text that is cut off or not a turn raises `OutputInvalid`.
Cost: linear in the text; nothing is compiled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from structgen.brief import short_repr
from structgen.errors import OutputInvalid

from .arguments import NOTATIONS
from .definitions import Tool, ToolCall
from .formats import ToolFormat
from .forms import Forms

__all__ = ["AssistantTurn", "TurnReader"]


@short_repr
@dataclass(frozen=True)
class AssistantTurn:
    """A finished turn of an assistant."""

    text: str
    """The answer, or the text before the calls."""
    calls: tuple[ToolCall, ...] = ()
    reasoning: str | None = None


class TurnReader:
    """Reads turns of one format and its tools."""

    def __init__(
        self,
        format: ToolFormat,
        tools: Sequence[Tool],
        reasoning: bool | str,
        forms: Forms,
        *,
        answers: bool = False,
    ) -> None:
        self.format = format
        self.tools = sorted(tools, key=lambda tool: len(tool.name), reverse=True)
        self.reasoning = reasoning
        self.forms = forms
        self.answers = answers

    def read(self, text: str) -> AssistantTurn:
        """Return the parts of a complete turn. Raises `OutputInvalid` if it has another format."""
        thought, start = self._thought(text)
        position = self._first_call(text, start)
        if position is not None and self.format.at_start:
            try:
                return AssistantTurn("", self._calls(text, position), thought)
            except OutputInvalid:
                position = None  # an answer with the same beginning as calls
        if position is None:
            return AssistantTurn(self._answer(text, start), (), thought)
        return AssistantTurn(self._said(text, start, position), self._calls(text, position), thought)

    def _thought(self, text: str) -> tuple[str | None, int]:
        begin, end = self.format.think
        if self.reasoning is False or (self.reasoning == "optional" and not text.startswith(begin)):
            return None, 0
        start = 0 if self.reasoning == "opened" else self._expect(text, 0, begin)
        stop = text.find(end, start)
        if stop < 0:
            raise OutputInvalid(f"the reasoning has no end, {end!r}", text=text, hint="Raise max_tokens.")
        after = stop + len(end)
        if not self.format.is_framed:
            for _ in range(2):
                after += text.startswith("\n", after)
        return text[start:stop], after

    def _first_call(self, text: str, start: int) -> int | None:
        """Return where calls begin; None without calls."""
        opening = self.format.begin + self.format.call.partition("$name")[0]
        if self.format.is_framed and text.startswith(self.format.answer[0], start):
            return None
        if self.format.at_start or (self.answers and not self.format.is_framed):
            return start if text.startswith(opening, start) else None
        position = text.find(opening if self.format.is_framed else self.format.marker, start)
        return None if position < 0 else position

    def _said(self, text: str, start: int, stop: int) -> str:
        begin, end = self.format.say
        if start == stop or not begin:
            return text[start:stop]
        inside = self._expect(text, start, begin)
        if not text.endswith(end, inside, stop):
            raise OutputInvalid(f"the text before the calls does not end with {end!r}", text=text)
        return text[inside : stop - len(end)]

    def _answer(self, text: str, start: int) -> str:
        begin, end = self.format.answer
        return text[self._expect(text, start, begin) :].removesuffix(end)

    def _calls(self, text: str, position: int) -> tuple[ToolCall, ...]:
        format = self.format
        opening = format.call.partition("$name")[0]
        position = self._expect(text, position, format.begin)
        calls: list[ToolCall] = []
        while True:
            call, position = self._call(text, position)
            calls.append(call)
            if format.between is None or not text.startswith(format.between + opening, position):
                break
            if not opening and not format.between:
                break
            position += len(format.between)
        position = self._expect(text, position, format.end)
        if position != len(text):
            raise OutputInvalid(
                f"after the calls there is more: {text[position : position + 40]!r}", text=text
            )
        return tuple(calls)

    def _call(self, text: str, position: int) -> tuple[ToolCall, int]:
        opening, _, rest = self.format.call.partition("$name")
        middle, _, closing = rest.partition("$arguments")
        position = self._expect(text, position, opening)
        for tool in self.tools:
            if text.startswith(tool.name + middle, position):
                start = position + len(tool.name) + len(middle)
                arguments, end = NOTATIONS[self.format.arguments].read(
                    text, start, tool, self.forms.get(tool.name)
                )
                return ToolCall(tool.name, arguments), self._expect(text, end, closing)
        raise OutputInvalid(f"{text[position : position + 40]!r} calls no tool", text=text)

    def _expect(self, text: str, position: int, wanted: str) -> int:
        """Return the position after `wanted`. A special token that ended the text may be missing at its very end."""
        if text.startswith(wanted, position):
            return position + len(wanted)
        if position == len(text) and wanted in self.format.specials:
            return position
        raise OutputInvalid(
            f"{wanted!r} is missing at character {position}: {text[position : position + 40]!r}",
            text=text,
            hint="Read the text with its special tokens, from Vocabulary.spelled; or it was cut off.",
        )
