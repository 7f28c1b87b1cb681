"""Read and apply the options that a Lark grammar sets for itself: ``%llguidance {...}``, ``%grammar_options {...}``.

Why: llguidance and XGrammar let a grammar restrict ignored text. In Lark it may occur anywhere, also first, and any
number of times.
Invariant: an option is applied or refused. ``no_forcing`` needs no effect: a token is forced only if the mask allows no
other, so both values describe the same output.
Cost: one more symbol for each item of a rule, if an option restricts ignored text.
Source: llguidance, docs/syntax.md; XGrammar, Lark frontend.

If the options allow less than Lark does, the lexer ignores nothing. Instead, each terminal, special token and
constraint in a rule is followed by a rule for the ignored text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from structgen.ir.grammar import Body

from ..bodies import choice_of, sequence_of
from .source import Piece, Source

__all__ = ["Settings"]

_IGNORED = "%ignore"
_TEXT = "%start"
"""Names of the added rules; no rule of a grammar can have them."""

_SWITCHES = ("allow_initial_skip", "ignore_once", "no_forcing", "allow_invalid_utf8")
_KNOWN = (*_SWITCHES, "skip_repetition")


@dataclass
class Settings:
    """The values of the options; the last one of a name counts."""

    initial_skip: bool = True
    """Whether the text may start with ignored text."""
    skip_once: bool = False
    """Whether at most one lexeme is ignored at each position."""

    def read(self, source: Source, block: Piece) -> None:
        """Add the options of a block.

        Raises:
            GrammarSyntaxError: There is no such option, or it has another type.
            GrammarUnsupported: The option has a value that is not supported.
        """
        name = block.text.split("{")[0].strip()
        options = json.loads(source.text[block.content : block.offset + len(block.text)])
        for key, value in options.items():
            self._set(source, block, name, key, value)

    def _set(self, source: Source, block: Piece, name: str, key: str, value: object) -> None:
        start = source.text.find(f'"{key}"', block.content, block.offset + len(block.text))
        offset, length = (block.offset, len(name)) if start < 0 else (start, len(key) + 2)
        if key not in _KNOWN:
            source.fail(
                f"{name} has no option {key!r:.60}", offset, length, f"The options are {', '.join(_KNOWN)}."
            )
        if key in _SWITCHES and not isinstance(value, bool):
            source.fail(
                f"the option {key} must be true or false", offset, length, f'For example {{"{key}": true}}.'
            )
        if key == "skip_repetition":
            if value != "once":
                hint = "Remove it to allow any number of ignored lexemes."
                source.fail('the option skip_repetition must be "once"', offset, length, hint)
            self.skip_once = True
        elif key == "ignore_once":
            self.skip_once = bool(value)
        elif key == "allow_initial_skip":
            self.initial_skip = bool(value)
        elif key == "allow_invalid_utf8" and value:
            hint = "Remove it. Patterns match characters, and texts are UTF-8."
            raise source.unsupported("bytes that are not UTF-8 are not supported", offset, length, hint)

    @property
    def are_larks(self) -> bool:
        """Whether ignored text follows Lark's rule."""
        return self.initial_skip and not self.skip_once

    def with_ignored(self, bodies: Mapping[str, Body], start: str, ignore: Sequence[str]) -> dict[str, Body]:
        """Return the rules with ignored text inside them, for a lexer that ignores nothing."""
        known: dict[Body, Body] = {}

        def body(part: Body) -> Body:
            kind = part[0]
            if kind == "rule":
                return part if part[1] != start else renamed
            if kind == "repeat":
                return ("repeat", body(part[1]), part[2], part[3])
            if kind == "sequence":
                return sequence_of([body(item) for item in part[1]])
            if kind == "choice":
                return choice_of([body(item) for item in part[1]])
            if part not in known:
                known[part] = ("sequence", (part, ("rule", _IGNORED)))
            return known[part]

        renamed: Body = ("rule", _TEXT)
        result = {_TEXT if name == start else name: body(rule_body) for name, rule_body in bodies.items()}
        skipped = choice_of([("terminal", name) for name in ignore])
        result[_IGNORED] = ("repeat", skipped, 0, 1 if self.skip_once else None)
        first: list[Body] = [("rule", _IGNORED)] if self.initial_skip else []
        result[start] = sequence_of([*first, renamed])
        return result
