"""The many texts of one JSON value: white space, key order, escapes, spellings of numbers.

`texts(value)` draws a text that reads as the value; each kind of variation can be switched off.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy


@dataclass(frozen=True)
class Variations:
    whitespace: bool = True
    order: bool = True
    escapes: bool = True
    numbers: bool = True


EVERY = Variations()
PLAIN = Variations(whitespace=False, order=False, escapes=False, numbers=False)
_SPACES = st.sampled_from(["", "", "", " ", "\n", "\n  ", "\t", "\r\n"])
_SHORT = {
    '"': '\\"',
    "\\": "\\\\",
    "/": "\\/",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
}


@st.composite
def texts(draw: DrawFn, value: Any, variations: Variations = EVERY) -> str:
    return _Writer(draw, variations).value(value)


def plain_text(value: Any) -> str:
    """The compact text, without randomness; numbers keep every digit."""
    return _Writer(_no_choice, PLAIN).value(value)


def _no_choice(strategy: SearchStrategy[Any]) -> Any:
    raise AssertionError("plain texts leave nothing to choose")


class _Writer:
    def __init__(self, draw: Callable[[SearchStrategy[Any]], Any], variations: Variations) -> None:
        self.draw = draw
        self.vary = variations

    def space(self) -> str:
        return str(self.draw(_SPACES)) if self.vary.whitespace else ""

    def value(self, value: Any) -> str:
        return self.space() + self.token(value) + self.space()

    def token(self, value: Any) -> str:
        if value is None or isinstance(value, bool):
            return json.dumps(value)
        if isinstance(value, str):
            return self.string(value)
        if isinstance(value, Mapping):
            members = list(value.items())
            if self.vary.order:
                members = self.draw(st.permutations(members))
            inside = ",".join(
                f"{self.space()}{self.string(name)}{self.space()}:{self.value(child)}"
                for name, child in members
            )
            return "{" + (inside or self.space()) + "}"
        if isinstance(value, list | tuple):
            return "[" + (",".join(self.value(child) for child in value) or self.space()) + "]"
        return self.number(value)

    def string(self, text: str) -> str:
        return '"' + "".join(self.character(character) for character in text) + '"'

    def character(self, character: str) -> str:
        plain = json.dumps(character, ensure_ascii="\ud800" <= character <= "\udfff")[1:-1]
        if not self.vary.escapes or not self.draw(st.booleans()):
            return plain
        units = character.encode("utf-16-be", "surrogatepass")
        codes = [units[at : at + 2].hex() for at in range(0, len(units), 2)]
        hexadecimal = "".join("\\u" + self.draw(st.sampled_from([code, code.upper()])) for code in codes)
        return str(self.draw(st.sampled_from([hexadecimal, _SHORT.get(character, plain)])))

    def number(self, value: int | float | Decimal | Fraction) -> str:
        plain = decimal_text(value)
        if not self.vary.numbers:
            return plain
        return str(self.draw(st.sampled_from(spellings(plain))))


def decimal_text(value: int | float | Decimal | Fraction) -> str:
    """The number without an exponent; a fraction must have a finite expansion."""
    if isinstance(value, float):
        value = Decimal(repr(value))
    if isinstance(value, Fraction):
        value = Decimal(value.numerator) / Decimal(value.denominator)
    text = f"{value:f}"
    return text if "." not in text else text.rstrip("0").rstrip(".")


def spellings(plain: str) -> list[str]:
    """Texts of the same number: trailing zeros, a normalised exponent, a zero with a sign."""
    whole, _, fraction = plain.partition(".")
    found = [plain, plain, f"{whole}.{fraction}0"]
    sign, digits = ("-", whole[1:]) if whole.startswith("-") else ("", whole)
    significant = (digits + fraction).lstrip("0")
    if not significant:
        return [*found, "-0", "0e5", "0.0E-2"] if not sign else [*found, "0e0"]
    exponent = len(digits) - 1 if digits != "0" else len(significant) - len(fraction) - 1
    mantissa = significant[0] + ("." + significant[1:] if significant[1:] else "")
    return [
        *found,
        f"{sign}{mantissa}e{exponent}",
        f"{sign}{mantissa}0E{exponent:+03d}" if "." in mantissa else plain,
    ]
