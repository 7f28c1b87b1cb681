"""Everything that structgen raises, in one tree.

Why: a caller catches what it can handle, from one kind of error up to `StructgenError`. A person reads where the
fault is, sees the place, and reads what to do.

    StructgenError                   where, hint
    ├── ConstraintError              what the user wrote cannot be a constraint
    │   ├── RegexError               pattern, position, end
    │   │   ├── RegexSyntaxError     the pattern is not a regular expression of its dialect
    │   │   └── RegexUnsupported     the pattern is fine, but not regular (back-references, ...)
    │   ├── GrammarError             source, line, column
    │   │   ├── GrammarSyntaxError   the grammar is not one of its format
    │   │   └── GrammarUnsupported   the grammar is fine, but uses what is not supported
    │   ├── FormulaError             formula, position, end
    │   │   ├── FormulaSyntaxError   the formula is not one of its dialect
    │   │   └── UnsatisfiableFormula core; no trace satisfies the formula
    │   ├── SchemaError              pointer
    │   │   ├── SchemaInvalid        the schema breaks the specification
    │   │   ├── UnsupportedKeyword   a keyword that would be ignored in silence otherwise
    │   │   ├── UnsatisfiableSchema  no value can satisfy the schema
    │   │   └── ReferenceNotFound    a $ref leads nowhere
    │   ├── EmptyConstraint          no text satisfies the constraint
    │   ├── CanvasInfeasible         start, end, needed; no text of it fits a canvas
    │   ├── CombinationError         an operator (&, |, +) cannot join these constraints
    │   ├── TypeNotSupported         a Python type that has no constraint
    │   └── OptionError              an option has an unknown name or value
    ├── LimitExceeded                limit; bounded time and memory had to stop here
    ├── Stopped                      a flag ended a call of the native core (`structgen.call_limits`)
    ├── ConcurrentUse                two threads use one matcher, or one did when the process was forked
    ├── PromptError                  a prompt function or template cannot be used
    ├── VocabularyError              a tokenizer whose tokens have no exact bytes
    │   └── VocabularyMismatch       model, tokenizer and matcher disagree about the vocabulary
    ├── ModelError                   a model cannot be loaded or run
    │   └── RemoteError              status, body; a server that runs one cannot be reached, or answers with an error
    ├── CoreMissing                  the native core is not built, or does not fit this Python
    ├── LanguageServerMissing        no program that analyses a language is installed
    ├── PackageMissing               an optional package is not installed (also an `ImportError`)
    ├── ToolTimeout                  a tool that a model called gave no result in time
    └── GenerationError              text, result; generation started but cannot end well
        ├── DeadEnd                  no token continues the text
        ├── Truncated                the token budget ended before the text was complete
        └── OutputInvalid            the text is complete but the output type's own validators reject it

There are three warnings. `ConstraintNotSent`: a server does not enforce a constraint, so answers are only checked here.
`TemperatureNotApplied`: an engine samples at one temperature, where the rules of a grammar set others.
`ModelWarning`: a model is slower than others of its size.

Invariant: the message is the only positional argument, everything else a keyword; so all errors survive
pickling (worker processes) and `str(error)` always ends with the hint.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from typing import Any

__all__ = [
    "CanvasInfeasible",
    "CombinationError",
    "ConcurrentUse",
    "ConstraintError",
    "ConstraintNotSent",
    "CoreMissing",
    "DeadEnd",
    "EmptyConstraint",
    "FormulaError",
    "FormulaSyntaxError",
    "GenerationError",
    "GrammarError",
    "GrammarSyntaxError",
    "GrammarUnsupported",
    "LanguageServerMissing",
    "LimitExceeded",
    "ModelError",
    "ModelWarning",
    "OptionError",
    "OutputInvalid",
    "PackageMissing",
    "PromptError",
    "ReferenceNotFound",
    "RegexError",
    "RegexSyntaxError",
    "RegexUnsupported",
    "RemoteError",
    "SchemaError",
    "SchemaInvalid",
    "Stopped",
    "StructgenError",
    "TemperatureNotApplied",
    "ToolTimeout",
    "Truncated",
    "TypeNotSupported",
    "UnsatisfiableFormula",
    "UnsatisfiableSchema",
    "UnsupportedKeyword",
    "VocabularyError",
    "VocabularyMismatch",
    "a_kind",
    "did_you_mean",
    "show_place",
    "with_kind",
]

_SHOWN = 72
_LONGEST_NAME = 100
_NAMES_COMPARED = 10_000
_LIMIT_NAME = re.compile(r"\(limit (\w+)\)")
"""Where messages of the native core name a limit."""


def a_kind(value: object) -> str:
    """Return what a wrong argument is, in words: "an int", "None"."""
    name = type(value).__name__
    return "None" if value is None else f"{'an' if name[0] in 'aeioAEIO' else 'a'} {name}"


def with_kind(value: object) -> str:
    """Return a wrong argument and what it is: "5, an int"; None needs no more words."""
    try:
        shown = f"{value!r:.60}"
    except ValueError:  # Python writes no whole number of more than 4,300 digits
        return "a very large int"
    return shown + ("" if value is None else f", {a_kind(value)}")


def did_you_mean(name: object, known: Iterable[str], aliases: Mapping[str, str] | None = None) -> str | None:
    """Return a hint that names what a person may have meant by `name`; None if no known name is similar.

    Args:
        name: What was written.
        known: The names that exist.
        aliases: What other libraries call these things: from their names, in small letters without ``_`` and ``-``, to
            one of `known`, or to a whole sentence.
    """
    names = [other for other in known if isinstance(other, str)][:_NAMES_COMPARED]
    bare = {_bare(other): other for other in reversed(names)}
    wanted = _bare(str(name)[:_LONGEST_NAME])
    suggestion = (aliases or {}).get(wanted) or bare.get(wanted)
    if suggestion is None:
        near = difflib.get_close_matches(str(name)[:_LONGEST_NAME], names, 1) or [
            bare[match] for match in difflib.get_close_matches(wanted, bare, 1, 0.75)
        ]
        suggestion = near[0] if near else None
    return suggestion if suggestion is None or " " in suggestion else f"Did you mean {suggestion}?"


def _bare(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")


def show_place(text: str, start: int, end: int | None = None) -> str:
    """Return the line of `text` that holds `start`, with carets under ``start:end``; long lines are cut."""
    start = max(0, min(start, len(text)))
    line_start = text.rfind("\n", 0, start) + 1
    line_end = text.find("\n", start)
    line_end = len(text) if line_end < 0 else line_end
    stop = min(max(end if end is not None else start + 1, start + 1), max(line_end, start + 1))
    left = max(line_start, start - _SHOWN // 2)
    right = min(line_end, left + _SHOWN)
    before = ("..." if left > line_start else "") + _visible(text[left:start])
    marked = _visible(text[start : min(stop, right)])
    after = _visible(text[min(stop, right) : right]) + ("..." if right < line_end else "")
    return f"    {before}{marked}{after}\n    {' ' * len(before)}{'^' * max(1, len(marked))}"


def _visible(text: str) -> str:
    """Escape characters that would move the caret or the terminal's cursor."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def _visible_lines(text: str) -> str:
    """Apply `_visible` to each line. Messages quote patterns and names of the user, which may hold any character."""
    return "\n".join(_visible(line) for line in text.split("\n"))


class StructgenError(Exception):
    """The root: `where` is the place in words (a JSON pointer, a position), `hint` is what to do."""

    account: Any = None
    """Of `sample`: what it took until then (calls, attempts, seconds, `stopped`). Of a server: its `remote.Account`."""
    partial: Any = None
    """Of `sample`, where it failed in the middle: the `Posterior` of what had been drawn. Of `run_tools`: the
    `Conversation` before the turn that failed."""
    item: int | None = None
    """Of several items, as `map` takes them or ``n=`` draws them: the one that failed, from 0."""
    results: list[Any] | None = None
    """Of several items: the values and errors of those that were done, in order."""

    def __init__(self, message: str, *, where: str | None = None, hint: str | None = None) -> None:
        message = _visible_lines(message)
        super().__init__(message)
        self.message = message
        self.where = where
        self.hint = hint

    def _place(self) -> str:
        """Lines that show the place; empty where there is no text to show."""
        return ""

    def __str__(self) -> str:
        first = f"{self.where}: {self.message}" if self.where else self.message
        parts = [first, self._place(), self.hint or ""]
        return _visible_lines("\n".join(part for part in parts if part))


class ConstraintError(StructgenError):
    """What the user wrote cannot be a constraint."""


class RegexError(ConstraintError):
    """Something about a regular expression; the message shows the pattern with a caret."""

    def __init__(
        self,
        message: str,
        *,
        pattern: str = "",
        position: int = 0,
        end: int | None = None,
        where: str | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, where=where, hint=hint)
        self.pattern = pattern
        self.position = position
        self.end = end

    def _place(self) -> str:
        line = self.pattern.count("\n", 0, self.position)
        column = self.position - (self.pattern.rfind("\n", 0, self.position) + 1)
        place = f"at position {self.position}" + (f" (line {line + 1}, column {column + 1})" if line else "")
        return f"  {place}:\n{show_place(self.pattern, self.position, self.end)}"


class RegexSyntaxError(RegexError):
    """The pattern is not a regular expression of its dialect."""


class RegexUnsupported(RegexError):
    """The pattern is well formed, but uses a feature that is not regular or not implemented."""


class FormulaError(ConstraintError):
    """Something about a formula of temporal logic; the message shows the formula with a caret."""

    def __init__(
        self,
        message: str,
        *,
        formula: str = "",
        position: int = 0,
        end: int | None = None,
        where: str | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, where=where, hint=hint)
        self.formula = formula
        self.position = position
        self.end = end

    def _place(self) -> str:
        if not self.formula:
            return ""
        return f"  at position {self.position}:\n{show_place(self.formula, self.position, self.end)}"


class FormulaSyntaxError(FormulaError):
    """The text is not a formula of its dialect."""


class UnsatisfiableFormula(FormulaError):
    """No trace satisfies the formula; `core` are the parts of it that contradict each other, as few as possible."""

    def __init__(
        self,
        message: str,
        *,
        core: tuple[str, ...] = (),
        formula: str = "",
        position: int = 0,
        end: int | None = None,
        where: str | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, formula=formula, position=position, end=end, where=where, hint=hint)
        self.core = core


class GrammarError(ConstraintError):
    """Something about a grammar; `line` and `column` are from 1 (0: not about one place), the message shows it."""

    def __init__(
        self,
        message: str,
        *,
        source: str = "",
        line: int = 0,
        column: int = 0,
        length: int = 1,
        where: str | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, where=where, hint=hint)
        self.source = source
        self.line = line
        self.column = column
        self.length = length

    def _place(self) -> str:
        if not self.line:
            return ""
        lines = self.source.split("\n")
        shown = lines[self.line - 1] if self.line <= len(lines) else ""
        start = self.column - 1
        return (
            f"  at line {self.line}, column {self.column}:\n{show_place(shown, start, start + self.length)}"
        )


class GrammarSyntaxError(GrammarError):
    """The text is not a grammar of its format, or names what is not there."""


class GrammarUnsupported(GrammarError):
    """The grammar is well formed, but uses a feature that is not supported."""


class SchemaError(ConstraintError):
    """Something about a JSON Schema; `pointer` is the JSON pointer of the place."""

    def __init__(self, message: str, *, pointer: str = "#", hint: str | None = None) -> None:
        super().__init__(message, where=pointer, hint=hint)
        self.pointer = pointer


class SchemaInvalid(SchemaError):
    """The schema breaks the JSON Schema specification."""


class UnsupportedKeyword(SchemaError):
    """A keyword that structgen does not enforce yet; ignoring it would be a silent approximation."""

    def __init__(
        self, message: str, *, pointer: str = "#", keyword: str | None = None, hint: str | None = None
    ) -> None:
        super().__init__(message, pointer=pointer, hint=hint)
        self.keyword = keyword


class UnsatisfiableSchema(SchemaError):
    """No value can satisfy the schema."""


class ReferenceNotFound(SchemaError):
    """A ``$ref`` leads nowhere."""


class EmptyConstraint(ConstraintError):
    """No text satisfies the constraint (or none that the vocabulary can spell)."""


class CanvasInfeasible(ConstraintError):
    """No text of the constraint agrees with what is fixed of a canvas.

    start, end    the cells, from the first to before the last, that are to blame; None: all that is fixed can stand
    needed        how many open cells the shortest completion takes, where their number is to blame
    """

    def __init__(
        self,
        message: str,
        *,
        start: int | None = None,
        end: int | None = None,
        needed: int | None = None,
        where: str | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, where=where, hint=hint)
        self.start, self.end, self.needed = start, end, needed


class CombinationError(ConstraintError):
    """An operator cannot join these two constraints; the message says why."""


class TypeNotSupported(ConstraintError):
    """A Python type for which there is no constraint."""


class OptionError(ConstraintError):
    """An option has an unknown name or value."""


class LimitExceeded(StructgenError):
    """A documented limit on time or memory was reached; `limit` names it, the hint says what to do.

    `limit` is the option that sets the limit, or else one of the names under "Limits" in docs/core.md. The message
    ends with it, too.
    """

    def __init__(
        self,
        message: str,
        *,
        limit: str = "",
        where: str | None = None,
        hint: str | None = None,
        pattern: str | None = None,
        position: int = 0,
    ) -> None:
        named = _LIMIT_NAME.search(message)
        if named is None and limit:
            message = f"{message} (limit {limit})"
        super().__init__(message, where=where, hint=hint)
        self.limit = limit or (named[1] if named else "")
        self.pattern = pattern
        self.position = position

    def _place(self) -> str:
        if self.pattern is None:
            return ""
        return f"  at position {self.position}:\n{show_place(self.pattern, self.position)}"


class Stopped(StructgenError):
    """A flag ended a call of the native core; matchers are as they were before it."""


class ConcurrentUse(StructgenError):
    """Two threads use one matcher at once, two tasks one stream, or a thread used one when the process was forked."""


class PromptError(StructgenError):
    """A prompt function or its template cannot be used."""


class VocabularyError(StructgenError):
    """A tokenizer whose tokens have no exact bytes, or a vocabulary that cannot be used."""


class VocabularyMismatch(VocabularyError):
    """Model, tokenizer and matcher disagree about the vocabulary."""


class ModelError(StructgenError):
    """A model cannot be loaded or run."""


class RemoteError(ModelError):
    """A server that runs a model cannot be reached, or answers with an error.

    Attributes:
        status: The HTTP status; 0 where there was no answer.
        body: The error page that the server sent, up to 64 KiB.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int = 0,
        body: str = "",
        where: str | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, where=where, hint=hint)
        self.status = status
        self.body = body


class CoreMissing(StructgenError, ImportError):
    """The native core is not built, or does not fit this Python or this machine. No module of structgen works then."""


class LanguageServerMissing(StructgenError):
    """No program that analyses a language is installed; the hint names the command that installs one."""


class PackageMissing(StructgenError, ImportError):
    """An optional package is not installed; the hint is the command that installs it."""


class GenerationError(StructgenError):
    """Generation started but cannot end well; `text` is what there is so far."""

    def __init__(
        self,
        message: str,
        *,
        text: str = "",
        result: object = None,
        where: str | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, where=where, hint=hint)
        self.text = text
        self.result: Any = result


class DeadEnd(GenerationError):
    """No token continues the text, and going back did not help."""


class Truncated(GenerationError):
    """The token budget ended before the text was complete; `text` and `result` hold the partial output."""


class ToolTimeout(StructgenError, TimeoutError):
    """A tool that a model called gave no result in time (`run_tools(..., timeout=)`)."""


class OutputInvalid(GenerationError):
    """The text is complete but the output type's own validators reject it."""


class ConstraintNotSent(UserWarning):
    """A server refused or ignored a constraint, or keeps to none, so it enforces less than the output type says.

    structgen checks the answers all the same, and requests another one where an answer is wrong. ``weaken=False`` of
    `structgen.connect` turns this warning into an error.
    """


class ModelWarning(UserWarning):
    """A model is slower than others of its size, for a reason that its user may not know. Its output is correct."""


class TemperatureNotApplied(UserWarning):
    """Rules of a grammar set temperatures, and an engine other than structgen's own samples the tokens at one."""
