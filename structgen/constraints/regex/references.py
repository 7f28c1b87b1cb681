r"""Back-references to groups that match few texts, written out.

Why: ``<(b|i)>[^<]*</\1>`` is regular: it is one alternative for each text of the group.
Invariant: the result has exactly the texts of the pattern. A reference is refused where its group has more than
`_TEXTS` texts, stands in a repetition or a look-around that the reference is not in, or depends on the text around it.
Cost: the part of the pattern that holds a group and its references is copied for each text of the group.
Source: CPython 3.11, the documentation of `re`; ECMA-262, section 22.2.2.7.1 (a group that matched nothing).

    Node = as in `backtracking`, and ("reference", number, case, position, end)
           where `case` makes the expression that matches a text as the reference does
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Set

from structgen.constraints.expressions import EPSILON, NOTHING, RE, concat

from .backtracking import Node

__all__ = ["expand_references"]

_TEXTS = 256
"""Texts of a group."""
_GROUPS = 50
"""Groups that are referred to."""
_LONGEST = 4_096
"""Characters of them together."""
_SIZE = 20_000
"""Nodes of the pattern with its references written out."""

Refuse = Callable[[Node, str], Exception]


def expand_references(tree: Node, refuse: Refuse, *, unset_is_empty: bool) -> Node:
    """The pattern without references.

    Args:
        tree: The pattern.
        refuse: Makes the error for a reference that is refused for this reason.
        unset_is_empty: Whether a reference to a group that took no part matches the empty text (ECMA-262) or nothing
            (Python).
    """
    while True:
        references = [node for node in _nodes(tree) if node[0] == "reference"]
        if not references:
            return tree
        first = {node[1]: node for node in reversed(references)}  # of each group
        if len(first) > _GROUPS:
            raise refuse(references[0], f"there are references to more than {_GROUPS} groups")
        if sum(1 for _ in _nodes(tree, _SIZE)) >= _SIZE:
            raise refuse(references[0], "writing it out would make the pattern too large")
        inner = next(
            (
                one
                for number, one in first.items()
                if not _holds_others(tree, number, first.keys() - {number})
            ),
            references[0],
        )
        tree = _Expansion(tree, inner, refuse, unset_is_empty).tree()


class _Expansion:
    """Of all references to one group."""

    def __init__(self, tree: Node, reference: Node, refuse: Refuse, unset_is_empty: bool) -> None:
        self.whole = tree
        self.reference = reference
        self.number: int = reference[1]
        self.refuse = refuse
        self.unset: RE = EPSILON if unset_is_empty else NOTHING
        self.keeps_rounds = not unset_is_empty
        """Does a group keep what it matched in an earlier round of a repetition?"""

    def tree(self) -> Node:
        made = self._expanded(self.whole, repeated=False, atomic=False)
        if sum(1 for _ in _nodes(made, _SIZE)) >= _SIZE:
            raise self._refused("writing it out would make the pattern too large")
        return made

    def _refused(self, reason: str) -> Exception:
        return self.refuse(self.reference, reason)

    def _expanded(self, node: Node, *, repeated: bool, atomic: bool) -> Node:
        """The node, which may hold the group, without the references in it."""
        if not self._refers(node):
            return node
        if not self._holds_group(node):
            if repeated and self.keeps_rounds:
                raise self._refused("its group may have matched in an earlier round of a repetition")
            return self._unset(node, node)
        parts = _parts(node)
        if node[0] == "group" and node[1] == self.number:
            raise self._refused("it is in its own group")
        concerned = [i for i, part in enumerate(parts) if self._refers(part) or self._holds_group(part)]
        if node[0] == "concat" and len(concerned) > 1:
            return self._sequence(node, parts, concerned, repeated=repeated, atomic=atomic)
        repeated |= node[0] == "quantified" and node[3] != 1
        atomic |= _is_atomic(node)
        made = [
            self._expanded(part, repeated=repeated, atomic=atomic) if i in concerned else part
            for i, part in enumerate(parts)
        ]
        return _with(node, made)

    def _sequence(
        self, node: Node, parts: Sequence[Node], concerned: list[int], *, repeated: bool, atomic: bool
    ) -> Node:
        """A sequence that holds the group and references to it in several of its parts."""
        home = next(i for i in concerned if self._holds_group(parts[i]))
        if home != concerned[0] or self._refers_early(parts[home]):
            raise self._refused("it stands before its group, or in it")
        # An earlier expansion has copied the group where it stands in several cases.
        copies = list(self._ways_to_group(parts[home]))
        if len(copies) > 1 and (self._refers(parts[home]) or any(map(self._holds_group, parts[home + 1 :]))):
            raise self._refused("its group is written out several times")
        optional, atomic_inside = any(one[1] for one in copies), any(one[2] for one in copies)
        texts: list[str] = []
        for group, _, _ in copies:
            listed = _listed(group[2])
            if listed is None:
                raise self._refused(
                    f"its group has more than {_TEXTS} texts, or depends on the text around it"
                )
            texts = list(dict.fromkeys([*texts, *listed]))
        if optional and repeated and self.keeps_rounds:
            raise self._refused("its group may have matched in an earlier round of a repetition")
        if (atomic or atomic_inside) and len(texts) + optional > 1:
            raise self._refused("it is in an atomic group, where the order of its texts matters")
        if sum(1 for _ in _nodes(node, _SIZE)) * len(texts) * len(copies) > _SIZE:
            raise self._refused("writing it out would make the pattern too large")
        cases = [case for text in texts for case in self._filled(node, text)]
        if optional:
            cases.append(self._unset(node, NOTHING))
        return ("cases", tuple(cases)) if len(cases) != 1 else cases[0]

    def _refers(self, node: Node) -> bool:
        return any(one[0] == "reference" and one[1] == self.number for one in _nodes(node))

    def _holds_group(self, node: Node) -> bool:
        return _group(node, self.number) is not None

    def _refers_early(self, node: Node) -> bool:
        """Is a reference in the node before its group, or in it?"""
        group = _group(node, self.number)
        assert group is not None
        if self._refers(group):
            return True
        found = next(
            one for one in _nodes(node) if one[0] in ("group", "reference") and one[1] == self.number
        )
        return bool(found[0] == "reference")

    def _ways_to_group(
        self, node: Node, optional: bool = False, atomic: bool = False
    ) -> Iterator[tuple[Node, bool, bool]]:
        """Each copy of the group, whether a match may leave it out, and whether it is in an atomic group here."""
        if node[0] == "group" and node[1] == self.number:
            yield node, optional, atomic
            return
        if not self._holds_group(node):
            return
        if node[0] == "look":
            raise self._refused("its group is in a look-around")
        if node[0] == "quantified":
            if node[3] != 1:
                raise self._refused("its group is repeated")
            optional |= node[2] == 0
        optional |= node[0] in ("ordered", "cases")
        atomic |= _is_atomic(node)
        for part in _parts(node):
            yield from self._ways_to_group(part, optional, atomic)

    def _filled(self, node: Node, text: str) -> list[Node]:
        """The node where the group takes part and has this text, once for each copy of the group that may."""
        if node[0] == "reference":
            return [node[2](text) if node[1] == self.number else node]
        if node[0] == "group" and node[1] == self.number:
            return [("literal", text)] if text in (_listed(node[2]) or ()) else []
        parts = _parts(node)
        if self._holds_group(node) and node[0] in ("ordered", "cases", "quantified"):
            return [one for part in parts if self._holds_group(part) for one in self._filled(part, text)]
        if not self._holds_group(node) and not self._refers(node):
            return [node]
        made: list[list[Node]] = [[]]
        for part in parts:
            made = [[*before, one] for before in made for one in self._filled(part, text)]
        return [_with(node, one) for one in made]

    def _unset(self, node: Node, group: Node) -> Node:
        """The node where the group takes no part, and is this."""
        if node[0] == "reference" and node[1] == self.number:
            return self.unset
        if node[0] == "group" and node[1] == self.number:
            return group
        if not self._holds_group(node) and not self._refers(node):
            return node
        return _with(node, [self._unset(part, group) for part in _parts(node)])


def _is_atomic(node: Node) -> bool:
    return bool(node[0] == "atomic" or (node[0] == "quantified" and node[4] == "+"))


def _listed(node: Node) -> list[str] | None:
    """All texts of a node; None if they are too many, or depend on what is around."""
    kind = node[0]
    found: list[str] | None
    if kind == "literal":
        found = [node[1]]
    elif kind == "literals":
        found = list(node[1])
    elif kind == "empty":
        found = []
    elif kind == "class":
        if sum(high - low + 1 for low, high in node[1]) > _TEXTS:
            return None
        found = [chr(point) for low, high in node[1] for point in range(low, high + 1)]
    elif kind == "group":
        found = _listed(node[2])
    elif kind in ("ordered", "cases"):
        parts = list(map(_listed, node[1]))
        found = None if None in parts else [text for part in parts for text in part or ()]
    elif kind == "concat":
        found = _joined(list(map(_listed, node[1])))
    elif kind == "quantified" and node[3] is not None and node[3] <= _TEXTS and node[4] != "+":
        inner = _listed(node[1])
        counts = [_joined([inner] * count) for count in range(node[2], node[3] + 1)]
        found = None if None in counts else [text for count in counts for text in count or ()]
    else:
        return None
    if found is None or len(found) > _TEXTS or sum(map(len, found)) > _LONGEST:
        return None
    return found


def _joined(parts: Sequence[list[str] | None]) -> list[str] | None:
    found = [""]
    for part in parts:
        if part is None or len(found) * len(part) > _TEXTS:
            return None
        found = [before + text for before in found for text in part]
        if sum(map(len, found)) > _LONGEST:
            return None
    return found


def _parts(node: Node) -> Sequence[Node]:
    kind = node[0]
    if kind in ("concat", "ordered", "cases"):
        return node[1]  # type: ignore[no-any-return]
    if kind in ("quantified", "atomic"):
        return (node[1],)
    if kind == "group":
        return (node[2],)
    return (node[3],) if kind == "look" else ()


def _with(node: Node, parts: Sequence[Node]) -> Node:
    kind = node[0]
    if kind == "concat":
        return concat(parts)
    if kind in ("ordered", "cases"):
        return (kind, tuple(parts))
    if kind in ("quantified", "atomic"):
        return (kind, parts[0], *node[2:])
    if kind == "group":
        return (kind, node[1], parts[0])
    return (*node[:3], parts[0])


def _nodes(tree: Node | None, most: int = 10**9) -> Iterator[Node]:
    """The node and all in it, at most so many."""
    pending = [] if tree is None else [tree]
    while pending and most:
        node = pending.pop()
        most -= 1
        yield node
        pending.extend(reversed(_parts(node)))


def _group(tree: Node, number: int) -> Node | None:
    return next((node for node in _nodes(tree) if node[0] == "group" and node[1] == number), None)


def _holds_others(tree: Node, number: int, numbers: Set[int]) -> bool:
    """Are there groups with these numbers inside of a copy of the group?"""
    copies = (node for node in _nodes(tree) if node[0] == "group" and node[1] == number)
    return any(one[0] == "group" and one[1] in numbers for copy in copies for one in _nodes(copy[2]))
