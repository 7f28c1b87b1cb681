"""Formats of plans: the text of each step, the separator, and the texts around all steps."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from structgen.argument_names import checks_names_of_init
from structgen.errors import OptionError, a_kind

from .actions import Step

__all__ = ["FORMATS", "PlanFormat", "as_format"]


@checks_names_of_init
@dataclass(frozen=True)
class PlanFormat:
    """How a plan is written: `open`, the steps with `separator` between them, `close`.

    Args:
        write: Returns the text of a step. The texts of two steps must differ.
        separator: The text between two steps.
        open: The text before the first step.
        close: The text after the last step.
    """

    write: Callable[[Step], str]
    separator: str = "\n"
    open: str = ""
    close: str = ""

    def text(self, steps: Sequence[Step]) -> str:
        """Return the text of a whole plan."""
        return self.open + self.separator.join(map(self.write, steps)) + self.close

    def texts(self, steps: Sequence[Step]) -> dict[str, Step]:
        """Return the steps by their texts.

        Raises:
            OptionError: A plan would be ambiguous, or `write` returns no text.
        """
        if not callable(self.write):
            raise OptionError(f"write is {a_kind(self.write)}; it must be a function from a Step to its text")
        if not isinstance(self.separator, str) or not self.separator:
            raise OptionError("the separator of steps is empty, so a plan would be ambiguous")
        steps_by_text: dict[str, Step] = {}
        for step in steps:
            text = self.write(step)
            if not isinstance(text, str) or not text:
                raise OptionError(f"the step {step} is written as {text!r:.40}; it must be a non-empty text")
            if (text + self.separator).index(self.separator) < len(text):
                raise OptionError(
                    f"the step {step} is written as {text!r:.60}, which contains the separator {self.separator!r} or "
                    "ends with its beginning"
                )
            other = steps_by_text.setdefault(text, step)
            if other is not step:
                raise OptionError(f"the steps {other} and {step} are both written as {text!r:.60}")
        return steps_by_text


def _line(step: Step) -> str:
    return " ".join([step.name, *(value for _, value in step.arguments)])


def _call(step: Step) -> str:
    return f"{step.name}({', '.join(json.dumps(value, ensure_ascii=False) for _, value in step.arguments)})"


def _object(step: Step) -> str:
    """Return the object without its braces, which are in the separator: so commas inside do not separate steps."""
    return json.dumps({"action": step.name, **dict(step.arguments)}, ensure_ascii=False)[1:-1]


FORMATS = {
    "lines": PlanFormat(_line),
    "calls": PlanFormat(_call),
    "json": PlanFormat(_object, separator="}, {", open="[{", close="}]"),
}


def as_format(value: object) -> PlanFormat:
    """Return a `PlanFormat`, or the format with this name."""
    if isinstance(value, PlanFormat):
        return value
    if isinstance(value, str) and value in FORMATS:
        return FORMATS[value]
    raise OptionError(f"format is {value!r:.60}; it must be one of {', '.join(FORMATS)}, or a PlanFormat")
