"""A template: literals, the holes between them, and the constraint of the whole text.

Invariant: ``constraint(text, index)`` is the constraint of all texts that start with `text` and continue with the holes
from `index` on and the literals after them. A hole that takes any text, or a regular expression, can be intersected
with a grammar for the whole text.
Cost: a grammar that reads indentation is rewritten once for each template.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from structgen.constraints.as_grammar import Note, SchemaTexts, as_grammar, notes_of
from structgen.constraints.base import Constraint, as_constraint, constraint_of
from structgen.constraints.base import Literal as Text
from structgen.constraints.composition import text as free_text
from structgen.constraints.grammar.constraint import DEEPEST, GrammarConstraint
from structgen.errors import CombinationError, EmptyConstraint, OptionError, OutputInvalid, with_kind
from structgen.matcher import Matcher, open_matcher
from structgen.vocabulary import Vocabulary

__all__ = ["Template", "read_template"]

_QUOTED = re.compile(r"\"{3}.*?\"{3}|'{3}.*?'{3}|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'", re.S)
_BRACKETS = re.compile(r"\([^()\[\]{}]*\)|\[[^()\[\]{}]*\]|\{[^()\[\]{}]*\}")
_EXTRA_LEVELS = 3
"""How many levels deeper than the template a hole may nest blocks."""
_SHOWN_CHARACTERS = 40
_MOST_HOLES = 100
"""The largest number of holes: the time of preparing a template is quadratic in it."""


@dataclass(frozen=True)
class Template:
    """A parsed template."""

    literals: Sequence[str]
    """The texts around the holes, one more than there are holes."""
    names: Sequence[str]
    kinds: Sequence[Constraint]
    """The constraint of each hole."""
    within: Constraint | None

    @property
    def groups(self) -> Sequence[tuple[int, int]]:
        """Ranges of holes without text between them, as (first, last + 1); each is written as one hole."""
        groups: list[tuple[int, int]] = []
        for index in range(len(self.names)):
            if index and not self.literals[index]:
                groups[-1] = (groups[-1][0], index + 1)
            else:
                groups.append((index, index + 1))
        return groups

    def shown(self, hole: str = "____") -> str:
        """Return the template with a text in place of each hole."""
        return hole.join(self.literals)

    def constraint(self, text: str, index: int) -> Constraint:
        """Return the constraint of the texts that start with `text` and continue with the holes from `index` on."""
        whole: Constraint = Text(text)
        for kind, literal in zip(self.kinds[index:], self.literals[index + 1 :], strict=True):
            whole = whole + kind
            whole = whole + literal if literal else whole
        return whole if self.within is None else self.within & whole

    def fits(self, index: int, end: int, inside: str) -> bool:
        """Return whether holes without text between them can hold this text."""
        kind = reduce(lambda left, right: left + right, self.kinds[index:end])
        return Matcher(kind, _BYTES).explain(inside).ok

    def check(self, vocabulary: Vocabulary) -> None:
        """Raise if no text fits, with the first literal that cannot be reached."""
        try:
            matcher = open_matcher(self.constraint(self.literals[0], 0), vocabulary)
        except EmptyConstraint as error:
            raise self._where(vocabulary, error) from None
        if matcher.names_text_tokens:
            raise CombinationError(
                "a hole or the whole text names tokens by number, and a template is parsed as text",
                hint="State which texts are allowed.",
            )

    def right_of(self, weights: Sequence[float], texts: Sequence[str]) -> tuple[list[float], list[str]]:
        """Return the texts that `judge` accepts, with weights that sum to 1; raise if it accepts none of them."""
        kept: list[tuple[float, str]] = []
        refused: OutputInvalid | None = None
        for weight, text in zip(weights, texts, strict=True):
            try:
                self.judge(text)
            except OutputInvalid as error:
                refused = error
            else:
                kept.append((weight, text))
        mass = sum(weight for weight, _ in kept)
        if not mass and refused is not None:
            raise refused
        return [weight / mass for weight, _ in kept], [text for _, text in kept]

    @property
    def notes(self) -> tuple[Note, ...]:
        """Where the grammar of a schema for the whole text is not exact."""
        return () if self.within is None else notes_of(self.within)

    def judge(self, text: str) -> None:
        """Raise `OutputInvalid` if a finished text violates the schema, whose grammar may accept more."""
        if isinstance(self.within, SchemaTexts) and self.within.notes:
            explanation = Matcher(self.within.schema, _BYTES).explain(text)
            if not explanation.ok:
                raise OutputInvalid(
                    f"the filled text violates the schema: {explanation}",
                    hint="The grammar cannot exclude that a key occurs twice. Declare the keys that may occur, with "
                    "additionalProperties: false.",
                )

    def _where(self, vocabulary: Vocabulary, error: EmptyConstraint) -> EmptyConstraint:
        """Return the error of a template that no text fits, with the first literal that cannot be reached."""
        if self.within is None:
            return error
        spelt = "".join(self.literals).encode()
        if vocabulary.native.fewest_tokens(spelt) is None:
            missing = sorted(set(spelt) & set(vocabulary.native.missing_bytes()))
            named = ", ".join(repr(chr(byte)) if byte < 128 else f"0x{byte:02X}" for byte in missing)
            return EmptyConstraint(
                f"the tokenizer cannot spell the template: it has no token for {named or 'parts of it'}"
            )
        refused = self._first_refused(vocabulary)
        if self.notes:
            refused.hint = (
                f"As a grammar the schema is not exact: {self.notes[0].message} ({self.notes[0].pointer})."
            )
        return refused

    def _first_refused(self, vocabulary: Vocabulary) -> EmptyConstraint:
        assert self.within is not None
        of = self.within.describe()
        for index in range(len(self.literals)):
            started = self.literals[index]
            open_end = Template(
                [*self.literals[: index + 1], ""],
                [*self.names[:index], ""],
                [*self.kinds[:index], free_text()],
                self.within,
            )
            try:
                open_matcher(open_end.constraint(self.literals[0], 0), vocabulary)
            except EmptyConstraint:
                if index == 0:
                    return EmptyConstraint(
                        f"no text of {of:.60} begins with {started[:_SHOWN_CHARACTERS]!r}, the template's first literal"
                    )
                name = self.names[index - 1]
                return EmptyConstraint(
                    f"no text of {of:.60} has {started[:_SHOWN_CHARACTERS]!r} after the hole {name!r}, for any content",
                    hint="Check that literal, and the constraint of the hole.",
                )
        return EmptyConstraint(
            f"no text of {of:.60} ends with {self.literals[-1][-_SHOWN_CHARACTERS:]!r}, the template's last literal"
            if self.literals[-1]
            else f"no text of {of:.60} ends where the template does"
        )

    def split(self, text: str) -> dict[str, str]:
        """Return the text of each hole: of several parses, the one with the shortest first holes.

        If a name occurs twice, it has the text of the first one.
        """
        matchers = [Matcher(kind, _BYTES) for kind in self.kinds]
        failed: set[tuple[int, int]] = set()

        def rest(index: int, offset: int) -> list[str] | None:
            """Return the texts of the holes from `index` on, if they start at `offset`."""
            if index == len(self.names):
                return [] if offset == len(text) else None
            if (index, offset) in failed:
                return None
            found = holes_from(index, offset)
            if found is None:
                failed.add((index, offset))
            return found

        def holes_from(index: int, offset: int) -> list[str] | None:
            literal = self.literals[index + 1]
            last = index + 1 == len(self.names)
            end = len(text) - len(literal) if last else text.find(literal, offset)
            while end >= offset:
                inside = text[offset:end]
                if text.startswith(literal, end) and matchers[index].explain(inside).ok:
                    after = rest(index + 1, end + len(literal))
                    if after is not None:
                        return [inside, *after]
                if last:
                    return None
                end = text.find(literal, end + 1)
            return None

        started = self.literals[0]
        found = rest(0, len(started)) if text.startswith(started) else None
        if found is None:
            raise OutputInvalid(
                "the text does not match its template", hint="The holes overlap with the literals."
            )
        holes: dict[str, str] = {}
        for name, inside in zip(self.names, found, strict=True):
            holes.setdefault(name, inside)
        return holes


_BYTES = Vocabulary.of_bytes()


def read_template(
    template: str, constraints: Mapping[str, Any], within: object, marks: tuple[str, str]
) -> Template:
    """Parse a template; grammars that read indentation are indented like it."""
    if not isinstance(template, str):
        raise OptionError(f"template is {with_kind(template)}; it must be a text")
    if isinstance(within, str):
        raise OptionError(
            f"within is {with_kind(within)}; it must be a constraint or a type",
            hint=f"sg.grammar({within!r:.40})",
        )
    within = None if within is None else constraint_of(within)
    if len(marks) != 2 or not all(isinstance(mark, str) and mark for mark in marks):
        raise OptionError(f"marks is {marks!r:.60}; it must be two texts, such as ('<<', '>>')")
    opening, closing = map(re.escape, marks)
    pieces = re.split(rf"{opening}[ \t]*(\w+)[ \t]*{closing}", template)
    literals, names = pieces[::2], pieces[1::2]
    if not names:
        raise OptionError(
            f"the template has no hole, and {marks[0]} without {marks[1]}"
            if marks[0] in template
            else "the template has no hole",
            hint=f"Write {marks[0]}name{marks[1]} where something is to be filled in.",
        )
    if len(names) > _MOST_HOLES:
        raise OptionError(
            f"the template has {len(names)} holes; at most {_MOST_HOLES} are allowed",
            hint="Fill it in parts, one after the other.",
        )
    for name in constraints:
        if name not in names:
            raise OptionError(
                f"the template has no hole {name!r:.40}",
                hint=f"The holes are {', '.join(names)}. Sampling options belong into options={{...}}.",
            )
    kinds = [as_constraint(constraints[name]) if name in constraints else free_text() for name in names]
    unit, deepest = _indentation(template)
    for index, literal in enumerate(literals[:-1]):
        line = literal[literal.rfind("\n") + 1 :]
        kinds[index] = _indented(kinds[index], unit, deepest, line[: len(line) - len(line.lstrip(" \t"))])
    if within is not None:
        for name, kind in zip(names, kinds, strict=True):
            if kind.regular() is None:
                raise CombinationError(
                    f"the hole {name!r:.40} has a constraint that is not a regular expression, so it cannot be "
                    "intersected with a constraint of the whole text",
                    hint="Give the hole a regular expression, or leave out `within`.",
                )
        within = _indented(within, unit, deepest, "")
        within = as_grammar(within)
    return Template(literals, names, kinds, within)


def _indentation(template: str) -> tuple[str, int]:
    """Return the indentation of one block of the template, and the largest depth of blocks."""
    code = _QUOTED.sub("''", template)
    while (bare := _BRACKETS.sub("0", code)) != code:  # columns inside brackets do not belong to blocks
        code = bare
    lines = [line for line in code.split("\n") if line.strip()]
    columns = [line[: len(line) - len(line.lstrip(" \t"))] for line in lines]
    opened = [
        column[len(before) :]
        for line, before, column in zip(lines, columns, columns[1:], strict=False)
        if line.rstrip().endswith(":") and column.startswith(before) and len(column) > len(before)
    ]
    unit = next(iter(opened), None) or min(filter(None, columns), key=len, default="    ")
    return unit, max(map(len, columns), default=0) // len(unit) + _EXTRA_LEVELS


def _indented(kind: Constraint, unit: str, deepest: int, before: str) -> Constraint:
    """Return a grammar that reads indentation with that of the template; any other constraint as it is."""
    if isinstance(kind, GrammarConstraint) and kind.reads_indentation:
        return kind.indented_by(unit, deepest=min(deepest, DEEPEST), before=before)
    return kind
