"""The texts with which a model family writes tool calls, reasoning and answers.

Why: the constraint of a turn, the parser of its text, the renderer and the prompt all use this one description. So
they cannot disagree, and a format is data, without code.
What: `call` has placeholders: ``$name``, ``$arguments``, and perhaps ``$number`` or ``$id`` before the arguments. A
text of `specials` is a special token if the tokenizer has one of that name, and plain text otherwise; free text never
contains one of them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, field, fields
from typing import Any, Literal, get_args

from structgen.brief import short_repr
from structgen.constraints.json_schema.whitespace import WhitespaceName
from structgen.errors import OptionError

from .argument_writers import bare_text, json_text, python_literal, write_elements, write_keywords
from .format_checks import call_problems, marker_problems, reply_problems, style_problems
from .forms import Form, Forms
from .xml_styles import XmlStyle

__all__ = ["COUNTERS", "Notation", "ToolFormat"]

Notation = Literal["json", "python", "keywords", "xml", "bare"]
_PLACEHOLDER = re.compile(r"(\$(?:name|arguments|number|id))")
_LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
COUNTERS: Mapping[str, tuple[str, int, int]] = {"$number": ("0123456789", 1, 4), "$id": (_LETTERS, 9, 9)}
"""Placeholders that identify a call: the characters of each, and how many there are at least and at most."""


@short_repr
@dataclass(frozen=True)
class ToolFormat:
    """The texts of one format."""

    name: str
    models: str
    """The model families that use it."""
    call: str
    """One call, with ``$name`` and ``$arguments``. ``$number`` is a number, ``$id`` nine letters or digits."""
    marker: str
    """The beginning of calls. Free text does not contain it, or (`at_start`) does not begin with it."""
    begin: str = ""
    """The text before the first call."""
    between: str | None = None
    """The text between two calls; None if a turn has at most one call."""
    end: str = ""
    """The text after the last call."""
    margin: str = ""
    """White space that the parser also reads after `begin` and before `end`. The constraint does not allow it. With
    it, `call` begins with a placeholder, so that calls are recognised by `begin`."""
    first_number: int = 0
    """The ``$number`` of the first call of a turn, where `write_calls` counts."""
    at_start: bool = False
    """A turn is text or calls, without text before a call."""
    arguments: Notation = "json"
    """``json``: an object. ``python``: keyword arguments of Python. ``keywords``: keyword arguments with JSON values.
    ``xml``: one element per parameter, as `style` writes it. ``bare``: an object whose keys have no quotes, with each
    string between two `quote`."""
    style: XmlStyle | None = field(default=None, hash=False)
    """The elements of the notation ``xml``."""
    quote: str = ""
    """What stands before and after a string in the notation ``bare``."""
    whitespace: WhitespaceName = "json.dumps"
    """White space in JSON."""
    specials: tuple[str, ...] = ()
    think: tuple[str, str] = ("<think>", "</think>")
    """The texts around the reasoning."""
    say: tuple[str, str] = ("", "")
    """The texts around text before calls."""
    says_always: bool = False
    """The texts of `say` come before calls also if there is no text between them."""
    answer: tuple[str, str] = ("", "")
    """The texts around the answer."""
    reply: tuple[str, str] = ("", "")
    """The texts around all that follows the reasoning: the answer, or text and calls. `begin` comes after the first."""
    result: str = "$result"
    """How `run_tools` shows the result of a call, with ``$name`` and ``$result``, in a message of `result_role`."""
    result_role: str = "tool"
    source: str = ""
    """Where the format is published."""
    names: tuple[str, ...] = ()
    """Parts of the names of models that use it, such as ``qwen3.5``."""
    template_texts: tuple[str, ...] = ()
    """Texts that a chat template of the format contains, all of them."""

    def __post_init__(self) -> None:
        """Raise `OptionError` for texts that no constraint and parser could be made from."""
        for problem in self._problems():
            raise OptionError(f"the tool format {self.name!r:.60}: {problem}")

    def _problems(self) -> list[str]:
        order = [piece for kind, piece in self.pieces if kind != "text"]
        found = []
        if order.count("$name") != 1 or order[-1:] != ["$arguments"] or len(set(order)) < len(order):
            found.append("call needs $name once, and $arguments once, after it")
        if self.arguments not in get_args(Notation):
            found.append(f"arguments is {self.arguments!r:.40}; it is one of {', '.join(get_args(Notation))}")
        if (self.arguments == "xml") != (self.style is not None):
            found.append("style and arguments='xml' belong together")
        if (self.arguments == "bare") != bool(self.quote):
            found.append("quote and arguments='bare' belong together")
        if self.at_start and (self.say[0] or self.answer[0]):
            found.append("with at_start there are no markers around text")
        if not self.marker or (not self.is_framed and not self.opening.startswith(self.marker)):
            found.append(f"calls begin with {self.opening!r:.60}, but not with marker, {self.marker!r:.60}")
        if not (self.at_start or self.is_framed or any(text in self.marker for text in self.specials)):
            found.append("marker contains none of specials, so an answer could contain it")
        if self.reply != ("", ""):
            found += reply_problems(self)
        if self.says_always and not (self.say[0] and self.say[1]):
            found.append("says_always needs both texts of say")
        for field_name in ("names", "template_texts"):
            given = getattr(self, field_name)
            if not (
                isinstance(given, tuple) and all(isinstance(text, str) and text.strip() for text in given)
            ):
                found.append(f"{field_name} is {given!r:.40}; it is a list of texts, none of them empty")
        if self.margin and not (self.margin.isspace() and not self.first_text):
            found.append("margin is white space, and with it call begins with a placeholder")
        if not self.think[1]:
            found.append("think needs a text after the reasoning")
        found = found or marker_problems(self)
        if self.style is not None:
            found = found or style_problems(self.style)
        return found or call_problems(self)

    @property
    def pieces(self) -> list[tuple[str, str]]:
        """The pieces of `call`: ``text``, ``name``, ``arguments``, ``number`` or ``id``, each with its text."""
        return [
            (piece[1:] if piece.startswith("$") and _PLACEHOLDER.fullmatch(piece) else "text", piece)
            for piece in _PLACEHOLDER.split(self.call)
            if piece
        ]

    @property
    def first_text(self) -> str:
        """The text of a call before its first placeholder."""
        kind, text = self.pieces[0]
        return text if kind == "text" else ""

    @property
    def opening(self) -> str:
        """The text with which calls begin."""
        return self.begin + self.first_text

    @property
    def is_framed(self) -> bool:
        """Whether every text has markers of its own."""
        return bool(self.answer[0])

    @property
    def marks_answers(self) -> bool:
        """Whether what follows the reasoning begins with a marker, of `answer` or of `reply`."""
        return bool(self.answer[0] or self.reply[0])

    def write_calls(
        self, calls: Sequence[tuple[str, Mapping[str, Any] | str]], forms: Forms | None = None
    ) -> str:
        """Return calls as a model of the family writes them.

        Args:
            calls: The name and the arguments of each; a text stands for arguments that are no object.
            forms: The forms of the parameters, from the constraint.
        """
        written = []
        for index, (name, arguments) in enumerate(calls):
            shown = (
                arguments
                if isinstance(arguments, str)
                else self._written(arguments, None if forms is None else forms.get(name))
            )
            # "$id" is nine letters or digits, and the same call gets the same one.
            values = {
                "name": name,
                "arguments": shown,
                "number": str(self.first_number + index),
                "id": f"call{index:05}",
            }
            written.append("".join(values.get(kind, text) for kind, text in self.pieces))
        return self.begin + ("\n" if self.between is None else self.between).join(written) + self.end

    def _written(self, arguments: Mapping[str, Any], forms: Mapping[str, Form] | None) -> str:
        if self.arguments == "json":
            return json_text(arguments, self.whitespace)
        if self.style is not None:
            return write_elements(arguments, self.style, forms)
        if self.arguments == "bare":
            return bare_text(arguments, self.quote)
        return write_keywords(arguments, python_literal if self.arguments == "python" else json_text)

    def as_data(self) -> dict[str, Any]:
        """Return the format as JSON data, which `from_data` reads."""
        return asdict(self)

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> ToolFormat:
        """Return the format of JSON data. Raises `OptionError` if a field is unknown or missing."""
        known = {each.name for each in fields(cls)}
        needed = {each.name for each in fields(cls) if each.default is MISSING and each.name != "style"}
        for name in [*sorted(data.keys() - known), *sorted(needed - data.keys())]:
            problem = "is unknown" if name in data else "is missing"
            raise OptionError(
                f"the field {name!r:.40} of a tool format {problem}",
                hint=f"The fields are {', '.join(sorted(known))}.",
            )
        given = _with_tuples(data)
        if isinstance(given.get("style"), Mapping):
            given["style"] = XmlStyle(**_with_tuples(given["style"]))
        return cls(**given)


def _with_tuples(data: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in data.items()}
