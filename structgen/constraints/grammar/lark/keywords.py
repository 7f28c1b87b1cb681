"""Keywords: texts that patterns also match, with lark's contextual lexer.

Why: where the parser allows a pattern, lark finds a keyword by that pattern. Elsewhere it tries the keyword's own text.
So a keyword is several terminals here: one for each pattern that finds it (``IF@NAME``), and its own (``IF``). The core
lets one of them compete at each position.
Source: lark 1.3, lexer (`ContextualLexer`, `_create_unless`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from structgen.ir.grammar import Keyword, Terminal

from .lookahead import Scanner

__all__ = ["keywords_of"]


def keywords_of(
    scanners: Sequence[Scanner],
    terminals: Sequence[Terminal],
    ignored: Collection[str],
    replaced: Collection[tuple[str, str]],
) -> tuple[Keyword, ...]:
    """Return the keywords of a grammar.

    Args:
        scanners: All scanners.
        terminals: The terminals of the scanners' entries, in the same order.
        ignored: The names of ignored terminals.
        replaced: Pairs, in lark's names, of a keyword and a pattern that replaces the keyword's own scanner.
    """
    entries = [(entry.name, scanner.host) for scanner in scanners for entry in scanner.entries]
    own: dict[str, list[str]] = {}
    finders: dict[str, list[tuple[str, str, bool]]] = {}
    for terminal, (name, host) in zip(terminals, entries, strict=True):
        if name == host:
            own.setdefault(name, []).append(terminal.name)
    for terminal, (name, host) in zip(terminals, entries, strict=True):
        if name != host:
            finders.setdefault(name, []).append((terminal.name, own[host][0], (name, host) in replaced))
    for name, host in sorted(replaced):
        pattern = own[host][0]
        if pattern in ignored:  # it finds no keyword, but the keyword's own scanner is still not tried
            finders.setdefault(name, []).append((pattern, pattern, True))
    keywords = [Keyword(own[name][0], tuple(finders_of_name)) for name, finders_of_name in finders.items()]
    for name, found in finders.items():  # look-ahead may have split the keyword's own scanner
        same_finders = tuple((pattern, pattern, replaces) for _, pattern, replaces in found)
        keywords += [Keyword(other, same_finders) for other in own[name][1:]]
    return tuple(keywords)
