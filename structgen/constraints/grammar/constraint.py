"""The constraint "a text of this grammar", and the functions that make one of each format.

Why: a user brings a grammar in the format at hand; from there on it is a constraint like any other.
Invariant: what the grammar means is settled when the constraint is made; its mistakes show there, with their place.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial, wraps
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from structgen.argument_names import checks_names
from structgen.constraints.base import Constraint
from structgen.constraints.json_schema.options import make_options
from structgen.constraints.token_limits import AtLimit, checked_token_limit
from structgen.errors import EmptyConstraint, GrammarError, OptionError, a_kind, with_kind
from structgen.ir.grammar import Body, Grammar, GrammarIR, Indentation

from .ebnf.reader import read_ebnf
from .fixed_indentation import Indented
from .gbnf import read_gbnf
from .lowered import Lowered
from .lowering import lower
from .unproductive import endless_circle
from .wrong_notation import is_like_gbnf, is_like_lark

if TYPE_CHECKING:
    from lark.indenter import Indenter

    from .lark.lark_loader import ImportPath

__all__ = ["DEEPEST", "UNCHECKED", "GrammarConstraint", "LexerRule", "ebnf", "gbnf", "lark"]

F = TypeVar("F", bound=Callable[..., "GrammarConstraint"])

LexerRule = Literal["lark", "longest"]
DEEPEST = 32
"""Blocks that `GrammarConstraint.indented_by` tells apart at most."""


class GrammarConstraint(Lowered):
    """Made by `gbnf`, `ebnf` and `lark`."""

    __slots__ = ("_read", "format", "start")

    _read: Grammar | partial[Grammar]
    """The grammar, or how it is read where only its IR was needed so far."""
    format: str
    start: str

    def __init__(self, grammar: Grammar, format: str) -> None:
        self._set(grammar, format, grammar.start, lower(grammar))

    @classmethod
    def of_ir(cls, ir: GrammarIR, format: str, start: str, read: partial[Grammar]) -> GrammarConstraint:
        """Of an IR that is made already; `read` reads the grammar when it is asked for."""
        made = cls.__new__(cls)
        made._set(read, format, start, ("grammar", ir))
        return made

    def _set(self, read: Any, format: str, start: str, ir: tuple[str, Any]) -> None:
        for name, value in (("_read", read), ("format", format), ("start", start), ("_ir", ir)):
            object.__setattr__(self, name, value)

    @property
    def grammar(self) -> Grammar:
        read = self._read
        if isinstance(read, partial):
            read = read()
            object.__setattr__(self, "_read", read)
        return read

    def holds_captures(self) -> bool:
        if isinstance(self._read, partial):
            return False  # such a grammar has no options of rules, and no constraints in it
        return super().holds_captures() or any(
            rule.capture is not None or (rule.ending is not None and rule.ending.capture is not None)
            for rule in self.grammar.rules
        )

    def parsed(self, compose: Callable[[Constraint], Any]) -> Any:
        from .capture_grammar import Parsed

        return Parsed(self.grammar)

    def _bodies(self) -> Iterable[Body]:
        return [rule.body for rule in self.grammar.rules]

    @property
    def reads_indentation(self) -> bool:
        """Do the columns of lines count?"""
        return self._ir[0] == "grammar" and self._ir[1]["indentation"] is not None

    def indented_by(self, unit: str = "    ", *, deepest: int = 8, before: str = "") -> Indented:
        """Its texts in which each block is indented by `unit`, and no block is more than `deepest` deep.

        For grammars with an indenter, such as ``sg.grammar("python")``. All lines but the first begin with `before`,
        where the text is a part of an indented one. Such a grammar can be joined with a regular expression, and put on
        a canvas, which one that reads any indentation cannot.
        """
        if not self.reads_indentation:
            raise OptionError(
                f"{self.describe()} reads no indentation",
                hint="Grammars with an `indenter` can be indented by a unit.",
            )
        if not isinstance(unit, str) or not unit or unit.strip(" \t"):
            raise OptionError(f"unit is {with_kind(unit)}; it is spaces or tabs")
        if not isinstance(before, str) or before.strip(" \t"):
            raise OptionError(f"before is {with_kind(before)}; it is spaces or tabs, or empty")
        if isinstance(deepest, bool) or not isinstance(deepest, int) or not 0 <= deepest <= DEEPEST:
            raise OptionError(f"deepest is {deepest!r:.40}; it is a whole number up to {DEEPEST}")
        return Indented(self, unit, deepest, before)

    def describe(self) -> str:
        return f"the {self.format} grammar of `{self.start}`"

    def empty_hint(self) -> str:
        return (
            f"`structgen check --{self.format.lower()} FILE` names rules without a text and terminals that never "
            "match; or the tokenizer lacks characters."
        )

    def written(self) -> list[tuple[str, str]]:
        return [("", self.grammar.source)] if self.grammar.source else []

    def __repr__(self) -> str:
        rules = len(self.grammar.rules)
        return f"<{self.format} grammar, start {self.start!r}, {rules} rule{'s' * (rules != 1)}>"


def _check_is_source(source: Any, function: str) -> None:
    """Refuse the path of a grammar, which reads like a mistake in one."""
    if isinstance(source, PurePath) or (isinstance(source, str) and _PATH.fullmatch(source)):
        raise OptionError(
            f"{str(source)!r} is a path, not a grammar",
            hint=f"Read the file: structgen.{function}(Path({str(source)!r}).read_text()).",
        )


_SHOWN = 12
"""Rules of a circle that an error names at most."""


def _check_end(constraint: GrammarConstraint) -> None:
    """Raise where the start can be seen to have no text that ends."""
    circle = endless_circle(constraint.lower(), lambda: constraint.grammar)
    if not circle:
        return
    rule = next((one for one in constraint.grammar.rules if one.name == circle[0]), None)
    place = rule and constraint.grammar.position(rule)
    shown = circle if len(circle) <= _SHOWN else [*circle[: _SHOWN // 2], "...", *circle[-_SHOWN // 2 :]]
    raise EmptyConstraint(
        f"no text of the rule `{circle[0]}` ever ends: {' -> '.join(shown)}",
        where=f"line {place.line}, column {place.column}" if place else None,
        hint="Give one of these rules an alternative that needs none of them.",
    )


def _must_end(function: F) -> F:
    """Let a function that makes a grammar refuse one without an end. `inspect.unwrap` gives it without this check."""

    @wraps(function)
    def checked(*args: Any, **kwargs: Any) -> GrammarConstraint:
        made: GrammarConstraint = function(*args, **kwargs)
        _check_end(made)
        return made

    return checked  # type: ignore[return-value]


_PATH = re.compile(r"[\w./\\-]+\.(?:lark|g|gbnf|ebnf|bnf|txt)")


@_must_end
@checks_names
def gbnf(source: str, *, start: str = "root") -> GrammarConstraint:
    """Texts of a grammar in llama.cpp's GBNF; `start` is the rule that a whole text must be."""
    _check_is_source(source, "gbnf")
    try:
        return GrammarConstraint(read_gbnf(source, start), "GBNF")
    except GrammarError as error:
        raise is_like_lark(source, "GBNF") or error from None


@_must_end
@checks_names
def ebnf(source: str, *, start: str = "root") -> GrammarConstraint:
    """Texts of a grammar in XGrammar's EBNF; `start` is the rule that a whole text must be."""
    _check_is_source(source, "ebnf")
    try:
        return GrammarConstraint(read_ebnf(source, start), "EBNF")
    except GrammarError as error:
        raise is_like_lark(source, "EBNF") or error from None


@_must_end
@checks_names
def lark(
    source: str,
    *,
    start: str = "start",
    lexer: LexerRule = "lark",
    contextual: bool = False,
    indenter: Indenter | type[Indenter] | Indentation | None = None,
    import_paths: Sequence[ImportPath] = (),
    constraints: Mapping[str, Constraint] | None = None,
    at_limit: AtLimit = "cut",
    json: Mapping[str, Any] | None = None,
) -> GrammarConstraint:
    """Texts of a grammar in Lark's language; `start` is the rule that a text must be.

    `lexer` is how a text is cut into terminals: ``"lark"`` as lark's basic lexer does (the first terminal that
    matches, in its order), ``"longest"`` the longest match of any. With `contextual` only terminals compete that the
    grammar allows at the place. `indenter` is one of lark's (``lark.indenter.PythonIndenter``); `import_paths` are
    folders where ``%import`` looks; `constraints` are what ``@name`` stands for in a rule; `json` are options of the
    schemas in ``%json``, as `json_schema` takes them: ``{"escapes": "all"}``. `at_limit` is how a rule ends that has
    used up its ``[max_tokens=...]`` (see `limit_tokens`): ``"cut"`` as in llguidance, ``"complete"`` as in XGrammar.
    """
    from .lark.core_reader import lower_plain
    from .lark.reader import read_lark

    _check_is_source(source, "lark")
    if not isinstance(contextual, bool):
        raise OptionError(f"contextual is {contextual!r:.40}; it is True or False")
    if constraints is not None and not isinstance(constraints, Mapping):
        raise OptionError(
            f"constraints is {a_kind(constraints)}; it is a dict from the names after @ to constraints",
            hint='Such as {"name": structgen.regex("[a-z]+")}.',
        )
    if json is not None and not isinstance(json, Mapping):
        raise OptionError(
            f"json is {a_kind(json)}; it is a dict of options of json_schema",
            hint='Such as {"escapes": "all"}.',
        )
    make_options(dict(json or {}))
    if isinstance(import_paths, str | PurePath) or not isinstance(import_paths, Sequence):
        raise OptionError(f"import_paths is {with_kind(import_paths)}; it is a list of folders")
    if lexer not in ("lark", "longest"):
        raise OptionError(f"there is no lexer rule {lexer!r}", hint="The rules are 'lark' and 'longest'.")
    checked_token_limit(0, at_limit)
    direct = lexer == "longest" and indenter is None and not import_paths
    if direct and isinstance(source, str) and isinstance(start, str):
        ir = lower_plain(source, start, contextual)
        if ir is not None:
            read = partial(read_lark, source, start, lexer="longest", contextual=contextual)
            return GrammarConstraint.of_ir(ir, "Lark", start, read)
    try:
        grammar = read_lark(
            source,
            start,
            lexer="longest" if lexer == "longest" else "ordered",
            contextual=contextual,
            indenter=indenter,
            import_paths=import_paths,
            constraints=constraints,
            at_limit=at_limit,
            json=json,
        )
    except GrammarError as error:
        raise is_like_gbnf(source) or error from None
    return GrammarConstraint(grammar, "Lark")


UNCHECKED: Mapping[str, Callable[..., GrammarConstraint]] = {
    one.__name__: inspect.unwrap(one) for one in (gbnf, ebnf, lark)
}
"""The same functions without the check for an end, for callers that report every problem of a grammar."""
