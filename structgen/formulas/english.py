"""Render formulas in English, so that people can confirm what a formula means.

What: the common shapes (never, before, whenever ... then) have sentences of their own. Everything else is rendered word
by word, with commas, "both ... and" and "either ... or" to separate operands.
"""

from __future__ import annotations

from collections.abc import Sequence

from .formula import Formula, as_formula

__all__ = ["english"]


def english(formula: Formula | str) -> str:
    """Return a formula as an English sentence, or one sentence for each operand of a conjunction."""
    given = as_formula(formula)
    parts = given.args if given.op == "and" else (given,)
    return " ".join(_sentence(_clause(part)) for part in parts)


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:] + "."


def _clause(formula: Formula) -> str:
    """Return the clause for a formula about the whole trace."""
    args = formula.args
    match formula.op:
        case "F":
            return f"at some point {_said(args[0])}"
        case "G":
            return _always(args[0])
        case "W" | "U" if args[0].op == "not":
            never, first = _whole(args[0].args[0]), _whole(args[1])
            more = f", and at some point {first}" if formula.op == "U" else ""
            return f"not {never} before {first}{more}"
        case "not":
            inner = args[0]
            if inner.op == "F":
                return f"never {_said(inner.args[0])}"
    return _said(formula)


_UNARY = ("not", "X", "N", "F", "G")


def _always(body: Formula) -> str:
    if body.op == "not" and _is_state(body.args[0]):
        return f"never {_said(body.args[0])}"
    if body.op == "implies":
        cause, effect = body.args
        when = f"whenever {_said(cause)}, "
        if effect.op == "F":
            return f"{when}then {_said(effect.args[0])} at that point or later"
        if effect.op == "X" and effect.args[0].op == "F":
            return f"{when}later {_said(effect.args[0].args[0])}"
        if effect.op == "X":
            return f"{when}next {_said(effect.args[0])}"
        if effect.op == "G" and effect.args[0].op == "not":
            return f"{when}from then on never {_said(effect.args[0].args[0])}"
        if effect.op == "N" and effect.args[0].op == "G" and effect.args[0].args[0].op == "not":
            return f"{when}never {_said(effect.args[0].args[0].args[0])} after that"
        return f"{when}{_said(effect)}"
    return f"always {_said(body) if body.op in _UNARY else _whole(body)}"


def _said(formula: Formula) -> str:
    args = formula.args
    said = [
        _said(argument) if argument.op in ("atom", "true", "false", "last") else _grouped(argument)
        for argument in args
    ]
    match formula.op:
        case "atom":
            return f"`{formula.name}`"
        case "true":
            return "anything"
        case "false":
            return "the impossible"
        case "last":
            return "the end"
        case "not":
            return f"not {said[0]}"
        case "and":
            return _listed("both" if len(said) == 2 else "all of", said, "and")
        case "or":
            return _listed("either" if len(said) == 2 else "one of", said, "or")
        case "implies":
            return f"if {said[0]}, then {said[1]}"
        case "iff":
            return f"{said[0]} if and only if {said[1]}"
        case "X":
            return f"next {said[0]}"
        case "N":
            return f"next, unless this is the end, {said[0]}"
        case "F":
            return f"{said[0]} now or later"
        case "G":
            return f"always from then on {said[0]}"
        case "U":
            return f"{said[0]} until {said[1]}, which comes"
        case "W":
            return f"{said[0]} until {said[1]}, if that comes"
        case "R":
            return f"{said[1]} up to and with the first {said[0]}, if that comes"
        case "M":
            return f"{said[1]} up to and with the first {said[0]}, which comes"
    raise AssertionError(formula.op)


def _whole(formula: Formula) -> str:
    """In parentheses, where something else could be read as a part of it."""
    return _said(formula) if _is_state(formula) else f"({_said(formula)})"


def _grouped(formula: Formula) -> str:
    text = _said(formula)
    return text if formula.op == "not" and _is_state(formula) else f"({text})"


def _listed(first: str, parts: Sequence[str], word: str) -> str:
    return f"{first} {', '.join(parts[:-1])} {word} {parts[-1]}"


def _is_state(formula: Formula) -> bool:
    """About one position only."""
    return formula.op in ("atom", "true", "false", "last", "not", "and", "or") and all(
        map(_is_state, formula.args)
    )
