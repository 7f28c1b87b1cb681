"""Simplify formulas.

What: bottom-up rewriting by equivalences that hold on every trace of at least one position, until none applies. Each
rewriting makes a formula smaller, or moves an operator to one side, so it terminates.

    constants, idempotence, f & !f, absorption        F F f = F f     F G f = G F f (on finite traces)
    X false = false, N true = true                    f U f = f       false U f = f      true U f = F f
    F f | F g = F (f | g)                             G f & G g = G (f & g)
    X f & X g = X (f & g),  N f | N g = N (f | g)     in G F f, f is simplified as it is at the last position

On finite traces, X true is not true (the last position has no next one), and !X f is N !f, not X !f.
Source: De Giacomo and Vardi 2013; Duret-Lutz (the rules of Spot), restricted to those that hold on finite traces.
"""

from __future__ import annotations

from .formula import FALSE, LAST, TRUE, Formula, all_of, any_of, as_formula, make

__all__ = ["simplify"]

_NEGATED = {"F": "G", "G": "F", "X": "N", "N": "X", "U": "R", "R": "U", "W": "M", "M": "W"}


def simplify(formula: Formula | str) -> Formula:
    """Return an equivalent formula that is not larger. If it is smaller, only atoms and `last` are negated."""
    given = as_formula(formula)
    simplified = _simple(given, False, {})
    return simplified if simplified.size <= given.size else given


def _simple(formula: Formula, negated: bool, known: dict[tuple[Formula, bool], Formula]) -> Formula:
    """Return the formula or its negation, simplified."""
    key = formula, negated
    if key not in known:
        known[key] = _made(formula, negated, known)
    return known[key]


def _made(formula: Formula, negated: bool, known: dict[tuple[Formula, bool], Formula]) -> Formula:
    def arg(index: int, turned: bool = False) -> Formula:
        return _simple(formula.args[index], negated != turned, known)

    match formula.op:
        case "true" | "false":
            return TRUE if (formula.op == "true") != negated else FALSE
        case "atom" | "last":
            return ~formula if negated else formula
        case "not":
            return arg(0, True)
        case "and" | "or":
            parts = [_simple(argument, negated, known) for argument in formula.args]
            return _all(parts) if (formula.op == "and") != negated else _any(parts)
        case "implies":
            parts = [arg(0, True), arg(1)]
            return _all(parts) if negated else _any(parts)
        case "iff":
            return _same(_simple(formula.args[0], False, known), arg(1))
    op = _NEGATED[formula.op] if negated else formula.op
    args = [_simple(argument, negated, known) for argument in formula.args]
    return _unary(op, args[0]) if len(args) == 1 else _binary(op, *args)


def _same(one: Formula, other: Formula) -> Formula:
    if one is other:
        return TRUE
    for first, second in ((one, other), (other, one)):
        if first is TRUE:
            return second
        if first is FALSE:
            return simplify(~second)
        if first.op == "not" and first.args[0] is second:
            return FALSE
    return make("iff", one, other)


def _all(parts: list[Formula]) -> Formula:
    return _joined(parts, True)


def _any(parts: list[Formula]) -> Formula:
    return _joined(parts, False)


def _joined(parts: list[Formula], both: bool) -> Formula:
    """Return the conjunction or the disjunction."""
    join, unit, zero = (all_of, TRUE, FALSE) if both else (any_of, FALSE, TRUE)
    own, other = ("and", "or") if both else ("or", "and")
    flat: dict[Formula, None] = {}
    for one in parts:
        flat.update(dict.fromkeys(one.args if one.op == own else (one,)))
    flat.pop(unit, None)
    if zero in flat or any(part.op == "not" and part.args[0] in flat for part in flat):
        return zero
    for op in ("G", "X") if both else ("F", "N"):  # these distribute over this operator
        same = [part for part in flat if part.op == op]
        if len(same) > 1:
            whole = _unary(op, _joined([part.args[0] for part in same], both))
            flat = {(whole if part is same[0] else part): None for part in flat if part not in same[1:]}
            return _joined(list(flat), both)
    # Absorption: f & (f | g) is f.
    kept = [part for part in flat if not (part.op == other and any(arg in flat for arg in part.args))]
    return join(kept)


def _unary(op: str, arg: Formula) -> Formula:
    if arg.op in ("true", "false"):
        holds = arg is TRUE
        if op in "FG" or (op == "X" and not holds) or (op == "N" and holds):
            return arg
        return ~LAST if op == "X" else LAST
    if op == "F":
        if arg.op == "F":
            return arg
        if LAST in (arg, *(arg.args if arg.op == "or" else ())):  # every trace comes to its end
            return TRUE
        if arg.op in "UM":  # F (f U g) is F g, F (f M g) is F (f & g)
            return _unary("F", arg.args[1] if arg.op == "U" else _all(list(arg.args)))
        if arg.op == "G":  # from some position on: at the last one
            return _at_the_end(arg.args[0])
    if op == "G":
        if arg.op == "G":
            return arg
        if ~LAST in (arg, *(arg.args if arg.op == "and" else ())):
            return FALSE
        if arg.op in "WR":  # G (f W g) is G (f | g), G (f R g) is G g
            return _unary("G", _any(list(arg.args)) if arg.op == "W" else arg.args[1])
        if arg.op == "F":
            return _at_the_end(arg.args[0])
    return make(op, arg)  # type: ignore[arg-type]


def _at_the_end(arg: Formula) -> Formula:
    """Return `G F f`, which equals `F G f`: `f` at the last position, where nested operators disappear."""
    last = _last_of(arg)
    return last if last in (TRUE, FALSE) else make("G", make("F", last))


def _last_of(formula: Formula) -> Formula:
    """Return a simplified formula at the last position."""
    match formula.op:
        case "last":
            return TRUE
        case "X":
            return FALSE
        case "N":
            return TRUE
        case "not":
            inner = _last_of(formula.args[0])
            return {TRUE: FALSE, FALSE: TRUE}.get(inner, make("not", inner))
        case "and":
            return _all([_last_of(argument) for argument in formula.args])
        case "or":
            return _any([_last_of(argument) for argument in formula.args])
        case "F" | "G":
            return _last_of(formula.args[0])
        case "U" | "R":
            return _last_of(formula.args[1])
        case "W":
            return _any([_last_of(argument) for argument in formula.args])
        case "M":
            return _all([_last_of(argument) for argument in formula.args])
    return formula


def _binary(op: str, left: Formula, right: Formula) -> Formula:
    if left is right:
        return left
    match op:
        case "U":
            if right in (TRUE, FALSE) or left is FALSE:
                return right
            if left is TRUE:
                return _unary("F", right)
            if right.op == "F":
                return right
        case "R":
            if right in (TRUE, FALSE) or left is TRUE:
                return right
            if left is FALSE:
                return _unary("G", right)
            if right.op == "G":
                return right
        case "W":
            if TRUE in (left, right):
                return TRUE
            if left is FALSE:
                return right
            if right is FALSE:
                return _unary("G", left)
        case "M":
            if FALSE in (left, right):
                return FALSE
            if left is TRUE:
                return right
            if right is TRUE:
                return _unary("F", left)
    return make(op, left, right)  # type: ignore[arg-type]
