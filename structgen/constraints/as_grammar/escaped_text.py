"""Texts of a constraint inside JSON strings: ``{"input": "SELECT 1\\n"}``.

Why: a model writes the arguments of a call as JSON, and the text in them may have a grammar of its own.
What: each terminal is translated as `json_strings` translates expressions. No translated character is a prefix of
another, and none begins with a quotation mark. So lexemes and parses are those of the text itself, and the string ends
at its closing quotation mark.
Invariant: the texts are those of ``json.dumps(text, ensure_ascii=False)`` without quotation marks, for each text of the
constraint.
Cost: linear in the grammar.
"""

from __future__ import annotations

from typing import Any

from structgen.constraints.base import Constraint
from structgen.constraints.grammar.lowered import Lowered
from structgen.errors import CombinationError
from structgen.ir.grammar import GrammarIR

from .json_strings import StringTranslator

__all__ = ["EscapedText"]

_REFUSED = {
    "constraint": "contains {name}, which is not a grammar or a regular expression",
    "special": "contains the special token {name}, which is not text",
    "tokens": "contains single tokens, {name}",
    "declared": "reads the indentation of lines",
}


class EscapedText(Lowered):
    """The texts of a grammar or a regular expression with the escapes of JSON strings, without quotation marks.

    Raises:
        CombinationError: The constraint is neither, or contains a part that is neither.
    """

    __slots__ = ("inner",)

    inner: Constraint

    def __init__(self, inner: Constraint) -> None:
        object.__setattr__(self, "inner", inner)
        expression = inner.regular()
        if expression is None:
            ir: tuple[str, Any] = ("grammar", _translated(inner))
        else:
            ir = ("regex", StringTranslator().translate(("scope", expression)))
        object.__setattr__(self, "_ir", ir)

    def describe(self) -> str:
        """Return the phrase of the grammar."""
        return f"{self.inner.describe()}, inside a JSON string"

    def __repr__(self) -> str:
        return f"<{self.describe()}>"


def _translated(constraint: Constraint) -> GrammarIR:
    kind, content = constraint.lower()
    if kind != "grammar":
        raise CombinationError(
            f"{constraint.describe()} cannot be written inside a JSON string",
            hint="Use a grammar or a regular expression.",
        )
    translator = StringTranslator()
    terminals = []
    for type_, name, inner, scanner in content["terminals"]:
        if type_ != "text":
            reason = _REFUSED[type_].format(name=inner if type_ == "special" else name or "a constraint")
            raise CombinationError(
                f"{constraint.describe()} cannot be written inside a JSON string: it {reason}",
                hint="Write the text with terminals alone.",
            )
        terminals.append((type_, name, translator.translate(inner), scanner))
    within = content["within"]
    return GrammarIR(
        content,
        terminals=tuple(terminals),
        scanners=tuple(map(translator.translate, content["scanners"])),
        within=None if within is None else translator.translate(within),
    )
