"""A plain Lark grammar under rule "longest", straight from its text to the core's IR.

Why: rules and words are most of most grammars, and need nothing that Python knows; the core
(`_core/grammar/lark/grammar.h`) makes symbols and productions of them at once, in a tenth of the time. What patterns
match is found here.
Invariant: the IR that the long way (`lark`, `lowering`) makes of the same text, or none: whatever is not plain, and
every mistake, is the long way's business.
Cost: about a microsecond a token, and twenty for each pattern.
"""

from __future__ import annotations

import re
import warnings

from lark.lexer import Pattern
from lark.load_grammar import _TERMINAL_NAMES

from structgen._core._native import PlainLark
from structgen.constraints.expressions import EPSILON, RE, nullable, scope
from structgen.constraints.regex.looks import close
from structgen.constraints.regex.parser import NO_FLAGS
from structgen.constraints.regex.python import PythonParser
from structgen.ir.grammar import GrammarIR

from ..lowering import text_of
from .literals import literal_pattern, telling_name
from .pattern_program import GreedyParser
from .plain_reader import Defined, Patterns, imported_terminals
from .source import LENGTH
from .terminals import widest_text

__all__ = ["lower_plain"]

_ENDLESS = 2**62
"""Lark's own is beyond what the core counts with; patterns that long are refused anyway."""


def lower_plain(source: str, start: str, contextual: bool) -> GrammarIR | None:
    """The IR; None if the long way has to be taken."""
    try:
        source.encode()  # the long way refuses lone surrogates
        plain = PlainLark.read(source) if len(source) <= LENGTH else None
        if plain is None:
            return None
        lowered = _lowered(plain, start)
    except Exception:  # of patterns lark and Python raise what they like; the long way words it
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
        """What tells it apart, as lark does."""
        told = f"{pattern.type}/{''.join(sorted(pattern.flags))}/{pattern.value}"
        known[told] = pattern
        return told

    literals = {}
    for text in plain.literals:
        pattern = literal_pattern(text)
        literals[text] = key(pattern), telling_name(pattern) or ""
    return plain.lower(
        start,
        [(name, priority, key(patterns.of(name))) for name, (priority, *_) in imported.items()],
        {name: key(patterns.of(name)) for name, (_, _, is_word) in defined.items() if not is_word},
        literals,
        _TERMINAL_NAMES,
        lambda name, told: _language(name, known[told]),
    )


def _language(name: str, pattern: Pattern) -> tuple[bool, int, int, str, RE] | None:
    """Is it a pattern, its longest text, its length, how it is shown, what it matches; None if not plain."""
    expression = pattern.to_regexp()
    if pattern.type == "str":
        reader = PythonParser(expression, NO_FLAGS)
        language = reader.parse()
        if reader.has_looks:
            return None
        language = scope(close(language, EPSILON, False))
    else:
        greedy = GreedyParser(expression, NO_FLAGS)
        language = greedy.parse()
        if greedy.lazy or greedy.has_looks:
            return None
        if "(?" in expression:  # of all else that is read here Python can read more
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
