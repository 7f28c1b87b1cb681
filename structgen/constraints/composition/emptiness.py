"""Does a constraint accept the empty text?

Why: a symbol of a grammar that stands for another constraint is read by at least one byte, so a constraint that may
be empty is that symbol or nothing.
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
    """Is the empty text in the language of this IR?"""
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
        -1 - place for place, terminal in enumerate(grammar["terminals"]) if _terminal(grammar, terminal)
    }
    missing: list[int] = []  # by production: the symbols in it that are not known to be empty
    waiting: dict[int, list[int]] = {}
    pending = list(empty)
    for place, (head, *body) in enumerate(grammar["productions"]):
        missing.append(len(body))
        for symbol in body:
            waiting.setdefault(symbol, []).append(place)
        if not body and head not in empty:
            empty.add(head)
            pending.append(head)
    while pending:
        for place in waiting.get(pending.pop(), ()):
            missing[place] -= 1
            head = grammar["productions"][place][0]
            if not missing[place] and head not in empty:
                empty.add(head)
                pending.append(head)
    within = grammar["within"]
    return grammar["start"] in empty and (within is None or _expression(within))


def _terminal(grammar: GrammarIR, terminal: tuple[str, str, object, int]) -> bool:
    """A lexeme has at least one character; without a lexer a terminal is any text of its language."""
    kind, _, content, _ = terminal
    if grammar["lexing"] != "scannerless" or kind not in ("text", "constraint"):
        return False
    return _expression(content) if kind == "text" else accepts_empty(content)  # type: ignore[arg-type]
