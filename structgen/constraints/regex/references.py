r"""Write out back-references to groups that match few texts.

Why: ``<(b|i)>[^<]*</\1>`` is regular: it has one alternative for each text of the group.

Invariant: the result has exactly the texts of the pattern. A reference is refused if its group has more than
`_MAX_TEXTS` texts, if it is in a repetition or a look-around that the reference is not in, or if it depends on the
text around it.

Cost: the part of the pattern with a group and its references is copied for each text of the group.

Source: CPython 3.11, the documentation of `re`; ECMA-262, section 22.2.2.7.1 (a group that matched nothing).

    Node = as in `backtracking`, and ("reference", number, case, position, end)
           where `case` makes the expression that matches a text as the reference does
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Set

from structgen.constraints.expressions import EPSILON, NOTHING, RE, concat

from .backtracking import Node

__all__ = ["expand_references"]

_MAX_TEXTS = 256
"""Limit on the texts of a group."""
_MAX_GROUPS = 50
"""Limit on the groups with references."""
_MAX_CHARACTERS = 4_096
"""Limit on the characters of the texts of a group."""
_MAX_NODES = 20_000
"""Limit on the nodes of the pattern with its references written out."""

Refuse = Callable[[Node, str], Exception]


def expand_references(tree: Node, refuse: Refuse, *, unset_is_empty: bool) -> Node:
    """Return the pattern without references.

    Args:
        tree: The pattern.
        refuse: Makes the error for a reference that is refused for this reason.
        unset_is_empty: Whether a reference to a group that did not participate matches the empty text (ECMA-262) or
            nothing (Python).
    """
    while True:
        references = [node for node in _nodes(tree) if node[0] == "reference"]
        if not references:
            return tree
        first = {node[1]: node for node in reversed(references)}  # of each group
        if len(first) > _MAX_GROUPS:
            raise refuse(references[0], f"there are references to more than {_MAX_GROUPS} groups")
        if sum(1 for _ in _nodes(tree, _MAX_NODES)) >= _MAX_NODES:
            raise refuse(references[0], "writing it out would make the pattern too large")
        inner = next(
            (
                copy
                for number, copy in first.items()
                if not _contains_others(tree, number, first.keys() - {number})
            ),
            references[0],
        )
        tree = _Expansion(tree, inner, refuse, unset_is_empty).tree()


class _Expansion:
    """Writes out all references to one group."""

    def __init__(self, tree: Node, reference: Node, refuse: Refuse, unset_is_empty: bool) -> None:
        self.whole = tree
        self.reference = reference
        self.number: int = reference[1]
        self.refuse = refuse
        self.unset: RE = EPSILON if unset_is_empty else NOTHING
        self.keeps_rounds = not unset_is_empty
        """Whether a group keeps its match from an earlier round of a repetition."""

    def tree(self) -> Node:
        result = self._expand(self.whole, repeated=False, atomic=False)
        if sum(1 for _ in _nodes(result, _MAX_NODES)) >= _MAX_NODES:
            raise self._refusal("writing it out would make the pattern too large")
        return result

    def _refusal(self, reason: str) -> Exception:
        return self.refuse(self.reference, reason)

    def _expand(self, node: Node, *, repeated: bool, atomic: bool) -> Node:
        """Return the node, which may contain the group, without the references in it."""
        if not self._refers(node):
            return node
        if not self._contains_group(node):
            if repeated and self.keeps_rounds:
                raise self._refusal("its group may have matched in an earlier round of a repetition")
            return self._unset(node, node)
        parts = _parts(node)
        if node[0] == "group" and node[1] == self.number:
            raise self._refusal("it is inside its own group")
        involved = [i for i, part in enumerate(parts) if self._refers(part) or self._contains_group(part)]
        if node[0] == "concat" and len(involved) > 1:
            return self._sequence(node, parts, involved, repeated=repeated, atomic=atomic)
        repeated |= node[0] == "quantified" and node[3] != 1
        atomic |= _is_atomic(node)
        result = [
            self._expand(part, repeated=repeated, atomic=atomic) if i in involved else part
            for i, part in enumerate(parts)
        ]
        return _with(node, result)

    def _sequence(
        self, node: Node, parts: Sequence[Node], involved: list[int], *, repeated: bool, atomic: bool
    ) -> Node:
        """Expand a sequence in which several parts contain the group or references to it."""
        group_index = next(i for i in involved if self._contains_group(parts[i]))
        if group_index != involved[0] or self._refers_early(parts[group_index]):
            raise self._refusal("it precedes its group, or is inside it")
        # An earlier expansion may have copied the group into several cases.
        copies = list(self._copies_of_group(parts[group_index]))
        is_copied_later = any(map(self._contains_group, parts[group_index + 1 :]))
        if len(copies) > 1 and (self._refers(parts[group_index]) or is_copied_later):
            raise self._refusal("its group is written out several times")
        optional, atomic_inside = any(copy[1] for copy in copies), any(copy[2] for copy in copies)
        texts: list[str] = []
        for group, _, _ in copies:
            listed = _list_texts(group[2])
            if listed is None:
                raise self._refusal(
                    f"its group has more than {_MAX_TEXTS} texts, or depends on the text around it"
                )
            texts = list(dict.fromkeys([*texts, *listed]))
        if optional and repeated and self.keeps_rounds:
            raise self._refusal("its group may have matched in an earlier round of a repetition")
        if (atomic or atomic_inside) and len(texts) + optional > 1:
            raise self._refusal("it is in an atomic group, where the order of its texts matters")
        if sum(1 for _ in _nodes(node, _MAX_NODES)) * len(texts) * len(copies) > _MAX_NODES:
            raise self._refusal("writing it out would make the pattern too large")
        cases = [case for text in texts for case in self._substitute(node, text)]
        if optional:
            cases.append(self._unset(node, NOTHING))
        return ("cases", tuple(cases)) if len(cases) != 1 else cases[0]

    def _refers(self, node: Node) -> bool:
        return any(part[0] == "reference" and part[1] == self.number for part in _nodes(node))

    def _contains_group(self, node: Node) -> bool:
        return _group(node, self.number) is not None

    def _refers_early(self, node: Node) -> bool:
        """Return whether a reference in the node precedes its group, or is in it."""
        group = _group(node, self.number)
        assert group is not None
        if self._refers(group):
            return True
        found = next(
            part for part in _nodes(node) if part[0] in ("group", "reference") and part[1] == self.number
        )
        return bool(found[0] == "reference")

    def _copies_of_group(
        self, node: Node, optional: bool = False, atomic: bool = False
    ) -> Iterator[tuple[Node, bool, bool]]:
        """Yield each copy of the group, whether a match may omit it, and whether it is in an atomic group."""
        if node[0] == "group" and node[1] == self.number:
            yield node, optional, atomic
            return
        if not self._contains_group(node):
            return
        if node[0] == "look":
            raise self._refusal("its group is in a look-around")
        if node[0] == "quantified":
            if node[3] != 1:
                raise self._refusal("its group is repeated")
            optional |= node[2] == 0
        optional |= node[0] in ("ordered", "cases")
        atomic |= _is_atomic(node)
        for part in _parts(node):
            yield from self._copies_of_group(part, optional, atomic)

    def _substitute(self, node: Node, text: str) -> list[Node]:
        """Return the node with this text for the group, once for each copy of the group that may participate."""
        if node[0] == "reference":
            return [node[2](text) if node[1] == self.number else node]
        if node[0] == "group" and node[1] == self.number:
            return [("literal", text)] if text in (_list_texts(node[2]) or ()) else []
        parts = _parts(node)
        if self._contains_group(node) and node[0] in ("ordered", "cases", "quantified"):
            return [
                text_of_part
                for part in parts
                if self._contains_group(part)
                for text_of_part in self._substitute(part, text)
            ]
        if not self._contains_group(node) and not self._refers(node):
            return [node]
        result: list[list[Node]] = [[]]
        for part in parts:
            result = [[*before, item] for before in result for item in self._substitute(part, text)]
        return [_with(node, items) for items in result]

    def _unset(self, node: Node, group: Node) -> Node:
        """Return the nodes where the group takes no part, and where it is this text."""
        if node[0] == "reference" and node[1] == self.number:
            return self.unset
        if node[0] == "group" and node[1] == self.number:
            return group
        if not self._contains_group(node) and not self._refers(node):
            return node
        return _with(node, [self._unset(part, group) for part in _parts(node)])


def _is_atomic(node: Node) -> bool:
    return bool(node[0] == "atomic" or (node[0] == "quantified" and node[4] == "+"))


def _list_texts(node: Node) -> list[str] | None:
    """All texts of a node; None if they are too many, or depend on what is around."""
    kind = node[0]
    texts: list[str] | None
    if kind == "literal":
        texts = [node[1]]
    elif kind == "literals":
        texts = list(node[1])
    elif kind == "empty":
        texts = []
    elif kind == "class":
        if sum(high - low + 1 for low, high in node[1]) > _MAX_TEXTS:
            return None
        texts = [chr(point) for low, high in node[1] for point in range(low, high + 1)]
    elif kind == "group":
        texts = _list_texts(node[2])
    elif kind in ("ordered", "cases"):
        parts = list(map(_list_texts, node[1]))
        texts = None if None in parts else [text for part in parts for text in part or ()]
    elif kind == "concat":
        texts = _concatenate(list(map(_list_texts, node[1])))
    elif kind == "quantified" and node[3] is not None and node[3] <= _MAX_TEXTS and node[4] != "+":
        inner = _list_texts(node[1])
        counts = [_concatenate([inner] * count) for count in range(node[2], node[3] + 1)]
        texts = None if None in counts else [text for count in counts for text in count or ()]
    else:
        return None
    if texts is None or len(texts) > _MAX_TEXTS or sum(map(len, texts)) > _MAX_CHARACTERS:
        return None
    return texts


def _concatenate(parts: Sequence[list[str] | None]) -> list[str] | None:
    texts = [""]
    for part in parts:
        if part is None or len(texts) * len(part) > _MAX_TEXTS:
            return None
        texts = [before + text for before in texts for text in part]
        if sum(map(len, texts)) > _MAX_CHARACTERS:
            return None
    return texts


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
    """Yield the node and all nodes in it, up to a limit."""
    pending = [] if tree is None else [tree]
    while pending and most:
        node = pending.pop()
        most -= 1
        yield node
        pending.extend(reversed(_parts(node)))


def _group(tree: Node, number: int) -> Node | None:
    return next((node for node in _nodes(tree) if node[0] == "group" and node[1] == number), None)


def _contains_others(tree: Node, number: int, numbers: Set[int]) -> bool:
    """Return whether a copy of the group contains groups with these numbers."""
    copies = (node for node in _nodes(tree) if node[0] == "group" and node[1] == number)
    return any(part[0] == "group" and part[1] in numbers for copy in copies for part in _nodes(copy[2]))
