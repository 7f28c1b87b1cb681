"""Read a plain Lark grammar without lark: the same result as `lark_loader`, in a fiftieth of the time.

Why: lark's loader is a general parser in Python that transforms its trees several times; it took two thirds of the time
to a first mask. Most grammars need only rules, terminals, priorities, aliases, `%ignore` and imports from `common`. The
core reads such a text (`_core/grammar/lark/text.h`). This module computes lark's patterns of the terminals and its
names for texts and patterns in rules.
Invariant: the result is what lark would load, down to the names of anonymous terminals, which decide ties. For any
other text (other directives, templates, extensions of llguidance, mistakes) `read_plain` returns None. Another reader
takes over, and lark words the errors.
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
"""The most characters of a terminal's pattern; patterns inside patterns are expanded."""
_ALL = 200_000
"""The most characters of all patterns together."""

_Tree = Any
"""A body whose repetitions also state how they are written; or a pattern."""


Defined = tuple[int, _Tree, bool]
"""A terminal: its priority, its body, and whether the body is a single word or sign."""


class NotPlain(Exception):
    """Raised when the text is not plain, so another reader must read it."""


def read_plain(source: Source, start: str, keep: Iterable[str], imports: bool = True) -> Loaded | None:
    """Return what lark would load, or None if the grammar is not plain.

    `imports` states whether `common` is lark's own module.
    """
    read = read_lark(source.text, imports)
    if read is None:
        return None
    rules, terminals, ignore, literals, imported, defined, used, written = read
    if any("__anon_" in text.casefold() for text in written):
        return None  # lark may give such a text the name of another one
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
            names.add(text)
    except Exception:  # noqa: BLE001 — lark raises anything for patterns; its own loader reports it
        return None
    source.index(defined, used, written)
    bodies = {name: body for name, (body, _) in rules.items()}
    symbols = {name: mentioned for name, (_, mentioned) in rules.items()}
    return select(names.terminals, bodies, symbols, names.known, ignore, start, frozenset(keep))


class Patterns:
    """The patterns of terminals, computed from their bodies."""

    def __init__(self, terminals: Mapping[str, Defined]) -> None:
        self._terminals = terminals
        self._known: dict[str, Pattern | None] = {}
        self._characters = 0

    def of(self, name: str) -> Pattern:
        """Return the pattern of a terminal."""
        known = self._known.get(name, self)
        if known is None or name not in self._terminals:
            raise NotPlain  # the terminal is defined by itself, or the name is a rule
        if isinstance(known, Pattern):
            return known
        self._known[name] = None
        tree = self._terminals[name][1]
        pattern = tree if isinstance(tree, Pattern) else self._pattern(tree)
        self._known[name] = pattern
        self._characters += len(pattern.value)
        if len(pattern.value) > _LONGEST or self._characters > _ALL:
            raise NotPlain
        return pattern

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
            parts.sort(key=lambda pattern: (-pattern.max_width, -pattern.min_width, -len(pattern.value)))
            return PatternRE(f"(?:{'|'.join(part.to_regexp() for part in parts)})")
        if kind == "repeat":
            inner = self._pattern(tree[1])
            return PatternRE(f"(?:{inner.to_regexp()}){tree[4]}", inner.flags)
        raise NotPlain


def imported_terminals(imports: list[tuple[str, str]], defined: Mapping[str, Defined]) -> dict[str, Defined]:
    """Return the terminals imported from lark's own module, in its order; they come before all others.

    Raises:
        NotPlain: A name does not exist there, or is also defined here.
    """
    terminals, patterns = _common()
    names = dict(imports)
    definitions: dict[str, Defined] = {
        names[name]: (priority, patterns.of(name), False)
        for name, (priority, *_) in terminals.items()
        if name in names
    }
    if len(definitions) < len(imports) or definitions.keys() & defined.keys():
        raise NotPlain
    return definitions


@cache
def _common() -> tuple[dict[str, Defined], Patterns]:
    """Return the terminals and patterns of lark's own module `common`."""
    _, text = stdlib_loader(None, "common.lark")
    read = read_lark(text, imports=False)
    assert read is not None
    return read[1], Patterns(read[1])
