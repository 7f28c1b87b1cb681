"""Decide whether a constraint accepts the empty text.

Why: a grammar symbol that stands for another constraint reads at least one byte. So a constraint that accepts the empty
text becomes an optional symbol.
Invariant: exact, by the IR, which is all that the core sees.
Cost: linear in the IR; a regular expression with look-around is compiled.
"""

from __future__ import annotations

from structgen import _core
from structgen.constraints.base import IR
from structgen.constraints.expressions import RE, nullable
from structgen.ir.grammar import GrammarIR

__all__ = ["accepts_empty"]


def accepts_empty(ir: IR) -> bool:
    """Return whether the language of a plan contains the empty text."""
    kind, content = ir
    if kind == "regex":
        return _expression(content)
    if kind == "sequence":
        return all(map(accepts_empty, content))
    if kind == "union":
        return any(map(accepts_empty, content))
    if kind == "grammar":
        return _grammar(content)
    if kind == "counted":
        part, most, cuts, enough = content
        if accepts_empty(part):
            return True
        return most == 0 and (cuts or (enough is not None and accepts_empty(enough)))
    return False  # JSON has at least one character


def _expression(expression: RE) -> bool:
    answer = nullable(expression)
    if answer is None:
        space = _core.RegexSpace()
        answer = space.nullable(space.compile(expression))
    return answer


def _grammar(grammar: GrammarIR) -> bool:
    empty = {
        -1 - index for index, terminal in enumerate(grammar["terminals"]) if _terminal(grammar, terminal)
    }
    missing: list[int] = []  # by production: the number of symbols that are not known to be nullable
    waiting: dict[int, list[int]] = {}
    pending = list(empty)
    for index, (head, *body) in enumerate(grammar["productions"]):
        missing.append(len(body))
        for symbol in body:
            waiting.setdefault(symbol, []).append(index)
        if not body and head not in empty:
            empty.add(head)
            pending.append(head)
    while pending:
        for index in waiting.get(pending.pop(), ()):
            missing[index] -= 1
            head = grammar["productions"][index][0]
            if not missing[index] and head not in empty:
                empty.add(head)
                pending.append(head)
    within = grammar["within"]
    return grammar["start"] in empty and (within is None or _expression(within))


def _terminal(grammar: GrammarIR, terminal: tuple[str, str, object, int]) -> bool:
    """Return whether a terminal may be empty. With a lexer it never is, since a lexeme has at least one character."""
    kind, _, content, _ = terminal
    if grammar["lexing"] != "scannerless" or kind not in ("text", "constraint"):
        return False
    return _expression(content) if kind == "text" else accepts_empty(content)  # type: ignore[arg-type]
