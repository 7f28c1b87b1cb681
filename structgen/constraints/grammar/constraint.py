"""The constraint "a text of this grammar".

Why: once read, a grammar is a constraint like any other, independent of its notation. `builders` has a function for
each notation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from structgen.constraints.base import Constraint
from structgen.errors import OptionError, with_kind
from structgen.ir.grammar import Body, Grammar, GrammarIR

from .capture_grammar import CaptureGrammar
from .fixed_indentation import Indented
from .lowered import Lowered
from .lowering import lower

__all__ = ["DEEPEST", "GrammarConstraint"]

DEEPEST = 32
"""The most nested blocks that `GrammarConstraint.indented_by` allows."""


class GrammarConstraint(Lowered):
    """The texts of a grammar. `gbnf`, `ebnf` and `lark` build it."""

    __slots__ = ("_read", "format", "start")

    _read: Grammar | partial[Grammar]
    """The grammar, or the call that reads it if only its IR was needed so far."""
    format: str
    start: str

    def __init__(self, grammar: Grammar, format: str) -> None:
        self._set(grammar, format, grammar.start, lower(grammar))

    @classmethod
    def of_ir(cls, ir: GrammarIR, format: str, start: str, read: partial[Grammar]) -> GrammarConstraint:
        """Return the constraint of an IR that is already built; `read` reads the grammar once it is needed."""
        constraint = cls.__new__(cls)
        constraint._set(read, format, start, ("grammar", ir))
        return constraint

    def _set(self, read: object, format: str, start: str, ir: tuple[str, Any]) -> None:
        for name, value in (("_read", read), ("format", format), ("start", start), ("_ir", ir)):
            object.__setattr__(self, name, value)

    @property
    def grammar(self) -> Grammar:
        """The grammar as its front end read it."""
        read = self._read
        if isinstance(read, partial):
            read = read()
            object.__setattr__(self, "_read", read)
        return read

    def holds_captures(self) -> bool:
        """Return whether a rule, or a constraint nested in one, captures a part of the text."""
        if isinstance(self._read, partial):
            return False  # plain grammars have neither rule options nor nested constraints
        return super().holds_captures() or any(
            rule.capture is not None or (rule.ending is not None and rule.ending.capture is not None)
            for rule in self.grammar.rules
        )

    def parsed(self, compose: Callable[[Constraint], Any]) -> CaptureGrammar:
        """Return the parser of captures for this grammar."""
        return CaptureGrammar(self.grammar)

    def _bodies(self) -> Iterable[Body]:
        return [rule.body for rule in self.grammar.rules]

    @property
    def reads_indentation(self) -> bool:
        """Whether the indentation of lines is part of the syntax."""
        return self._ir[0] == "grammar" and self._ir[1]["indentation"] is not None

    def indented_by(self, unit: str = "    ", *, deepest: int = 8, before: str = "") -> Indented:
        """Restrict a grammar with indentation to one unit per block.

        The result can be intersected with a regular expression and used on a canvas. A grammar that reads any
        indentation, such as ``sg.grammar("python")``, cannot.

        Args:
            unit: The spaces or tabs that indent each block.
            deepest: The most nested blocks, up to 32.
            before: Spaces or tabs before every line but the first, for a text that is part of an indented one.

        Raises:
            OptionError: The grammar reads no indentation, or an argument has the wrong type or value.
        """
        if not self.reads_indentation:
            raise OptionError(
                f"{self.describe()} reads no indentation",
                hint="Grammars with an `indenter` can be indented by a unit.",
            )
        if not isinstance(unit, str) or not unit or unit.strip(" \t"):
            raise OptionError(f"unit is {with_kind(unit)}; it must be spaces or tabs")
        if not isinstance(before, str) or before.strip(" \t"):
            raise OptionError(f"before is {with_kind(before)}; it must be spaces or tabs, or empty")
        if isinstance(deepest, bool) or not isinstance(deepest, int) or not 0 <= deepest <= DEEPEST:
            raise OptionError(f"deepest is {deepest!r:.40}; it must be a whole number from 0 to {DEEPEST}")
        return Indented(self, unit, deepest, before)

    def describe(self) -> str:
        """Return a short phrase that names the notation and the start rule."""
        return f"the {self.format} grammar of `{self.start}`"

    def empty_hint(self) -> str:
        """Return the advice to look for empty rules with `structgen check`."""
        return (
            f"Run `structgen check --{self.format.lower()} FILE`: it lists rules without a text and terminals that "
            "never match. The tokenizer may also lack characters that every text needs."
        )

    def written(self) -> list[tuple[str, str]]:
        """Return the grammar's source text, without a name; empty for a grammar without a source."""
        return [("", self.grammar.source)] if self.grammar.source else []

    def __repr__(self) -> str:
        rules = len(self.grammar.rules)
        return f"<{self.format} grammar, start {self.start!r}, {rules} rule{'s' * (rules != 1)}>"
