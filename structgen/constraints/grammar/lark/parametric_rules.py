"""Rewrite rules with a parameter: the part of `dialect` that reads ``::`` and ``%if``.

Why: lark reads the rules as if they had no parameter. Conditions and references become declared names, and `parameters`
gives them their meaning when the grammar is loaded.
Invariant: a reference is a group of the rule followed by the instance. A condition is the last item of its alternative.
Cost: linear in the text.
"""

from __future__ import annotations

from abc import abstractmethod

from structgen.ir.grammar import Body

from .parameters import Parameters, uses_parameter
from .rewritten import Out, Rewritten
from .source import Piece, Source

__all__ = ["ParametricRules"]


class ParametricRules:
    """The methods of the rewriter for parameters; it reads `pieces` from `position` on."""

    source: Source
    pieces: list[Piece]
    position: int
    result: Rewritten
    parametric: frozenset[str]
    """The names of rules with a parameter, as the source spells them."""
    owner: Piece | None = None
    """The name of the rule with a parameter whose body is being read."""
    owner_uses: bool = False
    """Whether its body has used the parameter so far."""

    @property
    @abstractmethod
    def _now(self) -> Piece: ...

    @abstractmethod
    def _copy(self) -> Out: ...

    @abstractmethod
    def _next(self, start: int) -> Piece: ...

    @abstractmethod
    def _without_hyphens(self, name: str) -> str: ...

    @abstractmethod
    def _rule(self, wish: str, body: Body, offset: int) -> Out: ...

    def _parametric(self) -> frozenset[str]:
        """Return the names that are followed by ``::`` at the start of a statement."""
        names: set[str] = set()
        fresh = True
        for piece, after in zip(self.pieces, self.pieces[1:], strict=False):
            if fresh and piece.kind == "name" and after.text == "::":
                names.add(piece.text)
            if piece.kind == "newline":
                fresh = True
            elif piece.kind != "space" and piece.text not in ("?", "!", "%override", "%extend"):
                fresh = False
        return frozenset(names)

    def _parameter(self, name: Piece) -> None:
        """Read ``::_`` after the name of a rule in its definition."""
        sign = self._now
        self.position += 1
        if name.text.lstrip("_")[:1].isupper():
            hint = "Make it a rule (lower-case name)."
            self.source.fail("a terminal cannot have a parameter", sign.offset, 2, hint)
        if self._now.text != "_":
            hint = f"Write {name.text}::_ : ..."
            self.source.fail("the parameter of a rule must be written as _", self._now.offset, hint=hint)
        self.position += 1
        self.result.parametric.add(self._called(name.text))
        self.owner, self.owner_uses = name, False

    def _end_of_parametric(self) -> None:
        owner, self.owner = self.owner, None
        if owner is not None and not self.owner_uses:
            message = f"the rule {owner.text} does not use its parameter"
            self.source.fail(message, owner.offset, len(owner.text), "Remove the parameter.")

    def _called(self, name: str) -> str:
        return self._without_hyphens(name) if "-" in name else name

    def _marker(self, wish: str, body: Body, piece: Piece) -> Out:
        """Return the name that represents a condition or a reference in a rule."""
        if uses_parameter(body):
            self.owner_uses = True
            if self.owner is None:
                hint = "Define the rule with a parameter: name::_ : ..."
                message = "the rule around this has no parameter"
                self.source.fail(message, piece.offset, len(piece.text), hint)
        return self._rule(wish, body, piece.offset)

    def _use(self, terminal: bool) -> Out:
        """Rewrite ``name::expression``."""
        name = self._now
        if terminal:
            hint = "Use rules with parameters in rules (lower-case names)."
            self.source.fail("a terminal cannot contain a parameter", name.offset, len(name.text) + 2, hint)
        if name.text not in self.parametric:
            what = f"the rule {name.text} has no parameter"
            self.source.fail(what, name.offset, len(name.text), f"Define it with one: {name.text}::_ : ...")
        out = self._copy()
        reader = Parameters(self.source, self._now.offset + 2)
        body = ("instance", self._called(name.text), reader.expression())
        self._skip_to(reader.position)
        return [
            ("(", name.offset, False),
            *out,
            (" ", name.offset, False),
            *self._marker("instance_1", body, name),
            (")", name.offset, False),
        ]

    def _condition(self, terminal: bool) -> Out:
        """Rewrite ``%if condition`` at the end of an alternative."""
        piece = self._now
        if terminal:
            hint = "Use conditions in rules with a parameter (name::_ : ...)."
            self.source.fail("a terminal cannot contain '%if'", piece.offset, len(piece.text), hint)
        reader = Parameters(self.source, piece.offset + len(piece.text))
        body = ("condition", reader.condition())
        self._skip_to(reader.position)
        after = self._next(self.position)
        if after.kind != "newline" and after.text not in ("|", ")", "]"):
            hint = "Move the condition after the other items of the alternative."
            self.source.fail(
                "a condition must be last in its alternative", after.offset, len(after.text), hint
            )
        return self._marker("condition_1", body, piece)

    def _skip_to(self, offset: int) -> None:
        while self._now.offset < offset:
            self.position += 1
