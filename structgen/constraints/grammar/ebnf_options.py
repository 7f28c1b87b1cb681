"""Options of rules in XGrammar's EBNF: ``name[lazy, max_chars=80] ::= ...``.

Why: they say where a rule ends, or what is done with its text.
Invariant: every option is carried out or refused by name; each is read once.
Source: XGrammar 0.2.6, "EBNF Grammar", section Rule Options.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from structgen.constraints.earliest import earliest_end
from structgen.constraints.expressions import RE

from .notation import Reader

__all__ = ["RuleOptions", "read_options"]

_STRING = r'"(?:[^"\\\r\n]|\\[^\r\n])*+"'
_ITEM = re.compile(rf'[ \t]*+([A-Za-z_]\w*+)[ \t]*+(?:=[ \t]*+({_STRING}|[^,\]\s"]*+)[ \t]*+)?+([,\]])')
_MOST_CHARACTERS = 2**31 - 1
_COUNTS = {
    "max_chars": (0, _MOST_CHARACTERS),
    "max_tokens": (1, _MOST_CHARACTERS),
    "capture_hidden_suffix_bytes": (0, _MOST_CHARACTERS),
    "capture_hidden_stop_bytes": (0, _MOST_CHARACTERS),
    "capture_hidden_body_rule_id": (0, _MOST_CHARACTERS),
    "capture_hidden_marker_rule_id": (0, _MOST_CHARACTERS),
}
_KNOWN = ("lazy", "capture", "stop_capture", "temperature", *_COUNTS)


@dataclass(frozen=True, slots=True)
class RuleOptions:
    """Of one rule."""

    position: int
    """Of the bracket."""
    length: int
    lazy: bool = False
    max_chars: int | None = None
    max_tokens: int | None = None
    capture: str | None = None
    stop_capture: str | None = None
    temperature: float | None = None

    @property
    def ends_early(self) -> bool:
        return self.lazy or self.max_chars is not None

    def shape(self, language: RE) -> RE:
        """The texts of the rule's body that its options leave."""
        if self.lazy:
            return earliest_end(language)  # which a budget of characters can make no earlier
        assert self.max_chars is not None
        return earliest_end(language, self.max_chars)


def read_options(reader: Reader, name: str, position: int) -> RuleOptions:
    """The options of a rule.

    Args:
        reader: The grammar.
        name: The rule.
        position: Of the opening bracket.
    """
    found: dict[str, bool | int | str | float] = {}
    at = position + 1
    while True:
        item = _ITEM.match(reader.source, at)
        if item is None:
            hint = "The form is name[option, option=value] ::= ..."
            raise reader.fault("here an option is needed, its value and a comma or ]", at, hint=hint)
        option, value = item[1], item[2]
        if option not in _KNOWN:
            hint = f"There are {', '.join(_KNOWN)}."
            raise reader.fault(f"rules have no option {option:.60}", item.start(1), len(option), hint=hint)
        if option in found:
            raise reader.fault(
                f"{option} is given a second time", item.start(1), len(option), hint="Give it once."
            )
        found[option] = _value(reader, name, option, value, item)
        at = item.end()
        if item[3] == "]":
            break
    hidden = [option for option in found if option.startswith("capture_hidden_")]
    for option in (
        *hidden,
        *(one for one in ("max_tokens", "capture", "stop_capture", "temperature") if one in found),
    ):
        hint = "Remove it: without it the grammar has the same texts."
        raise reader.unsupported(
            f"the option {option} of rules is not supported", position, at - position, hint=hint
        )
    return RuleOptions(position, at - position, **found)  # type: ignore[arg-type]


def _value(
    reader: Reader, name: str, option: str, value: str | None, item: re.Match[str]
) -> bool | int | str | float:
    at = item.start(1) if value is None else item.start(2)
    length = max(1, len(option if value is None else value))
    if option == "lazy":
        if value is not None:
            raise reader.fault("lazy takes no value", at, length, hint="Write it alone: name[lazy] ::= ...")
        return True
    if option in ("capture", "stop_capture"):
        if value is None and option == "capture":
            return name
        if value is None or value[:1] != '"' or len(value) < 3:
            hint = f'Write {option}="name".'
            raise reader.fault(f"{option} takes a name in double quotes", at, length, hint=hint)
        return reader.string(value, at)
    if option == "temperature":
        return _temperature(reader, value, at, length)
    low, high = _COUNTS[option]
    if value is None or not value.isascii() or not value.isdecimal() or not low <= int(value[:20]) <= high:
        hint = f"Write {option}=32, for example."
        raise reader.fault(f"{option} takes a whole number from {low} to {high:,}", at, length, hint=hint)
    return int(value)


def _temperature(reader: Reader, value: str | None, at: int, length: int) -> float:
    try:
        temperature = float(value or "")
    except ValueError:
        temperature = -1.0
    if not math.isfinite(temperature) or temperature < 0:
        hint = "Write temperature=0.7, for example."
        raise reader.fault("temperature takes a number, not below 0", at, length, hint=hint)
    return temperature
