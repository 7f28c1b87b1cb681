"""A small reference of the published check for diffusion models (arXiv 2508.10111): proposal by proposal.

The cells form an automaton over terminals: a fixed cell is one edge, a masked one an edge for each terminal. For each
proposed token the reference builds the intersection of the grammar with that automaton bottom-up (Bar-Hillel's
construction), and checks if the start symbol spans it. A refused token is banned, and the next likely one proposed.
Tokens are terminals of SMILES here, so no product with a lexer is needed.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence

__all__ = ["SMILES", "Proposals"]

Rule = tuple[str, ...]

SMILES: Mapping[str, Sequence[Rule]] = {
    "chain": [("branched",), ("chain", "more")],
    "more": [("branched",), ("link", "branched")],
    "link": [("bond",), ("dot",)],
    "branched": [("ringed",), ("branched", "branch")],
    "ringed": [("atom",), ("ringed", "ring")],
    "ring": [("digit",), ("bond", "digit")],
    "branch": [("open", "inside")],
    "inside": [("chain", "close"), ("bond", "closed")],
    "closed": [("chain", "close")],
}
"""Rules of one symbol or two; the start is `chain`."""
_KINDS = {
    "atom": re.compile(r"\[[^\]]+\]|Br|Cl|[BCNOPSFIbcnops*]"),
    "digit": re.compile(r"\d|%[1-9]\d"),
    "bond": re.compile(r"[-=#$:/\\]"),
    "dot": re.compile(r"\."),
    "open": re.compile(r"\("),
    "close": re.compile(r"\)"),
}


class Proposals:
    """Answers "can these cells be completed?" from nothing, each time."""

    def __init__(self, tokens: Sequence[str | None], atoms: frozenset[str] | None = None) -> None:
        """`atoms`: the bracket atoms that are spelled right."""
        self.kinds: list[str | None] = []
        for text in tokens:
            kind_here = None
            for kind, pattern in _KINDS.items():
                if text is not None and pattern.fullmatch(text):
                    kind_here = kind
            if kind_here == "atom" and atoms is not None and text not in atoms and str(text).startswith("["):
                kind_here = None
            self.kinds.append(kind_here)
        self._units: dict[str, list[str]] = defaultdict(list)
        self._lefts: dict[str, list[tuple[str, str]]] = defaultdict(list)
        self._rights: dict[str, list[tuple[str, str]]] = defaultdict(list)
        for head, bodies in SMILES.items():
            for body in bodies:
                if len(body) == 1:
                    self._units[body[0]].append(head)
                else:
                    self._lefts[body[0]].append((body[1], head))
                    self._rights[body[1]].append((body[0], head))

    def completable(self, cells: Sequence[int | None]) -> bool:
        """None: a masked cell."""
        begins: dict[tuple[str, int], set[int]] = defaultdict(set)
        ends: dict[tuple[str, int], set[int]] = defaultdict(set)
        todo: list[tuple[str, int, int]] = []

        def add(symbol: str, start: int, end: int) -> None:
            if end not in begins[symbol, start]:
                begins[symbol, start].add(end)
                ends[symbol, end].add(start)
                todo.append((symbol, start, end))

        for cell, token in enumerate(cells):
            kind = None if token is None else self.kinds[token]
            for name in _KINDS if token is None else [kind] if kind else []:
                add(name, cell, cell + 1)
        while todo:
            symbol, start, end = todo.pop()
            if (symbol, start, end) == ("chain", 0, len(cells)):
                return True
            for head in self._units[symbol]:
                add(head, start, end)
            for right, head in self._lefts[symbol]:
                for earliest in tuple(begins[right, end]):
                    add(head, start, earliest)
            for left, head in self._rights[symbol]:
                for before in tuple(ends[left, start]):
                    add(head, before, end)
        return False
