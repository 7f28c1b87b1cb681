"""Lower a plain Lark grammar with lexer rule "longest" in the core, straight from its text to the IR.

Why: most of a grammar is rules and words, for which the core needs nothing from Python. It
(`_core/grammar/lark/grammar.h`) turns them into productions in a tenth of the time. This module only computes what the
patterns match.
Invariant: the result is the IR that `reader` and `lowering` make of the same text, or None. Anything that is not plain,
and every mistake, is left to them.
Cost: about a microsecond a token, and twenty for each pattern.
"""

from __future__ import annotations

import re
import warnings

from lark.lexer import Pattern
from lark.load_grammar import _TERMINAL_NAMES

from structgen._core._native import PlainLark
from structgen.constraints.expressions import EPSILON, RE, nullable, scope
from structgen.constraints.regex.looks import remove_looks
from structgen.constraints.regex.parser import NO_FLAGS
from structgen.constraints.regex.python import PythonParser
from structgen.ir.grammar import GrammarIR

from ..lowering import text_of
from .literals import literal_pattern, name_from_text
from .pattern_program import GreedyParser
from .plain_reader import Defined, Patterns, imported_terminals
from .source import LENGTH
from .terminals import widest_text

__all__ = ["lower_plain"]

_ENDLESS = 2**62
"""The width of an unbounded pattern. Lark's own number is too large for the core; such widths are refused anyway."""


def lower_plain(source: str, start: str, contextual: bool) -> GrammarIR | None:
    """Return the IR of a plain grammar; None if `reader` must read it.

    Args:
        source: The grammar.
        start: The start rule.
        contextual: Whether only terminals compete that the grammar allows at the position.
    """
    try:
        source.encode()  # `reader` reports lone surrogates
        plain = PlainLark.read(source) if len(source) <= LENGTH else None
        if plain is None:
            return None
        lowered = _lowered(plain, start)
    except Exception:  # noqa: BLE001 — lark raises anything for patterns; `reader` words the error
        return None
    if lowered is None:
        return None
    number, rules, productions, terminals, ignored = lowered
    return GrammarIR(
        lexing="longest",
        contextual=contextual,
        start=number,
        rules=rules,
        terminals=terminals,
        scanners=(),
        ignore=ignored,
        lazy=(),
        keywords=(),
        indentation=None,
        productions=productions,
        within=None,
    )


def _lowered(
    plain: PlainLark, start: str
) -> tuple[int, tuple[str, ...], tuple[RE, ...], tuple[RE, ...], tuple[int, ...]] | None:
    defined: dict[str, Defined] = plain.terminals
    imported = imported_terminals(plain.imports, defined) if plain.imports else {}
    patterns = Patterns(imported | defined)
    known: dict[str, Pattern] = {}

    def key(pattern: Pattern) -> str:
        """Return what distinguishes a pattern for lark."""
        identity = f"{pattern.type}/{''.join(sorted(pattern.flags))}/{pattern.value}"
        known[identity] = pattern
        return identity

    literals = {}
    for text in plain.literals:
        pattern = literal_pattern(text)
        literals[text] = key(pattern), name_from_text(pattern) or ""
    return plain.lower(
        start,
        [(name, priority, key(patterns.of(name))) for name, (priority, *_) in imported.items()],
        {name: key(patterns.of(name)) for name, (_, _, is_word) in defined.items() if not is_word},
        literals,
        _TERMINAL_NAMES,
        lambda name, identity: _language(name, known[identity]),
    )


def _language(name: str, pattern: Pattern) -> tuple[bool, int, int, str, RE] | None:
    """Return whether it is a pattern, its longest text, its length, its name in messages and its language.

    None if it is not plain.
    """
    expression = pattern.to_regexp()
    if pattern.type == "str":
        reader = PythonParser(expression, NO_FLAGS)
        language = reader.parse()
        if reader.has_looks:
            return None
        language = scope(remove_looks(language, EPSILON, False))
    else:
        greedy = GreedyParser(expression, NO_FLAGS)
        language = greedy.parse()
        if greedy.lazy or greedy.has_looks:
            return None
        if "(?" in expression:  # without it, Python accepts all that is accepted here
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", FutureWarning)  # about brackets in sets
                re.compile(expression)
                re.compile(f"(?:{expression})")
    if nullable(language) is not False:
        return None
    shown = text_of(language) or name
    return (
        pattern.type != "str",
        min(widest_text(language), _ENDLESS),
        len(pattern.value),
        "" if shown.startswith("__") else shown,
        language,
    )
