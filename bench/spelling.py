"""Draw many spellings of one JSON value with a seeded generator: key order, white space, escapes, numbers.

A schema constrains values, so every spelling that the options offer must get the verdict of its value. One canonical
text for each value would not test the others.

Invariant: a text of `Speller.text` reads as the given value, never repeats a key, and stays within what
``whitespace="flexible"`` and the chosen ``escapes`` offer (docs/json-schema.md). Cost: linear in the text.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

__all__ = ["Speller", "number_spellings", "read"]

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
_LONGEST_MANTISSA = 17  # digits of a number with an exponent; longer ones are written out
_GREATEST_EXPONENT = 400


def read(text: str) -> Any:
    """Parse JSON with exact numbers; the last of two equal keys counts."""
    return json.loads(text, parse_float=Decimal, parse_int=Decimal)


@dataclass
class Speller:
    """Writes a value with random variations; without one, as ``json.dumps`` writes it compactly."""

    source: random.Random
    shuffle: bool = True
    spaces: bool = True
    escapes: bool = False
    numbers: bool = True
    integers: bool = True
    """Whether integers may have a point or an exponent; in draft 4 such numbers are not integers."""

    def text(self, value: Any) -> str:
        """Return a text of `value`, whose numbers are Decimal or int."""
        if value is None or isinstance(value, bool):
            return json.dumps(value)
        if isinstance(value, str):
            return self._string(value)
        if isinstance(value, Mapping):
            names = list(value)
            if self.shuffle:
                self.source.shuffle(names)
            members = (
                f"{self._gap()}{self._string(name)}{self._gap()}:{self._gap()}{self.text(value[name])}{self._gap()}"
                for name in names
            )
            return "{" + (",".join(members) or self._gap()) + "}"
        if isinstance(value, list):
            items = (self._gap() + self.text(item) + self._gap() for item in value)
            return "[" + (",".join(items) or self._gap()) + "]"
        return self._number(Decimal(value))

    def _gap(self) -> str:
        """Return white space: often none, otherwise a few blanks, sometimes with a line end and an indentation."""
        draw = self.source.random
        if not self.spaces or draw() < 0.5:
            return ""
        blanks = "".join(self.source.choices(" \t", k=self.source.randint(0, 4)))
        if draw() < 0.6:
            return blanks
        return blanks + self.source.choice(("\n", "\r\n")) + self.source.choice(" \t") * int(64 * draw() ** 4)

    def _string(self, text: str) -> str:
        if not self.escapes:
            return json.dumps(text, ensure_ascii=False)
        often = self.source.choice((0.0, 0.1, 0.5, 1.0))
        return '"' + "".join(self._character(character, often) for character in text) + '"'

    def _character(self, character: str, often: float) -> str:
        plain = json.dumps(character, ensure_ascii=False)[1:-1]
        if self.source.random() >= often:
            return plain
        if character in _SHORT and self.source.random() < 0.5:
            return _SHORT[character]
        units = character.encode("utf-16-be")
        codes = [units[at : at + 2].hex() for at in range(0, len(units), 2)]
        return "".join("\\u" + self.source.choice((code, code.upper())) for code in codes)

    def _number(self, value: Decimal) -> str:
        if not self.numbers or (not self.integers and value == value.to_integral_value()):
            return number_spellings(value)[0]
        return self.source.choice(number_spellings(value))


def number_spellings(value: Decimal) -> list[str]:
    """Return texts of `value`: the plain decimal first, then with trailing zeros or a normalised exponent."""
    plain = f"{value:f}"
    if "." in plain:
        plain = plain.rstrip("0").rstrip(".")
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    significant = "".join(map(str, digits)).strip("0")
    minus = "-" if sign else ""
    if not significant:
        return [plain, f"{minus}0.0", f"{minus}0e3", f"{minus}0.0E-2"]
    spellings = [plain, plain + ("0" if "." in plain else ".0")]
    scale = value.adjusted()
    if len(significant) < _LONGEST_MANTISSA and abs(scale) <= _GREATEST_EXPONENT:
        mantissa = minus + significant[0] + ("." + significant[1:] if significant[1:] else "")
        zero = "0" if "." in mantissa else ".0"
        spellings += [f"{mantissa}e{scale}", f"{mantissa}{zero}E{scale:+03d}"]
    return spellings
