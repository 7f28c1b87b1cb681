"""The local check of a remote answer: the text as our own matcher and the type's validators see it.

Why: what a server enforces is its own affair, and some constraints (temporal logic, monitors, combinations) it cannot
be told of. Whatever comes is checked here, with the place and the reason where it is wrong, which the model is told.
What: the bytes of the answer are read under the constraint, over a vocabulary of single bytes. Of JSON it is the value
that counts: white space, the order of keys and the spelling of numbers are as the server likes them. A code fence
around a whole answer, reasoning (`<think>...</think>`) before it, and blanks at its ends, are taken away if it is right
without them.
Invariant: a text that passes is a value of the type: `Result.value` cannot fail.
Cost: compiling the constraint once, then linear in the text.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from functools import lru_cache

from structgen.constraints.base import Constraint
from structgen.constraints.json_schema import JsonSchemaConstraint
from structgen.constraints.json_schema.whitespace import WhitespaceName
from structgen.errors import OutputInvalid, StructgenError, show_place
from structgen.matcher import Matcher, open_matcher, warn_of_temperatures
from structgen.partial import JsonReader
from structgen.types import OutputType
from structgen.vocabulary import Vocabulary

from .dialects import WRAPPED

__all__ = ["Beginning", "Verdict", "judge", "unfenced"]

_FENCED = re.compile(r"\s*```[\w+.#-]*[ \t]*\n(.*?)\n?[ \t]*```\s*", re.DOTALL)
_REASONING = re.compile(r"\s*<think>.*?</think>\s*", re.DOTALL)
_TOKENS = re.compile(r'("(?:[^"\\]|\\.)*"?)|[ \t\r\n]+', re.DOTALL)


@dataclass(frozen=True)
class Verdict:
    """What became of an answer."""

    text: str
    """The answer without what stood around it."""
    problem: str = ""
    """Why it is wrong, for the model and for people; empty where it is right."""
    error: StructgenError | None = None
    """The same as an error."""
    is_misfit: bool = False
    """Whether the text violates the constraint itself, which a server that enforces it cannot send."""

    @property
    def is_right(self) -> bool:
        return self.error is None


class Beginning:
    """What of one growing answer partial values can be made of: of JSON as far as it is JSON, without a code fence."""

    def __init__(self, output: OutputType) -> None:
        self._parser = JsonReader() if output.is_json else None
        self._fed = 0
        self._is_wrong = False

    def __call__(self, text: str) -> str | None:
        """The part to show of the text so far; None where there is nothing, or nothing right."""
        if self._parser is None:
            return text
        if self._is_wrong:
            return None
        start = len(text) - len(text.lstrip())
        if "```".startswith(text[start : start + 3]):
            start = text.find("\n", start) + 1
            if not start:
                return None
        inner = text[start:]
        try:
            self._parser.feed(inner[self._fed :])
        except ValueError:
            self._is_wrong = True
            return None
        self._fed = len(inner)
        return inner


def judge(output: OutputType, text: str, *, wrapped: bool = False) -> Verdict:
    """Check the answer `text`; `wrapped`: it should be an object that holds the value."""
    if output.is_free_text:
        return Verdict(text)
    if wrapped:
        inner = _unwrapped(_without_reasoning(text))
        if isinstance(inner, Verdict):
            return inner
        text = _as_text(output, inner)
    readings = dict.fromkeys((text, text.strip(), unfenced(text)))
    if output.is_json:  # blanks around it mean nothing
        readings = dict.fromkeys((text.strip(), unfenced(text)))
    if not wrapped and (answer := _without_reasoning(text)) is not text:
        readings |= dict.fromkeys((answer.strip(), unfenced(answer)))
    verdicts = []
    for reading in readings:
        verdict = _judged(output, reading)
        if verdict.is_right:
            return verdict
        verdicts.append(verdict)
    return verdicts[-1]


def unfenced(text: str) -> str:
    """What is inside of a code fence, if the text is one; without blanks around it."""
    found = _FENCED.fullmatch(text)
    return (found[1] if found else text).strip()


def _without_reasoning(text: str) -> str:
    """The text after the reasoning at its beginning, which some servers leave in it."""
    found = _REASONING.match(text)
    return text if found is None else text[found.end() :]


def _judged(output: OutputType, text: str) -> Verdict:
    constraint = _form_is_free(output.constraint)
    problem = ""
    if output.is_json and not _is_json(text):  # the place is shown in the text as it came
        problem = _misfit(_form_is_free(output.constraint, "flexible"), text)
    problem = problem or _misfit(constraint, _compacted(text) if output.is_json else text)
    if problem:
        error = OutputInvalid(
            f"the answer does not satisfy {constraint.describe()}: {problem}",
            text=text,
            hint="The server did not keep the model to it; another dialect= may (see structgen.connect).",
        )
        return Verdict(text, problem, error, is_misfit=True)
    try:
        output.validate(text)
    except OutputInvalid as error:
        return Verdict(text, error.message, error)
    return Verdict(text)


def _misfit(constraint: Constraint, text: str) -> str:
    """Where and why the text is not of the constraint; empty if it is."""
    try:
        data = text.encode()
    except UnicodeEncodeError as error:
        return f"character {error.start} of it is half of one"
    matcher = open_matcher(constraint, _bytes())
    warn_of_temperatures(matcher, "The server")
    judge = matcher.judge
    if judge is None:
        explanation = Matcher(constraint, _bytes()).explain(data)
        return "" if explanation.ok else str(explanation)
    for position, byte in enumerate(data):
        if not judge.advance(byte):
            shown = len(data[:position].decode("utf-8", "replace"))
            return f"a monitor or the constraint refuses what stands here:\n{show_place(text, shown)}"
    if not judge.is_complete():
        return "the text ends too early"
    return "" if judge.is_right() else "a monitor finds a fault in the finished text"


@lru_cache(maxsize=1)
def _bytes() -> Vocabulary:
    return Vocabulary.of_bytes()


@lru_cache(maxsize=256)
def _form_is_free(constraint: Constraint, whitespace: WhitespaceName = "compact") -> Constraint:
    """The same values in any JSON spelling, with white space of this kind."""
    if not isinstance(constraint, JsonSchemaConstraint):
        return constraint
    free = replace(constraint.options, whitespace=whitespace, ordered=False, escapes="all", integers="any")
    return constraint.written_as(free)


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _compacted(text: str) -> str:
    """A JSON text without white space between its tokens."""
    return _TOKENS.sub(lambda found: found[1] or "", text)


def _unwrapped(text: str) -> object:
    """The value in the object; a verdict where there is none."""
    stripped = unfenced(text)
    try:
        data = json.loads(stripped)
    except (ValueError, RecursionError) as error:
        problem = f"the answer is not JSON: {error}"
    else:
        if isinstance(data, dict) and data.keys() == {WRAPPED}:
            return data[WRAPPED]
        problem = f'the answer must be an object with the one key "{WRAPPED}"'
    return Verdict(stripped, problem, OutputInvalid(problem, text=stripped), is_misfit=True)


def _as_text(output: OutputType, value: object) -> str:
    if not output.is_json and isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)
