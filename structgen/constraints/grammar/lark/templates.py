"""Read grammars with several modules or templates without lark: the same result as `lark_loader`.

Why: lark's loader is a general parser in Python that transforms its trees several times, about a millisecond a rule.
This module expands templates, turns terminals into patterns, and gives texts in rules lark's names.
Invariant: the result is what lark would load: the same terminals in the same order with the same patterns, down to the
names of anonymous ones. For what lark would refuse, and the little that the core cannot read, `read_modules` returns
None. Lark's loader then reads the text and finds the mistake.
Cost: about twenty microseconds a rule or use of a template; their number is bounded as in `lark_loader`.
Source: lark 1.3, load_grammar (`ApplyTemplates`, `TerminalTreeToPattern`, `PrepareAnonTerminals`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lark.lexer import Pattern, PatternRE, PatternStr, TerminalDef

from structgen._core._native import read_lark_module
from structgen.errors import LimitExceeded
from structgen.ir.grammar import Body

from .lark_loader import ARGUMENTS, INSTANCES, ImportPath, Loaded, find_import, select, symbols_of
from .literals import Names, literal_pattern
from .modules import Module, ModuleReader, RuleDefinition, TerminalDefinition
from .plain_reader import NotPlain

__all__ = ["read_modules"]

_CHARACTERS, _ALL_CHARACTERS = 300_000, 1_500_000
"""The most characters of a pattern and of all patterns that are read here; patterns inside patterns are expanded."""
_MOST_CHARACTERS = 5_000_000
"""The most characters of joined patterns; beyond that the grammar is refused."""
_BODIES = 500_000
"""The most items of expanded templates."""


def read_modules(
    text: str,
    start: str,
    keep: Iterable[str],
    import_paths: Sequence[ImportPath],
    placeholders: Iterable[str] = (),
    unbounded: int | None = None,
) -> Loaded | None:
    """Return what lark would load; None if lark's loader must read the text.

    Args:
        text: The grammar.
        start: The rule to start from.
        keep: Terminals to keep even if no rule uses them.
        import_paths: Folders in which `%import` looks before lark's own modules.
        placeholders: Declared rules that replace extensions.
        unbounded: The repetition count that stands for "no upper bound".

    Raises:
        LimitExceeded: Templates have too many uses or too long arguments.
    """
    paths = [*(path if callable(path) else str(path) for path in import_paths), find_import]
    reader = ModuleReader(paths)
    try:
        read = read_lark_module(text, -1 if unbounded is None else unbounded)
        if read is None:
            return None
        module = reader.module(read, None, None, 0)
        if {name for name, rule in module.rules.items() if rule is None} - set(placeholders):
            return None
        return _Joined(module, reader).loaded(list(read[2]), start, frozenset(keep))
    except (LimitExceeded, RecursionError, MemoryError):
        raise
    except Exception:  # noqa: BLE001 — lark raises anything for patterns; its own loader reports it
        return None


class _Joined:
    """The whole grammar, with templates expanded."""

    def __init__(self, module: Module, reader: ModuleReader) -> None:
        if reader.is_odd:
            raise NotPlain
        self.module = module
        self.characters = 0
        self.parts = 0

    def loaded(self, ignore: list[str], start: str, keep: frozenset[str]) -> Loaded:
        """Return what lark would load; raise `NotPlain` if lark must read the grammar."""
        rules, terminals = self.module.rules, self.module.terminals
        if not terminals.keys() >= set(ignore) or rules.get(start) is None:
            raise NotPlain
        self._check_names()
        defined = [
            TerminalDef(name, self._pattern_of(terminal), terminal.priority)
            for name, terminal in terminals.items()
            if terminal.body is not None
        ]
        self.names = Names(defined)
        self.instances: dict[str, RuleDefinition] = {}
        self._order: list[str] = []
        self.templates = {name: rule for name, rule in rules.items() if rule is not None and rule.parameters}
        bodies: dict[str, Body] = {}
        named: dict[str, set[str]] = {}
        for name, rule in rules.items():
            if rule is not None and not rule.parameters:
                self._expand(name, rule, bodies, named)
        for name in self._order:  # the list grows while templates are used
            self._expand(name, self.instances[name], bodies, named)
        known = bodies.keys() | {name for name, rule in rules.items() if rule is None}
        for body in bodies.values():
            for kind, name, _ in symbols_of(body):
                if kind == "rule" and name not in known:
                    raise NotPlain
        if start not in bodies:
            raise NotPlain
        declared = frozenset(name for name, terminal in terminals.items() if terminal.body is None)
        return select(defined, bodies, named, self.names.known, ignore, start, keep, declared)

    # -- rules

    def _check_names(self) -> None:
        rules, terminals = self.module.rules, self.module.terminals
        for rule in rules.values():
            if rule is None:
                continue
            own = set(rule.parameters)
            if len(own) < len(rule.parameters) or own & rules.keys():
                raise NotPlain
            if any(
                symbol[0] not in '"/'
                and symbol not in rules
                and symbol not in terminals
                and symbol not in own
                for symbol in rule.symbols
            ):
                raise NotPlain
            for _, (_, template, arguments) in rule.uses:
                if template in own:
                    continue
                known = rules.get(template)
                if known is None or len(known.parameters) != len(arguments):
                    raise NotPlain

    def _expand(
        self, name: str, rule: RuleDefinition, bodies: dict[str, Body], named: dict[str, set[str]]
    ) -> None:
        for _, text in sorted(rule.literals, key=_by_depth):
            self.names.add(text)
        body = rule.body
        if rule.uses:
            known: dict[Body, Body] = {}
            for _, use in sorted(rule.uses, key=_by_depth):
                known[use] = self._instance(use, known)
            body = self._replaced(body, {}, known)
        bodies[name] = body
        is_new = rule.uses or rule.names_more
        named[name] = {one for _, one, _ in symbols_of(body)} if is_new else rule.symbols

    def _instance(self, use: Body, known: Mapping[Body, Body]) -> Body:
        """Return the rule of a use of a template, whose arguments are already expanded."""
        _, template, arguments = use
        final = []
        for one in arguments:
            if one[0] == "use":
                final.append(known[one])
            elif one[0] == "terminal" and one[1][0] in '"/':
                final.append(("terminal", self.names.known[one[1]]))
            else:
                final.append(one)
        if sum(len(argument[1]) for argument in final) > ARGUMENTS:
            raise LimitExceeded(
                f"the expanded arguments of a template have more than {ARGUMENTS} characters",
                limit="template_arguments",
                hint="Define a rule for the inner use of the template, and pass its name.",
            )
        name = f"{template}{{{','.join(one[1] for one in final)}}}"
        if name not in self.instances:
            if len(self.instances) >= INSTANCES:
                raise LimitExceeded(
                    f"templates are used with more than {INSTANCES} different arguments",
                    limit="template_instances",
                    hint="A template that uses itself with larger arguments never ends. Write it as a rule.",
                )
            source = self.templates[template]
            if len(source.parameters) != len(final):
                raise NotPlain
            values = dict(zip(source.parameters, final, strict=True))
            body = self._replaced(source.body, values, {})
            uses = [(level, self._replaced(use, values, {})) for level, use in source.uses]
            self.instances[name] = RuleDefinition((), body, set(), source.literals, uses, True)
            self._order.append(name)
        return ("rule", name)

    def _replaced(self, body: Body, values: Mapping[str, Body], uses: Mapping[Body, Body]) -> Body:
        """Return the body with values for parameters, and with rules for uses of templates."""
        self.parts += 1
        if self.parts > _BODIES:
            raise LimitExceeded(
                f"expanded templates have more than {_BODIES:,} parts",
                limit="template_instances",
                hint="Use smaller templates, or fewer different arguments.",
            )
        kind = body[0]
        if kind in ("rule", "terminal"):
            return values.get(body[1], body)
        if kind == "repeat":
            return ("repeat", self._replaced(body[1], values, uses), *body[2:])
        if kind == "use":
            if body in uses:
                return uses[body]
            name = values[body[1]][1] if body[1] in values else body[1]
            return ("use", name, tuple([self._replaced(item, values, uses) for item in body[2]]))
        return (kind, tuple([self._replaced(item, values, uses) for item in body[1]]))

    # -- terminals

    def _pattern_of(self, terminal: TerminalDefinition) -> Pattern:
        if terminal.pattern is None:
            if terminal.is_open or terminal.body is None:
                raise NotPlain  # defined by itself, or by a declared terminal
            terminal.is_open = True
            terminal.pattern = self._pattern(terminal.body, terminal.scope)
            self.characters += len(terminal.pattern.value)
            if len(terminal.pattern.value) > _CHARACTERS or self.characters > _ALL_CHARACTERS:
                raise NotPlain
        return terminal.pattern

    def _parts(self, bodies: Sequence[Body], scope: Mapping[str, TerminalDefinition]) -> list[Pattern]:
        parts: list[Pattern] = []
        characters = 0
        for one in bodies:
            parts.append(self._pattern(one, scope))
            characters += len(parts[-1].value)
            if characters > _MOST_CHARACTERS:
                raise LimitExceeded(
                    f"a terminal has more than {_MOST_CHARACTERS:,} characters with the terminals that it uses",
                    limit="terminal_parts",
                    hint="Turn its larger parts into rules (lower-case names).",
                )
        return parts

    def _pattern(self, body: Body, scope: Mapping[str, TerminalDefinition]) -> Pattern:
        kind = body[0]
        if kind == "terminal":
            text: str = body[1]
            return literal_pattern(text) if text[0] in '"/' else self._pattern_of(scope[text])
        if kind == "sequence":
            parts = self._parts(body[1], scope)
            return PatternRE("".join(part.to_regexp() for part in parts)) if parts else PatternStr("")
        if kind == "choice":
            parts = self._parts(body[1], scope)
            parts.sort(key=lambda pattern: (-pattern.max_width, -pattern.min_width, -len(pattern.value)))
            return PatternRE(f"(?:{'|'.join(part.to_regexp() for part in parts)})")
        if kind == "within":
            return self._pattern(body[2], body[1])
        inner = self._pattern(body[1], scope)
        return PatternRE(f"(?:{inner.to_regexp()}){body[4]}", inner.flags)


def _by_depth(one: tuple[int, Any]) -> int:
    return -one[0]
