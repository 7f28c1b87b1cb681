"""Check a remote answer locally, with our own matcher and the type's validators.

Why: servers differ in what they enforce, and no server accepts some constraints (temporal logic, monitors,
combinations). Each answer is checked here; the position and the reason of a fault go into the feedback for the model.
What: the bytes of the answer are read under the constraint, over a vocabulary of single bytes. For JSON only the value
counts: white space, the order of keys and the spelling of numbers are free. A code fence around the whole answer,
reasoning (`<think>...</think>`) before it, and blanks at its ends are removed if the answer is right without them.
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

__all__ = ["PartialAnswer", "Verdict", "judge", "unfenced"]

_FENCED = re.compile(r"\s*```[\w+.#-]*[ \t]*\n(.*?)\n?[ \t]*```\s*", re.DOTALL)
_REASONING = re.compile(r"\s*<think>.*?</think>\s*", re.DOTALL)
_TOKENS = re.compile(r'("(?:[^"\\]|\\.)*"?)|[ \t\r\n]+', re.DOTALL)


@dataclass(frozen=True)
class Verdict:
    """The result of checking an answer."""

    text: str
    """The answer, without fences, reasoning and blanks around it."""
    problem: str = ""
    """Why it is wrong, for the model and for people; empty if it is right."""
    error: StructgenError | None = None
    """The problem as an error; None if the answer is right."""
    is_misfit: bool = False
    """Whether the text violates the constraint itself, which a server that enforces it cannot send."""

    @property
    def is_right(self) -> bool:
        """Return whether the answer satisfies the constraint."""
        return self.error is None


class PartialAnswer:
    """The part of an unfinished answer that partial values can be read from: valid JSON, without a code fence."""

    def __init__(self, output: OutputType) -> None:
        self._parser = JsonReader() if output.is_json else None
        self._fed = 0
        self._is_wrong = False

    def __call__(self, text: str) -> str | None:
        """Return the part of the text so far to show; None if there is no valid part."""
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
    """Check an answer.

    Args:
        output: The type of the value.
        text: The answer.
        wrapped: The answer should be an object that contains the value; see `dialects.WRAPPED`.
    """
    if output.is_free_text:
        return Verdict(text)
    if wrapped:
        inner = _unwrapped(_without_reasoning(text))
        if isinstance(inner, Verdict):
            return inner
        text = _as_text(output, inner)
    readings = dict.fromkeys((text, text.strip(), unfenced(text)))
    if output.is_json:  # blanks around JSON have no meaning
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
    """Return a text without the code fence and the blanks around it."""
    match = _FENCED.fullmatch(text)
    return (match[1] if match else text).strip()


def _without_reasoning(text: str) -> str:
    """Return the text after the reasoning at its beginning, which some servers do not remove."""
    match = _REASONING.match(text)
    return text if match is None else text[match.end() :]


def _judged(output: OutputType, text: str) -> Verdict:
    constraint = _form_is_free(output.constraint)
    problem = ""
    if output.is_json and not _is_json(text):  # the fault is shown in the original text
        problem = _misfit(_form_is_free(output.constraint, "flexible"), text)
    problem = problem or _misfit(constraint, _compacted(text) if output.is_json else text)
    if problem:
        error = OutputInvalid(
            f"the answer does not satisfy {constraint.describe()}: {problem}",
            text=text,
            hint="The server did not enforce it; it may enforce another dialect= (see structgen.connect).",
        )
        return Verdict(text, problem, error, is_misfit=True)
    try:
        output.validate(text)
    except OutputInvalid as error:
        return Verdict(text, error.message, error)
    return Verdict(text)


def _misfit(constraint: Constraint, text: str) -> str:
    """Return where and why the text violates the constraint; empty if it does not."""
    try:
        data = text.encode()
    except UnicodeEncodeError as error:
        return f"character {error.start} is a lone surrogate"
    matcher = open_matcher(constraint, _bytes())
    warn_of_temperatures(matcher, "The server")
    judge = matcher.judge
    if judge is None:
        explanation = Matcher(constraint, _bytes()).explain(data)
        return "" if explanation.ok else str(explanation)
    for position, byte in enumerate(data):
        if not judge.advance(byte):
            shown = len(data[:position].decode("utf-8", "replace"))
            return f"a monitor or the constraint refuses the text here:\n{show_place(text, shown)}"
    if not judge.is_complete():
        return "the text ends too early"
    return "" if judge.is_right() else "a monitor finds a fault in the finished text"


@lru_cache(maxsize=1)
def _bytes() -> Vocabulary:
    return Vocabulary.of_bytes()


@lru_cache(maxsize=256)
def _form_is_free(constraint: Constraint, whitespace: WhitespaceName = "compact") -> Constraint:
    """Return a constraint with the same JSON values in any spelling, with white space of this kind."""
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
    """Return a JSON text without white space between its tokens."""
    return _TOKENS.sub(lambda match: match[1] or "", text)


def _unwrapped(text: str) -> object:
    """Return the value in the object, or a verdict if the text is not such an object."""
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
