"""A plain Lark grammar, read without lark: what `lark_loader` makes of the same text, in a fiftieth of the time.

Why: lark's loader is a general parser in Python whose trees are transformed several times over; it took two thirds of
the time to a first mask. Most grammars need little of it: rules, terminals, priorities, aliases, `%ignore` and
imports from `common`. The core reads the text (`_core/grammar/lark/text.h`); what the terminals are to lark,
and what it calls texts and patterns in rules, is found here.
Invariant: what is returned is what lark would have loaded, down to the names of anonymous terminals, which decide
ties between them. Whatever else a text holds (other directives, templates, the additions of llguidance, any mistake)
makes `read_plain` return None: lark itself is asked then, and words the error.
Cost: about two microseconds a terminal.
Source: lark 1.3, load_grammar (`TerminalTreeToPattern`, `PrepareAnonTerminals`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from lark.lexer import Pattern, PatternRE, PatternStr, TerminalDef
from lark.load_grammar import stdlib_loader

from structgen._core._native import read_lark

from .lark_loader import Loaded, select
from .literals import Names, literal_pattern
from .source import Source

__all__ = ["Defined", "NotPlain", "Patterns", "imported_terminals", "read_plain"]

_LONGEST = 20_000
"""Characters of a terminal's pattern: patterns in patterns are written out."""
_ALL = 200_000
"""Characters of all patterns."""

_Tree = Any
"""A body of `ir` whose repetitions say how they are written, too; or a pattern."""


Defined = tuple[int, _Tree, bool]
"""Of a terminal: its priority, its body, and whether that is a word or sign as it is."""


class NotPlain(Exception):
    """The text is lark's business."""


def read_plain(source: Source, start: str, keep: Iterable[str], imports: bool = True) -> Loaded | None:
    """What lark would load; None if it has to be asked. `imports`: does `common` mean lark's own module?"""
    read = read_lark(source.text, imports)
    if read is None:
        return None
    rules, terminals, ignore, literals, imported, defined, used, written = read
    if any("__anon_" in text.casefold() for text in written):
        return None  # lark may take the name that such a text suggests for that of another one
    try:
        if imported:
            terminals = imported_terminals(imported, terminals) | terminals
        if start not in rules or not terminals.keys() >= set(ignore):
            return None
        if any(name not in terminals and name not in rules for name in used):
            return None
        patterns = Patterns(terminals)
        names = Names(
            [TerminalDef(name, patterns.of(name), priority) for name, (priority, *_) in terminals.items()]
        )
        for text in literals:
            names.note(text)
    except Exception:  # of patterns lark raises what Python raises, too; it shall tell them itself
        return None
    source.index(defined, used, written)
    bodies = {name: body for name, (body, _) in rules.items()}
    symbols = {name: mentioned for name, (_, mentioned) in rules.items()}
    return select(names.terminals, bodies, symbols, names.known, ignore, start, frozenset(keep))


class Patterns:
    """The patterns of terminals, by priorities and trees."""

    def __init__(self, terminals: Mapping[str, Defined]) -> None:
        self._terminals = terminals
        self._known: dict[str, Pattern | None] = {}
        self._characters = 0

    def of(self, name: str) -> Pattern:
        known = self._known.get(name, self)
        if known is None or name not in self._terminals:
            raise NotPlain  # defined by itself, or a rule
        if isinstance(known, Pattern):
            return known
        self._known[name] = None
        tree = self._terminals[name][1]
        found = tree if isinstance(tree, Pattern) else self._pattern(tree)
        self._known[name] = found
        self._characters += len(found.value)
        if len(found.value) > _LONGEST or self._characters > _ALL:
            raise NotPlain
        return found

    def _pattern(self, tree: _Tree) -> Pattern:
        kind = tree[0]
        if kind == "terminal":
            text: str = tree[1]
            return literal_pattern(text) if text[0] in '"/' else self.of(text)
        if kind == "sequence":
            parts = [self._pattern(part) for part in tree[1]]
            return PatternRE("".join(part.to_regexp() for part in parts)) if parts else PatternStr("")
        if kind == "choice":
            parts = [self._pattern(part) for part in tree[1]]
            parts.sort(key=lambda one: (-one.max_width, -one.min_width, -len(one.value)))
            return PatternRE(f"(?:{'|'.join(part.to_regexp() for part in parts)})")
        if kind == "repeat":
            inner = self._pattern(tree[1])
            return PatternRE(f"(?:{inner.to_regexp()}){tree[4]}", inner.flags)
        raise NotPlain


def imported_terminals(imports: list[tuple[str, str]], defined: Mapping[str, Defined]) -> dict[str, Defined]:
    """Terminals of lark's own module, in its order, which come before all others; raises where that is not plain."""
    terminals, patterns = _common()
    names = dict(imports)
    found: dict[str, Defined] = {
        names[name]: (priority, patterns.of(name), False)
        for name, (priority, *_) in terminals.items()
        if name in names
    }
    if len(found) < len(imports) or found.keys() & defined.keys():
        raise NotPlain
    return found


@cache
def _common() -> tuple[dict[str, Defined], Patterns]:
    """Lark's own module of common terminals."""
    _, text = stdlib_loader(None, "common.lark")
    read = read_lark(text, imports=False)
    assert read is not None
    return read[1], Patterns(read[1])
