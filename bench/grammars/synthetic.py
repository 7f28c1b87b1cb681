"""A random grammar of many rules in both notations: how the time to read and compile grows with a grammar.

Each rule has two alternatives with nine symbols together: words, names, numbers, and rules that come later, so that
every rule ends. A few rules call the first one again, so that the language is not regular. The seed is fixed.
"""

from __future__ import annotations

import random

__all__ = ["synthetic"]

_DRAWN = 3
"""Symbols of a rule, beside six that are always there."""
_WORDS = 60
_REACH = 40
"""How far ahead a rule's rules are."""


def synthetic(notation: str, rules: int, seed: int = 0) -> str:
    """The grammar's text; both notations have the same rules."""
    source = random.Random(seed)
    words = sorted({_word(source) for _ in range(_WORDS)})
    bodies = [_body(source, number, rules, words) for number in range(rules)]
    if notation == "Lark":
        lines = ["start: rule_0", *(f"rule_{i}: {body}" for i, body in enumerate(bodies))]
        lines += ["NAME: /[a-z_][a-z0-9_]*/", "NUMBER: /[0-9]+/", r"%ignore /[ \t\n]+/"]
        return "\n".join(lines) + "\n"
    lines = ["root ::= s rule_0", *(f"rule_{i} ::= {_spaced(body)}" for i, body in enumerate(bodies))]
    lines += ["NAME ::= [a-z_] [a-z0-9_]* s", "NUMBER ::= [0-9]+ s", r"s ::= [ \t\n]*"]
    return "\n".join(lines) + "\n"


def _word(source: random.Random) -> str:
    return "".join(source.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(source.randint(3, 8)))


def _body(source: random.Random, number: int, rules: int, words: list[str]) -> str:
    """A bracket tells the alternatives apart; the next rule is in one of them, so every rule is reached."""
    following = [f"rule_{number + 1}"] if number + 1 < rules else []
    drawn = [_symbol(source, number, rules, words) for _ in range(_DRAWN)]
    first, last = source.choice(words), source.choice(words)
    return " ".join(['"("', *following, *drawn, '")"', "|", f'"{first}"', "NUMBER", f'"{last}"'])


def _symbol(source: random.Random, number: int, rules: int, words: list[str]) -> str:
    kind = source.random()
    if kind < 0.35:
        return f'"{source.choice(words)}"'
    if kind < 0.5:
        return source.choice(("NAME", "NUMBER"))
    if kind < 0.52:
        return '"[" rule_0 "]"'
    target = number + source.randint(1, _REACH)
    return f"rule_{target}" if target < rules else "NUMBER"


def _spaced(body: str) -> str:
    """White space after each word, as a lexer would allow it."""
    return " ".join(f"{symbol} s" if symbol.startswith('"') else symbol for symbol in body.split())
