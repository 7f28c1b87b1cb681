"""A plain Lark grammar, read without lark: what `lark_loading` makes of the same text, in a tenth of the time.

Why: lark's loader is a general parser in Python whose trees are transformed several times over; it took two thirds of
the time to a first mask. Most grammars need little of it: rules, terminals, priorities, aliases, `%ignore` and
imports from `common`.
Invariant: what is returned is what lark would have loaded, down to the names of anonymous terminals, which decide
ties between them. Whatever else a text holds (other directives, templates, the additions of llguidance, any mistake)
makes `read_plain` return None: lark itself is asked then, and words the error.
Cost: about a microsecond a token.
Source: lark 1.3, load_grammar (its tokens, `TerminalTreeToPattern`, `PrepareAnonTerminals`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from lark.grammar import TOKEN_DEFAULT_PRIORITY
from lark.lexer import Pattern, PatternRE, PatternStr, TerminalDef
from lark.load_grammar import stdlib_loader

from .bodies import EMPTY
from .ir import Body
from .lark_literals import Names, literal_pattern
from .lark_loading import OPERATORS, Loaded, select
from .lark_source import Source

__all__ = ["read_plain"]

_TOKEN = re.compile(
    r"""(?:[ \t]|\\[ ]*+\n|//[^\n]*+|\#[^\n]*+)*+
    (?:\r?\n(?:\s|//[^\n]*+|\#[^\n]*+)*+(?P<more>\|)?
    |(?P<name>_?[a-zA-Z][a-zA-Z0-9_]*+)(?!-[\w])
    |(?P<string>"(?:[^"\\\n]|\\[^\n])*+"i?)
    |(?P<sign>->|\.\.|[()\[\]|:.,~*+?!])
    |(?P<regexp>/(?:[^/\\]|\\.)*+/[imslux]*+)
    |(?P<directive>%(?:ignore|import)\b)
    |(?P<number>[+-]?[0-9]{1,9}+)
    |(?P<end>\Z)
    |(?P<other>.))""",
    re.VERBOSE | re.DOTALL,
)
_MORE, _NAME, _STRING, _SIGN, _REGEXP, _DIRECTIVE, _NUMBER, _END, _OTHER = range(1, 10)
_LITERAL = frozenset([_STRING, _REGEXP])
_LINE = None
"""The kind of an end of a line: no group took part."""

_REPEATED = frozenset("*+?~")
_BEFORE_NAME = re.compile(r"[a-z_]")
_CHARACTER = re.compile(r'"[^"\\\n]"')
_MODIFIERS = frozenset(["", "!", "?", "!?", "?!"])

_LONGEST = 100_000
"""Characters of a terminal's pattern: patterns in patterns are written out."""
_ALL = 1_000_000
"""Characters of all patterns."""

_Tree = Any
"""A body of `ir` whose repetitions say how they are written, too; or a pattern."""


class _NotPlain(Exception):
    """The text is lark's business."""


def read_plain(source: Source, start: str, keep: Iterable[str], imports: bool = True) -> Loaded | None:
    """What lark would load; None if it has to be asked. `imports`: does `common` mean lark's own module?"""
    try:
        reader = _Reader(source.text)
        reader.read(imports)
        loaded = reader.loaded(start, frozenset(keep))
    except Exception:  # of patterns lark raises what Python raises, too; it shall tell them itself
        return None
    source.index(reader.defined, reader.used, reader.written)
    return loaded


class _Reader:
    """Statement by statement; texts and patterns in rules stand as they are written until all terminals are known."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.kinds: list[int | None] = []
        self.texts: list[str] = []
        self.offsets: list[int] = []
        self._split()
        self.at = 0
        self.terminal = False
        """Is this a terminal's definition?"""
        self.literals: list[tuple[int, str]] = []
        """Of the rule that is read: how deep each text or pattern stands in lark's tree, and the text."""
        self.names: set[str] = set()
        """What the rule mentions."""
        self.terminals: dict[str, tuple[int, _Tree]] = {}
        self.rules: dict[str, tuple[Body, list[tuple[int, str]], set[str]]] = {}
        self.ignore: list[str] = []
        self.defined: dict[str, int] = {}
        self.used: dict[str, int] = {}
        self.written: dict[str, int] = {}
        self.patterns: dict[str, Pattern | None] = {}
        self.characters = 0

    def _split(self) -> None:
        add_kind, add_text, add_offset = self.kinds.append, self.texts.append, self.offsets.append
        for found in _TOKEN.finditer(self.text):
            kind = found.lastindex
            if kind is None or kind == _END:
                add_kind(_LINE)
                add_text("")
                add_offset(found.start())
                if kind == _END:
                    return
            elif kind == _OTHER:
                raise _NotPlain
            else:
                add_kind(kind)
                add_text(found[kind])
                add_offset(found.start(kind))

    # -- statements

    def read(self, imports: bool) -> None:
        imported: dict[str, str] = {}
        while self.at < len(self.kinds):
            if self.kinds[self.at] is _LINE:
                self.at += 1
            elif self.kinds[self.at] != _DIRECTIVE:
                self._definition()
            elif self.texts[self.at] == "%ignore":
                self._ignored()
            elif imports:
                self._import(imported)
            else:
                raise _NotPlain
        if imported:
            self._define_imported(imported)
        for name in self.used:
            if name not in self.terminals and name not in self.rules:
                raise _NotPlain

    def _definition(self) -> None:
        modifiers, start = "", self.at
        while self.texts[self.at] in ("!", "?"):
            modifiers += self.texts[self.at]
            self.at += 1
        name, offset = self._name(), self.offsets[self.at - 1]
        if self.offsets[start] + len(modifiers) != offset or modifiers not in _MODIFIERS:
            raise _NotPlain
        if name in self.rules or name in self.terminals:
            raise _NotPlain
        self.terminal = name.isupper()
        if modifiers and (self.terminal or ("?" in modifiers and name[0] == "_")):
            raise _NotPlain
        priority = TOKEN_DEFAULT_PRIORITY
        if self.texts[self.at] == ".":
            self.at += 1
            priority = self._number()
        self._take(":")
        self.literals, self.names = [], set()
        body = self._alternatives(0)
        self._end_of_line()
        self.defined[name] = offset
        if not self.terminal:
            self.rules[name] = body, self.literals, self.names
        elif body == EMPTY:
            raise _NotPlain
        else:
            self.terminals[name] = priority, body

    def _ignored(self) -> None:
        self.at += 1
        self.terminal, self.literals, self.names = True, [], set()
        first = self.at
        body = self._alternatives(0)
        if body == EMPTY:
            raise _NotPlain
        if self.at == first + 1 and self.kinds[first] == _NAME:
            self.ignore.append(self.texts[first])
        else:
            name = f"__IGNORE_{len(self.ignore)}"
            self.ignore.append(name)
            self.terminals[name] = TOKEN_DEFAULT_PRIORITY, body
        self._end_of_line()

    def _import(self, imported: dict[str, str]) -> None:
        """``%import common.A``, ``%import common.A -> B``, ``%import common (A, B)``."""
        self.at += 1
        self._take("common")
        names: list[tuple[str, str]] = []
        if self.texts[self.at] == "(":
            while not names or self.texts[self.at] == ",":
                self.at += 1
                name = self._name()
                names.append((name, name))
            self._take(")")
        else:
            self._take(".")
            name = self._name()
            alias = name
            if self.texts[self.at] == "->":
                self.at += 1
                alias = self._name()
            names.append((name, alias))
        self._end_of_line()
        for name, alias in names:
            if name in imported or not alias.isupper():
                raise _NotPlain
            imported[name] = alias

    def _define_imported(self, imported: Mapping[str, str]) -> None:
        """Before all others, in the order of the module."""
        common = _common()
        known = {
            imported[name]: (priority, common.pattern(name))
            for name, (priority, _) in common.terminals.items()
            if name in imported
        }
        if len(known) != len(imported) or known.keys() & (self.terminals.keys() | self.rules.keys()):
            raise _NotPlain
        self.terminals = {**known, **self.terminals}

    # -- tokens

    def _take(self, text: str) -> None:
        if self.texts[self.at] != text:
            raise _NotPlain
        self.at += 1

    def _end_of_line(self) -> None:
        if self.kinds[self.at] is not _LINE:
            raise _NotPlain
        self.at += 1

    def _name(self) -> str:
        name = self.texts[self.at]
        if self.kinds[self.at] != _NAME or not (name.islower() or name.isupper()):
            raise _NotPlain
        self.at += 1
        return name

    def _number(self) -> int:
        if self.kinds[self.at] != _NUMBER:
            raise _NotPlain
        self.at += 1
        return int(self.texts[self.at - 1])

    # -- bodies; `depth` is that of lark's node for the alternatives

    def _alternatives(self, depth: int) -> _Tree:
        first = self._alternative(depth)
        if self.texts[self.at] != "|":
            return first
        parts = [first]
        while self.texts[self.at] == "|":
            self.at += 1
            parts.append(self._alternative(depth))
        return ("choice", tuple(parts))

    def _alternative(self, depth: int) -> _Tree:
        kinds, texts, literals, names = self.kinds, self.texts, self.literals, self.names
        items: list[_Tree] = []
        start = len(literals)
        while True:
            at = self.at
            kind, text = kinds[at], texts[at]
            mark = len(literals)
            item: _Tree
            if kind == _NAME:
                self.at = at + 1
                if text not in names:
                    names.add(text)
                    self.used.setdefault(text, self.offsets[at])
                if text.islower():
                    item = ("rule", text)
                elif text.isupper():
                    item = ("terminal", text)
                else:
                    raise _NotPlain
            elif kind in _LITERAL:
                self.at = at + 1
                if texts[self.at] == "..":
                    text = self._range()
                if text not in names:
                    names.add(text)
                    self.written.setdefault(text, self.offsets[at])
                literals.append((depth + 2, text))
                item = ("terminal", text)
            elif text == "(":
                self.at = at + 1
                item = self._alternatives(depth + 2)
                self._take(")")
            elif text == "[":
                self.at = at + 1
                item = ("repeat", self._alternatives(depth + 3), 0, 1, "?")
                self._take("]")
            else:
                break
            if texts[self.at] in _REPEATED:
                item = self._repeated(item)
                _deepen(literals, mark)
            items.append(item)
        if text == "->":
            self.at += 1
            if depth or self.terminal or not self._name().islower():
                raise _NotPlain
            _deepen(literals, start)
        return items[0] if len(items) == 1 else ("sequence", tuple(items))

    def _range(self) -> str:
        """``"a".."z"``, as one text."""
        first, last = self.texts[self.at - 1], self.texts[self.at + 1]
        if (
            not _CHARACTER.fullmatch(first)
            or not _CHARACTER.fullmatch(last)
            or not (first + last).isprintable()
        ):
            raise _NotPlain
        self.at += 2
        return f"{first}..{last}"

    def _repeated(self, item: _Tree) -> _Tree:
        operator = self.texts[self.at]
        self.at += 1
        if operator != "~":
            if operator == "?" and _BEFORE_NAME.match(self.text, self.offsets[self.at - 1] + 1):
                raise _NotPlain  # lark takes the sign for a modifier
            return ("repeat", item, *OPERATORS[operator], operator)
        low = high = self._number()
        written = f"{{{low}}}"
        if self.texts[self.at] == "..":
            self.at += 1
            high = self._number()
            written = f"{{{low},{high}}}"
        if not 0 <= low <= high or not high:
            raise _NotPlain
        return ("repeat", item, low, high, written)

    # -- patterns

    def pattern(self, name: str) -> Pattern:
        """Of a terminal."""
        known = self.patterns.get(name, self)
        if known is None or name not in self.terminals:
            raise _NotPlain  # defined by itself, or a rule
        if isinstance(known, Pattern):
            return known
        self.patterns[name] = None
        tree = self.terminals[name][1]
        found = tree if isinstance(tree, Pattern) else self._pattern(tree)
        self.patterns[name] = found
        self.characters += len(found.value)
        if len(found.value) > _LONGEST or self.characters > _ALL:
            raise _NotPlain
        return found

    def _pattern(self, tree: Body) -> Pattern:
        kind = tree[0]
        if kind == "terminal":
            text: str = tree[1]
            return literal_pattern(text) if text[0] in '"/' else self.pattern(text)
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
        raise _NotPlain

    # -- the whole

    def loaded(self, start: str, keep: frozenset[str]) -> Loaded:
        if start not in self.rules or any(name not in self.terminals for name in self.ignore):
            raise _NotPlain
        if any("__anon_" in text.casefold() for text in self.written):
            raise _NotPlain  # lark may take the name that such a text suggests for that of another one
        names = Names(
            [
                TerminalDef(name, self.pattern(name), priority)
                for name, (priority, _) in self.terminals.items()
            ]
        )
        for _, literals, _ in self.rules.values():
            for _, text in sorted(literals, key=_deepest):
                names.note(text)
        rules = {name: body for name, (body, _, _) in self.rules.items()}
        named = {name: symbols for name, (_, _, symbols) in self.rules.items()}
        return select(names.terminals, rules, named, names.known, self.ignore, start, keep)


def _deepest(literal: tuple[int, str]) -> int:
    return -literal[0]


def _deepen(literals: list[tuple[int, str]], start: int) -> None:
    for place in range(start, len(literals)):
        depth, text = literals[place]
        literals[place] = depth + 1, text


@cache
def _common() -> _Reader:
    """Lark's own module of common terminals."""
    _, text = stdlib_loader(None, "common.lark")
    reader = _Reader(text)
    reader.read(imports=False)
    return reader
