"""How a plan is written: one text for each step, and what stands around them."""

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
    """`open`, the steps with `separator` between them, `close`. No two steps are written alike."""

    write: Callable[[Step], str]
    separator: str = "\n"
    open: str = ""
    close: str = ""

    def text(self, steps: Sequence[Step]) -> str:
        """A whole plan."""
        return self.open + self.separator.join(map(self.write, steps)) + self.close

    def texts(self, steps: Sequence[Step]) -> dict[str, Step]:
        """Each step by its text.

        Raises
        ------
        OptionError
            Where a plan could be read in two ways.
        """
        if not callable(self.write):
            raise OptionError(f"write is {a_kind(self.write)}; it is a function from a Step to its text")
        if not isinstance(self.separator, str) or not self.separator:
            raise OptionError("the separator of steps is empty; a plan could be read in several ways")
        found: dict[str, Step] = {}
        for step in steps:
            text = self.write(step)
            if not isinstance(text, str) or not text:
                raise OptionError(
                    f"the step {step} is written as {text!r:.40}; it must be a text that is not empty"
                )
            if (text + self.separator).index(self.separator) < len(text):
                raise OptionError(
                    f"the step {step} is written as {text!r:.60}, which holds the separator {self.separator!r} or its "
                    "beginning"
                )
            other = found.setdefault(text, step)
            if other is not step:
                raise OptionError(f"the steps {other} and {step} are both written as {text!r:.60}")
        return found


def _line(step: Step) -> str:
    return " ".join([step.name, *(value for _, value in step.arguments)])


def _call(step: Step) -> str:
    return f"{step.name}({', '.join(json.dumps(value, ensure_ascii=False) for _, value in step.arguments)})"


def _object(step: Step) -> str:
    """Without the braces: these stand in the separator, so that commas inside are none."""
    return json.dumps({"action": step.name, **dict(step.arguments)}, ensure_ascii=False)[1:-1]


FORMATS = {
    "lines": PlanFormat(_line),
    "calls": PlanFormat(_call),
    "json": PlanFormat(_object, separator="}, {", open="[{", close="}]"),
}


def as_format(value: object) -> PlanFormat:
    """A name of `FORMATS`, or a `PlanFormat`."""
    if isinstance(value, PlanFormat):
        return value
    if isinstance(value, str) and value in FORMATS:
        return FORMATS[value]
    raise OptionError(f"format is {value!r:.60}; it must be one of {', '.join(FORMATS)}, or a PlanFormat")
