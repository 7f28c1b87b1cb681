"""Texts that patterns also match, under lark's contextual lexer.

Why: where a pattern may come, lark finds a text that it matches by that pattern, as a keyword; where none may come, it
tries the text by itself. So a keyword is several terminals here, of which the core lets one compete at each place:
one for each pattern that finds it (``IF@NAME``), and its own (``IF``).
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
    """The keywords of a grammar.

    Args:
        scanners: All scanners; what each of their entries finds is one of `terminals`, in order.
        ignored: The names of those to ignore.
        replaced: Pairs, in lark's names, of a text and a pattern beside which the text's own scanner is not tried.
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
        if pattern in ignored:  # what it finds is no keyword, but the text's own scanner is not tried either
            finders.setdefault(name, []).append((pattern, pattern, True))
    keywords = [Keyword(own[name][0], tuple(found)) for name, found in finders.items()]
    for name, found in finders.items():  # look-ahead may have split the text's own scanner
        beside = tuple((pattern, pattern, replaces) for _, pattern, replaces in found)
        keywords += [Keyword(other, beside) for other in own[name][1:]]
    return tuple(keywords)
