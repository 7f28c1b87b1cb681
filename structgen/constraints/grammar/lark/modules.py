"""Join the modules of a Lark grammar (`%import`, `%override`, `%extend`, `%declare`) as lark's loader does.

Why: the core reads each module (`_core/grammar/lark/text.h`). This module merges their definitions into one grammar,
and `templates` expands it.
Invariant: the definitions are those of lark's `GrammarBuilder`, in its order. What lark would refuse raises `NotPlain`.
Cost: about ten microseconds a definition.
Source: lark 1.3, load_grammar (`GrammarBuilder`).

Names of an imported module get its path as a prefix (``common__DIGIT``), except for those that are imported by name.
Names inside an imported terminal refer to its own module, even if the importing one overrides them. An extension
applies everywhere.
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
"""The most levels of imports."""
_Texts = list[tuple[int, Any]]
"""Texts, or uses of templates, with the depths of their nodes in lark's tree."""


@dataclass(eq=False)
class RuleDefinition:
    """A rule or a template."""

    parameters: tuple[str, ...]
    body: Body
    symbols: set[str]
    """The names, texts and patterns in the body."""
    literals: _Texts
    uses: _Texts
    names_more: bool = False
    """Whether `symbols` contains names that the body does not use, such as those of x~0."""


@dataclass(eq=False)
class TerminalDefinition:
    """A terminal."""

    priority: int
    body: Body | None
    """None for a declared terminal."""
    alternatives: int
    scope: Mapping[str, TerminalDefinition] = field(default_factory=dict)
    """The terminals that names in the body refer to."""
    pattern: Pattern | None = None
    is_open: bool = False
    """Whether its pattern is being computed."""


@dataclass
class Module:
    """The definitions of a module and of what it imports."""

    rules: dict[str, RuleDefinition | None] = field(default_factory=dict)
    """None for a declared rule."""
    terminals: dict[str, TerminalDefinition] = field(default_factory=dict)


@lru_cache(maxsize=16)
def _file(text: str) -> Any:
    """Return an imported module as the core reads it."""
    return read_lark_module(text, -1)


class ModuleReader:
    """Reads modules and those that they import."""

    def __init__(self, paths: list[Any]) -> None:
        self.paths = paths
        self.is_odd = False
        """Whether lark might give two texts in rules the same name."""

    def module(self, read: Any, folder: Any, renamed: Callable[[str], str] | None, depth: int) -> Module:
        """Return the definitions of a module that the core has read, with what it imports."""
        rules, terminals, _, imports, written = read
        self.is_odd |= any("__anon_" in pattern.casefold() for pattern in written)
        module = Module()
        for path, (relative, aliases) in self._imports(imports).items():
            self._import(module, path, folder if relative else None, aliases, renamed, depth)
        for name, kind, parameters, body, symbols, literals, uses, nothing in rules:
            if renamed is not None:
                name = renamed(name)
                parameters = tuple(map(renamed, parameters))
                body = body and _renamed(body, renamed)
                symbols = {symbol if symbol[0] in '"/' else renamed(symbol) for symbol in symbols}
                uses = [(level, _renamed(use, renamed)) for level, use in uses]
            self._rule(module, name, kind, RuleDefinition(parameters, body, symbols, literals, uses, nothing))
        for name, kind, priority, body, alternatives in terminals:
            if renamed is not None:
                if name.startswith("__IGNORE_"):
                    continue
                name = renamed(name)
                body = body and _renamed(body, renamed)
            self._terminal(module, name, kind, TerminalDefinition(priority, body, alternatives))
        for terminal in module.terminals.values():
            if not terminal.scope:
                terminal.scope = module.terminals
        _check_cycles(module.terminals.values())
        return module

    @staticmethod
    def _rule(module: Module, name: str, kind: int, rule: RuleDefinition) -> None:
        known = module.rules.get(name)
        if kind == _EXTEND:
            if known is None or known.parameters != rule.parameters:
                raise NotPlain
            # The extension comes first, as a group.
            known.body = ("choice", (rule.body, known.body))
            known.symbols = known.symbols | rule.symbols
            known.names_more |= rule.names_more
            known.literals = [(level + 1, literal) for level, literal in rule.literals] + known.literals
            known.uses = [(level + 1, use) for level, use in rule.uses] + known.uses
        elif (name in module.rules) != (kind == _OVERRIDE) or name.startswith("__"):
            raise NotPlain
        else:
            module.rules[name] = None if kind == _DECLARE else rule

    @staticmethod
    def _terminal(module: Module, name: str, kind: int, terminal: TerminalDefinition) -> None:
        known = module.terminals.get(name)
        if kind == _EXTEND:
            if known is None or known.body is None or known.pattern is not None:
                raise NotPlain
            old = known.body[1] if known.alternatives > 1 else (known.body,)
            known.body = ("choice", (("within", module.terminals, terminal.body), *old))
            known.alternatives += 1
        elif (known is not None) != (kind == _OVERRIDE) or (
            name.startswith("__") and not name.startswith("__IGNORE_")
        ):
            raise NotPlain
        else:
            module.terminals[name] = terminal

    @staticmethod
    def _imports(imports: list[Any]) -> dict[tuple[str, ...], tuple[bool, dict[str, str]]]:
        """Return the imports by module, in the order of the first mention."""
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
        location, text = self._find(os.path.join(*path) + ".lark", folder)
        read = _file(text)
        if read is None:
            raise NotPlain
        if isinstance(location, PackageResource):
            beside: Any = PackageResource(location.pkg_name, os.path.split(location.path)[0])
        else:
            beside = os.path.split(location)[0]
        prefix = "__".join(path)

        @cache
        def renamed(name: str) -> str:
            if name in aliases:
                new_name = aliases[name]
            else:
                new_name = f"_{prefix}__{name[1:]}" if name[0] == "_" else f"{prefix}__{name}"
            return new_name if outer is None else outer(new_name)

        imported = self.module(read, beside, renamed, depth + 1)
        used = _reachable(imported, map(renamed, aliases))
        for name, rule in imported.rules.items():
            if name in used:
                if name in into.rules:
                    raise NotPlain
                into.rules[name] = rule
        for name, terminal in imported.terminals.items():
            if name in used:
                if name in into.terminals:
                    raise NotPlain
                into.terminals[name] = terminal

    def _find(self, name: str, folder: Any) -> tuple[Any, str]:
        for path in self.paths:
            try:
                if callable(path):
                    location, text = path(folder, name)
                    return location, text
                location = os.path.join(path, name)
                with open(location, encoding="utf8") as file:
                    return location, file.read()
            except OSError:
                continue
        raise NotPlain


def _check_cycles(terminals: Iterable[TerminalDefinition]) -> None:
    """Raise `NotPlain` for a terminal that contains itself, since lark refuses it even if it is unused."""
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
    """Return the terminals in the body of a terminal."""
    definitions: list[TerminalDefinition] = []
    pending = [] if terminal.body is None else [(terminal.body, terminal.scope)]
    while pending:
        part, scope = pending.pop()
        kind = part[0]
        if kind == "rule":
            raise NotPlain
        if kind == "terminal":
            if part[1][0] not in '"/':
                definitions.append(scope[part[1]])
        elif kind == "repeat":
            pending.append((part[1], scope))
        elif kind == "within":
            pending.append((part[2], part[1]))
        else:
            pending.extend([(item, scope) for item in part[1]])
    return definitions


def _reachable(module: Module, names: Iterable[str]) -> set[str]:
    """Return the names that these rules and terminals need, themselves included. Terminals need no others."""
    pending = list(names)
    seen = set(pending)
    while pending:
        rule = module.rules.get(pending.pop())
        if rule is None:
            continue
        needed = set(rule.symbols)
        for _, (_, template, arguments) in rule.uses:
            needed.add(template)
            needed.update(argument[1] for argument in arguments if argument[0] != "use")
        for name in needed - seen - set(rule.parameters):
            if name[0] not in '"/':
                seen.add(name)
                pending.append(name)
    return seen


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
