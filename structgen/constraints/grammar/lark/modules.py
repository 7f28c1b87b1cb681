"""Modules of Lark grammars: `%import`, `%override`, `%extend` and `%declare`, as lark's loader joins them.

Why: the core reads each module (`_core/grammar/lark/text.h`); here their definitions become those of one grammar, which
`templates` makes ready.
Invariant: the definitions are those of lark's `GrammarBuilder`, in its order; what it would refuse raises `NotPlain`.
Cost: about ten microseconds a definition.
Source: lark 1.3, load_grammar (`GrammarBuilder`).

Names of an imported module get its path in front (``common__DIGIT``), but for those that are imported by name. What an
imported terminal is made of is decided in its module, and stays when the importing one overrides a part of it; what is
extended is extended everywhere.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Any

from lark.lexer import Pattern
from lark.load_grammar import PackageResource

from structgen._core._native import read_lark_module
from structgen.ir.grammar import Body

from .plain_reader import NotPlain

__all__ = ["Module", "ModuleReader", "RuleDefinition", "TerminalDefinition"]

_DEFINE, _OVERRIDE, _EXTEND, _DECLARE = range(4)
_DEEPEST = 20
"""Modules that import modules."""
_Texts = list[tuple[int, Any]]
"""Texts, or uses of templates, and the depths of their nodes in lark's tree."""


@dataclass(eq=False)
class RuleDefinition:
    parameters: tuple[str, ...]
    body: Body
    symbols: set[str]
    """The names, texts and patterns in it."""
    literals: _Texts
    uses: _Texts
    names_more: bool = False
    """Does `symbols` hold other names than the body uses, such as those of x~0?"""


@dataclass(eq=False)
class TerminalDefinition:
    priority: int
    body: Body | None
    """None where it is declared."""
    alternatives: int
    scope: Mapping[str, TerminalDefinition] = field(default_factory=dict)
    """What names in it stand for."""
    pattern: Pattern | None = None
    is_open: bool = False
    """Is its pattern being made?"""


@dataclass
class Module:
    """The definitions of a module and of what it imports."""

    rules: dict[str, RuleDefinition | None] = field(default_factory=dict)
    """None where a rule is declared."""
    terminals: dict[str, TerminalDefinition] = field(default_factory=dict)


@lru_cache(maxsize=16)
def _file(text: str) -> Any:
    """An imported module as the core reads it."""
    return read_lark_module(text, -1)


class ModuleReader:
    """Reads modules and those that they import."""

    def __init__(self, paths: list[Any]) -> None:
        self.paths = paths
        self.is_odd = False
        """May lark give a text in a rule the name that it gives to another one?"""

    def module(self, read: Any, folder: Any, renamed: Callable[[str], str] | None, depth: int) -> Module:
        rules, terminals, _, imports, written = read
        self.is_odd |= any("__anon_" in one.casefold() for one in written)
        made = Module()
        for path, (relative, aliases) in self._imports(imports).items():
            self._import(made, path, folder if relative else None, aliases, renamed, depth)
        for name, kind, parameters, body, symbols, literals, uses, nothing in rules:
            if renamed is not None:
                name = renamed(name)
                parameters = tuple(map(renamed, parameters))
                body = body and _renamed(body, renamed)
                symbols = {one if one[0] in '"/' else renamed(one) for one in symbols}
                uses = [(level, _renamed(one, renamed)) for level, one in uses]
            self._rule(made, name, kind, RuleDefinition(parameters, body, symbols, literals, uses, nothing))
        for name, kind, priority, body, alternatives in terminals:
            if renamed is not None:
                if name.startswith("__IGNORE_"):
                    continue
                name = renamed(name)
                body = body and _renamed(body, renamed)
            self._terminal(made, name, kind, TerminalDefinition(priority, body, alternatives))
        for one in made.terminals.values():
            if not one.scope:
                one.scope = made.terminals
        _check_circles(made.terminals.values())
        return made

    @staticmethod
    def _rule(made: Module, name: str, kind: int, rule: RuleDefinition) -> None:
        known = made.rules.get(name)
        if kind == _EXTEND:
            if known is None or known.parameters != rule.parameters:
                raise NotPlain
            # What is added stands first, and in a group.
            known.body = ("choice", (rule.body, known.body))
            known.symbols = known.symbols | rule.symbols
            known.names_more |= rule.names_more
            known.literals = [(level + 1, one) for level, one in rule.literals] + known.literals
            known.uses = [(level + 1, one) for level, one in rule.uses] + known.uses
        elif (name in made.rules) != (kind == _OVERRIDE) or name.startswith("__"):
            raise NotPlain
        else:
            made.rules[name] = None if kind == _DECLARE else rule

    @staticmethod
    def _terminal(made: Module, name: str, kind: int, terminal: TerminalDefinition) -> None:
        known = made.terminals.get(name)
        if kind == _EXTEND:
            if known is None or known.body is None or known.pattern is not None:
                raise NotPlain
            old = known.body[1] if known.alternatives > 1 else (known.body,)
            known.body = ("choice", (("within", made.terminals, terminal.body), *old))
            known.alternatives += 1
        elif (known is not None) != (kind == _OVERRIDE) or (
            name.startswith("__") and not name.startswith("__IGNORE_")
        ):
            raise NotPlain
        else:
            made.terminals[name] = terminal

    @staticmethod
    def _imports(imports: list[Any]) -> dict[tuple[str, ...], tuple[bool, dict[str, str]]]:
        """By module, in the order in which the modules are first named."""
        result: dict[tuple[str, ...], tuple[bool, dict[str, str]]] = {}
        for relative, path, names in imports:
            known = result.setdefault(path, (relative, {}))
            if known[0] != relative:
                raise NotPlain
            known[1].update(names)
        return result

    def _import(
        self,
        into: Module,
        path: tuple[str, ...],
        folder: Any,
        aliases: dict[str, str],
        outer: Callable[[str], str] | None,
        depth: int,
    ) -> None:
        if depth >= _DEEPEST:
            raise NotPlain
        place, text = self._find(os.path.join(*path) + ".lark", folder)
        read = _file(text)
        if read is None:
            raise NotPlain
        if isinstance(place, PackageResource):
            beside: Any = PackageResource(place.pkg_name, os.path.split(place.path)[0])
        else:
            beside = os.path.split(place)[0]
        prefix = "__".join(path)

        @cache
        def renamed(name: str) -> str:
            if name in aliases:
                found = aliases[name]
            else:
                found = f"_{prefix}__{name[1:]}" if name[0] == "_" else f"{prefix}__{name}"
            return found if outer is None else outer(found)

        made = self.module(read, beside, renamed, depth + 1)
        used = _reachable(made, map(renamed, aliases))
        for name, rule in made.rules.items():
            if name in used:
                if name in into.rules:
                    raise NotPlain
                into.rules[name] = rule
        for name, terminal in made.terminals.items():
            if name in used:
                if name in into.terminals:
                    raise NotPlain
                into.terminals[name] = terminal

    def _find(self, name: str, folder: Any) -> tuple[Any, str]:
        for path in self.paths:
            try:
                if callable(path):
                    place, text = path(folder, name)
                    return place, text
                place = os.path.join(path, name)
                with open(place, encoding="utf8") as file:
                    return place, file.read()
            except OSError:
                continue
        raise NotPlain


def _check_circles(terminals: Iterable[TerminalDefinition]) -> None:
    """Lark refuses terminals that are made of themselves, also those that nothing uses."""
    closed: set[TerminalDefinition] = set()
    for first in terminals:
        path: list[tuple[TerminalDefinition, list[TerminalDefinition]]] = [(first, _parts(first))]
        while path and first not in closed:
            terminal, parts = path[-1]
            terminal.is_open = bool(parts)
            if not parts:
                closed.add(terminal)
                path.pop()
                continue
            part = parts.pop()
            if part.is_open:
                raise NotPlain
            if part not in closed:
                path.append((part, _parts(part)))


def _parts(terminal: TerminalDefinition) -> list[TerminalDefinition]:
    """The terminals that one is made of."""
    found: list[TerminalDefinition] = []
    pending = [] if terminal.body is None else [(terminal.body, terminal.scope)]
    while pending:
        part, scope = pending.pop()
        kind = part[0]
        if kind == "rule":
            raise NotPlain
        if kind == "terminal":
            if part[1][0] not in '"/':
                found.append(scope[part[1]])
        elif kind == "repeat":
            pending.append((part[1], scope))
        elif kind == "within":
            pending.append((part[2], part[1]))
        else:
            pending.extend([(one, scope) for one in part[1]])
    return found


def _reachable(module: Module, names: Iterable[str]) -> set[str]:
    """The names that these rules and terminals need, themselves included; terminals are closed."""
    pending = list(names)
    found = set(pending)
    while pending:
        rule = module.rules.get(pending.pop())
        if rule is None:
            continue
        needed = set(rule.symbols)
        for _, (_, template, arguments) in rule.uses:
            needed.add(template)
            needed.update(one[1] for one in arguments if one[0] != "use")
        for name in needed - found - set(rule.parameters):
            if name[0] not in '"/':
                found.add(name)
                pending.append(name)
    return found


def _renamed(body: Body, renamed: Callable[[str], str]) -> Body:
    kind = body[0]
    if kind == "terminal":
        return body if body[1][0] in '"/' else ("terminal", renamed(body[1]))
    if kind == "rule":
        return ("rule", renamed(body[1]))
    if kind == "repeat":
        return ("repeat", _renamed(body[1], renamed), *body[2:])
    parts = tuple([_renamed(part, renamed) for part in body[-1]])
    return ("use", renamed(body[1]), parts) if kind == "use" else (kind, parts)
