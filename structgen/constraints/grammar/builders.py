"""The functions that build the constraint of a grammar: one for each notation.

Invariant: a grammar is read in full when the constraint is built, and its mistakes are reported then with positions.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial, wraps
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from structgen.argument_names import checks_names
from structgen.constraints.base import Constraint
from structgen.constraints.json_schema.options import make_options
from structgen.constraints.token_limits import AtLimit, check_token_limit
from structgen.errors import EmptyConstraint, GrammarError, OptionError, a_kind, with_kind
from structgen.ir.grammar import Grammar, Indentation

from .constraint import GrammarConstraint
from .ebnf.reader import read_ebnf
from .gbnf import read_gbnf
from .unproductive import find_unproductive_cycle
from .wrong_notation import error_if_gbnf, error_if_lark

if TYPE_CHECKING:
    from lark.indenter import Indenter

    from .lark.lark_loader import ImportPath

__all__ = ["UNCHECKED", "LexerRule", "ebnf", "gbnf", "lark"]

F = TypeVar("F", bound=Callable[..., GrammarConstraint])

LexerRule = Literal["lark", "longest"]

_PATH = re.compile(r"[\w./\\-]+\.(?:lark|g|gbnf|ebnf|bnf|txt)")
_SHOWN = 12
"""The most rules of a cycle that an error names."""


def _check_is_source(source: object, function: str) -> None:
    """Raise an error for a path, which would otherwise be reported as a syntax error."""
    if isinstance(source, PurePath) or (isinstance(source, str) and _PATH.fullmatch(source)):
        raise OptionError(
            f"{str(source)!r} is a path, not a grammar",
            hint=f"Read the file: structgen.{function}(Path({str(source)!r}).read_text()).",
        )


def _check_end(constraint: GrammarConstraint) -> None:
    """Raise an error if the start rule has no finite text."""
    cycle = find_unproductive_cycle(constraint.lower(), lambda: constraint.grammar)
    if not cycle:
        return
    rule = next((rule for rule in constraint.grammar.rules if rule.name == cycle[0]), None)
    position = rule and constraint.grammar.position(rule)
    shown = cycle if len(cycle) <= _SHOWN else [*cycle[: _SHOWN // 2], "...", *cycle[-_SHOWN // 2 :]]
    raise EmptyConstraint(
        f"the rule `{cycle[0]}` has no finite text: {' -> '.join(shown)}",
        where=f"line {position.line}, column {position.column}" if position else None,
        hint="Give one of these rules an alternative without the others.",
    )


def _must_end(function: F) -> F:
    """Let a builder of grammars refuse those without a finite text. `inspect.unwrap` returns it without this check."""

    @wraps(function)
    def checked(*args: object, **kwargs: object) -> GrammarConstraint:
        constraint: GrammarConstraint = function(*args, **kwargs)
        _check_end(constraint)
        return constraint

    return checked  # type: ignore[return-value]


@_must_end
@checks_names
def gbnf(source: str, *, start: str = "root") -> GrammarConstraint:
    """Constrain the output to a grammar in llama.cpp's GBNF.

    Args:
        source: The grammar.
        start: The rule that the whole text must match.

    Raises:
        GrammarSyntaxError: The grammar has a mistake; the error shows its position.
        GrammarUnsupported: The grammar uses something that cannot be represented exactly.
        EmptyConstraint: The start rule has no finite text.
        LimitExceeded: The grammar is too large.
    """
    return _read_bnf(read_gbnf, source, start, "GBNF")


@_must_end
@checks_names
def ebnf(source: str, *, start: str = "root") -> GrammarConstraint:
    """Constrain the output to a grammar in XGrammar's EBNF.

    Args:
        source: The grammar.
        start: The rule that the whole text must match.

    Raises:
        GrammarSyntaxError: The grammar has a mistake; the error shows its position.
        GrammarUnsupported: The grammar uses something that cannot be represented exactly.
        EmptyConstraint: The start rule has no finite text.
        LimitExceeded: The grammar is too large.
    """
    return _read_bnf(read_ebnf, source, start, "EBNF")


def _read_bnf(
    read: Callable[[str, str], Grammar], source: str, start: str, notation: Literal["GBNF", "EBNF"]
) -> GrammarConstraint:
    """Return the constraint of a grammar in this notation; the error for a grammar in Lark's language says so."""
    _check_is_source(source, notation.lower())
    try:
        return GrammarConstraint(read(source, start), notation)
    except GrammarError as error:
        raise error_if_lark(source, notation) or error from None


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
    """Constrain the output to a grammar in Lark's language, with the extensions of llguidance and XGrammar.

    Args:
        source: The grammar.
        start: The rule that the whole text must match.
        lexer: How a text is cut into terminals. ``"lark"``: the first terminal that matches, in the order of lark's
            basic lexer. ``"longest"``: the longest match of any terminal.
        contextual: Whether only terminals compete that the grammar allows at the position.
        indenter: One of lark's indenters, such as ``lark.indenter.PythonIndenter``.
        import_paths: Folders in which ``%import`` looks before lark's own modules.
        constraints: The constraints that ``@name`` refers to.
        at_limit: How a rule ends that has used up its ``[max_tokens=...]`` (see `limit_tokens`): ``"cut"`` as in
            llguidance, ``"complete"`` as in XGrammar.
        json: Options of the schemas in ``%json``, as `json_schema` takes them: ``{"escapes": "all"}``.

    Raises:
        GrammarSyntaxError: The grammar has a mistake; the error shows its position.
        GrammarUnsupported: The grammar uses something that cannot be represented exactly.
        EmptyConstraint: The start rule has no finite text.
        LimitExceeded: The grammar is too large.
        OptionError: An option has the wrong type or value.
    """
    # Here, so that the lark library is loaded only for grammars in its language.
    from .lark.core_reader import lower_plain
    from .lark.reader import read_lark

    _check_is_source(source, "lark")
    if not isinstance(contextual, bool):
        raise OptionError(f"contextual is {contextual!r:.40}; it must be True or False")
    if constraints is not None and not isinstance(constraints, Mapping):
        raise OptionError(
            f"constraints is {a_kind(constraints)}; it must be a dict from the names after @ to constraints",
            hint='For example {"name": structgen.regex("[a-z]+")}.',
        )
    if json is not None and not isinstance(json, Mapping):
        raise OptionError(
            f"json is {a_kind(json)}; it must be a dict of options of json_schema",
            hint='For example {"escapes": "all"}.',
        )
    make_options(dict(json or {}))
    if isinstance(import_paths, str | PurePath) or not isinstance(import_paths, Sequence):
        raise OptionError(f"import_paths is {with_kind(import_paths)}; it must be a list of folders")
    if lexer not in ("lark", "longest"):
        raise OptionError(f"unknown lexer rule {lexer!r}", hint="The rules are 'lark' and 'longest'.")
    check_token_limit(0, at_limit)
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
        raise error_if_gbnf(source) or error from None
    return GrammarConstraint(grammar, "Lark")


UNCHECKED: Mapping[str, Callable[..., GrammarConstraint]] = {
    builder.__name__: inspect.unwrap(builder) for builder in (gbnf, ebnf, lark)
}
"""The same functions without the check for a finite text, for callers that report every problem of a grammar."""
