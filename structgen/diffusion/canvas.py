"""Texts with holes: which tokens can stand in each cell such that the whole can still be completed.

Why: diffusion models fill cells in any order, and editors have text on both sides of a hole. A mask that depends on the
left context alone leads to dead ends.
What: a canvas is a row of cells: fixed tokens, cells that hold one token each, and gaps that hold any number. The core
parses a grammar on the graph of cells (`canvas.h`), so one chart gives the masks of all cells.
Invariant: a token is in the mask of a cell iff the canvas with it can be completed. Masks only shrink.
Cost: see docs/diffusion.md.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from structgen import _core
from structgen.constraints.as_grammar import Note, as_grammar, notes_of
from structgen.constraints.base import Constraint, constraint_of
from structgen.constraints.failures import translate_limits
from structgen.errors import CombinationError, OptionError, with_kind
from structgen.generation.distributions import allowed_ids
from structgen.matcher import compile_constraint
from structgen.vocabulary import Vocabulary

__all__ = ["GAP", "Canvas", "Gap", "Hole", "Piece"]

_MAX_PROGRAMS = 16


class _Known(NamedTuple):
    program: _core.CanvasProgram
    notes: tuple[Note, ...]


_programs: weakref.WeakKeyDictionary[Vocabulary, OrderedDict[Constraint, _Known]] = (
    weakref.WeakKeyDictionary()
)
_OPEN, _GAP = -1, -2
_NODES, _BYTES = 20_000, 1 << 30
_MOST_CELLS = 20_000


@dataclass(frozen=True)
class Hole:
    """Cells that hold one token each.

    Args:
        least: The number of cells, or the smallest one.
        most: The largest number of cells, if it varies.

    Raises:
        OptionError: A number is not valid.
    """

    least: int
    most: int | None = None

    def __post_init__(self) -> None:
        for name, value in (("least", self.least), ("most", self.last)):
            known = isinstance(value, int | np.integer) and not isinstance(value, bool)
            if not known or not 0 <= value <= _MOST_CELLS:
                raise OptionError(
                    f"{name} of a hole is {value!r:.40}; it must be a whole number up to {_MOST_CELLS}"
                )
        if self.last < self.least:
            raise OptionError(f"the bounds of a hole are reversed: {self.least} to {self.last} cells")

    @property
    def last(self) -> int:
        """The largest number of cells."""
        return self.least if self.most is None else self.most


class Gap:
    """Any number of tokens. Use the instance `GAP`."""

    def __repr__(self) -> str:
        return "GAP"


GAP = Gap()
Piece = int | str | bytes | Hole | Gap
"""A fixed token, a text, a hole or a gap."""


_limited = translate_limits("Make the canvas smaller, or fix more of it.")


class Canvas:
    """A text with holes.

        canvas = Canvas(sg.json_schema(schema), model.vocabulary, ['{"name": "', Hole(4), '"}'])

    Args:
        constraint: The constraint of the whole text: a regular expression, a choice, a JSON Schema, or a grammar
            (without a contextual lexer; one that reads indentation by its `indented_by`).
        vocabulary: The vocabulary.
        pieces: Token ids, texts (which are tokenized), `Hole` and `GAP`.
        closing: Tokens that may fill all cells after the text, such as the end of sequence and padding of a diffusion
            model.

    Raises:
        CombinationError: The constraint cannot be put on a canvas.
        LimitExceeded: The canvas has too many positions at which terminals may start (`canvas_nodes`), or its chart is
            too large (`canvas_bytes`) or takes too much work (`canvas_words`).
        OptionError: An argument is not valid.
    """

    __slots__ = (
        "_filled",
        "_native",
        "_optional",
        "cells",
        "closing",
        "constraint",
        "is_exact",
        "notes",
        "vocabulary",
    )

    constraint: Constraint
    vocabulary: Vocabulary
    cells: tuple[slice, ...]
    """The cells of each piece."""
    closing: tuple[int, ...]
    notes: tuple[Note, ...]
    """For a JSON Schema: where its grammar is not exact; empty if it is."""
    is_exact: bool
    """Whether every text that fits fills all cells."""

    def __init__(
        self,
        constraint: object,
        vocabulary: Vocabulary,
        pieces: Iterable[Piece],
        *,
        closing: Iterable[int] = (),
    ) -> None:
        if isinstance(constraint, str):
            raise OptionError(
                f"constraint is {with_kind(constraint)}, not a constraint",
                hint=f"sg.grammar({constraint!r:.40})",
            )
        self.constraint = constraint_of(constraint)
        self.vocabulary = vocabulary
        self.closing = tuple(closing)
        for token in self.closing:
            if (
                isinstance(token, bool)
                or not isinstance(token, int | np.integer)
                or not 0 <= token < vocabulary.size
            ):
                raise OptionError(f"{token!r:.40} in closing is not a token; there are {vocabulary.size}")
        if not isinstance(pieces, Iterable) or isinstance(pieces, str | bytes):
            raise OptionError(f"pieces is {with_kind(pieces)}; give a list of tokens, texts, holes and gaps")
        filled: list[int] = []
        skips: list[tuple[int, int]] = []
        cells = []
        for piece in pieces:
            start = len(filled)
            filled += _read(piece, vocabulary)
            if isinstance(piece, Hole):
                skips += [(index, len(filled)) for index in range(start + piece.least, len(filled))]
            cells.append(slice(start, len(filled)))
        if len(filled) > _MOST_CELLS:
            raise OptionError(f"the canvas has {len(filled)} cells; at most {_MOST_CELLS} are allowed")
        self.cells = tuple(cells)
        self._filled = filled
        self.is_exact = not skips and _GAP not in filled
        program, self.notes = _program(self.constraint, vocabulary)
        self._optional = (
            [any(start <= cell < end for start, end in skips) for cell in range(len(filled))] if skips else []
        )
        self._native = _core.Canvas(program, filled, skips, list(self.closing), nodes=_NODES, bytes=_BYTES)

    def __len__(self) -> int:
        return len(self._filled)

    @property
    def tokens(self) -> list[int | None]:
        """The token of each cell; None if it is open."""
        return [None if token < 0 else token for token in self._filled]

    def is_open(self, cell: int) -> bool:
        """Return whether the cell has no token yet."""
        return self._filled[self._cell(cell)] < 0

    @property
    def open_cells(self) -> list[int]:
        """The cells without a token, gaps excluded."""
        return [cell for cell, token in enumerate(self._filled) if token == _OPEN]

    # -- queries

    @_limited
    def completable(self) -> bool:
        """Return whether there is a text that agrees with all fixed cells."""
        return self._native.completable()

    @_limited
    def mask(self, cell: int) -> NDArray[np.int32]:
        """Return the tokens that may stand in a cell, int32 ``[vocabulary.words]``, least significant bit first."""
        out = np.zeros(self.vocabulary.words, dtype=np.int32)
        self._native.mask(self._cell(cell), out)
        return out

    @_limited
    def masks(self) -> NDArray[np.int32]:
        """Return the masks of all cells, int32 ``[cells, vocabulary.words]``."""
        out = np.zeros((len(self), self.vocabulary.words), dtype=np.int32)
        self._native.masks(out)
        return out

    def allowed(self, cell: int) -> NDArray[np.int64]:
        """Return the ids that may stand in a cell, increasing."""
        return allowed_ids(self.mask(cell), self.vocabulary.size)

    @_limited
    def completion(self, preferred: Sequence[int] = ()) -> list[int | None] | None:
        """Return the token of each cell in some completion; None for a cell that stays empty.

        Args:
            preferred: Tokens by cell, which the completion uses where that is easy.

        Returns:
            None if there is no completion, or if a gap is open.
        """
        tokens = self._native.completion(list(preferred))
        if tokens is None:
            return None
        filled: list[int | None] = [None if token < 0 else token for token in tokens]
        for cell, token in enumerate(filled):
            if token is None and not (self._optional and self._optional[cell]):
                filled[cell] = next((end for end in self.closing if end in self.allowed(cell)), None)
        return filled

    def prefer(self, tokens: Sequence[int]) -> None:
        """Set the tokens, by cell, that are likely to be committed.

        Such commits become faster, and nothing else changes: the cached completion agrees with as many of them as is
        easy.
        """
        self._native.prefer(list(tokens))

    @_limited
    def best(self, log_p: NDArray[np.float32]) -> tuple[list[int | None], float] | None:
        """Return the most probable completion under independent cells, and the log of its probability.

        Args:
            log_p: Log probabilities, float32 ``[cells, vocabulary.size]``; those of fixed cells are ignored.

        Returns:
            None if there is no completion.

        Raises:
            OptionError: The canvas has a gap.
        """
        self._check_weighable()
        best = self._native.best(_weights(log_p))
        return None if best is None else ([None if token < 0 else token for token in best[0]], best[1])

    @_limited
    def draw(self, log_p: NDArray[np.float32], seed: int) -> tuple[list[int | None], float] | None:
        """Draw a completion in proportion to its probability; also return the log of the sum over all derivations.

        The draw is exact. If a grammar has n derivations of a text, the text is accepted with probability 1 / n.

        Args:
            log_p: As in `best`.
            seed: The seed of the draw.

        Raises:
            LimitExceeded: A thousand draws were rejected.
            OptionError: The canvas has a gap.
        """
        self._check_weighable()
        _check_number("seed", seed, 1 << 64)
        drawn = self._native.draw(_weights(log_p), seed)
        return None if drawn is None else ([None if token < 0 else token for token in drawn[0]], drawn[1])

    # -- filling

    @_limited
    def commit(self, cell: int, token: int) -> bool:
        """Put a token into an open cell; return False, and change nothing, if no completion would remain."""
        _check_number("token", token, self.vocabulary.size)
        if self._filled[self._cell(cell)] == _GAP:
            raise OptionError(
                f"cell {cell} is a gap, which holds any number of tokens",
                hint="Make a canvas with the token and a GAP on either side.",
            )
        if not self._native.commit(cell, token):
            return False
        self._filled[cell] = token
        return True

    def reopen(self, cell: int) -> None:
        """Remove the token of a cell, also one that the canvas was made with; do nothing if it has none."""
        self._native.reopen(self._cell(cell))
        if self._filled[cell] >= 0:
            self._filled[cell] = _OPEN

    def fork(self) -> Canvas:
        """Return an independent copy."""
        other = object.__new__(Canvas)
        other.constraint, other.vocabulary, other.cells = self.constraint, self.vocabulary, self.cells
        other.notes, other._optional = self.notes, self._optional
        other.closing, other.is_exact, other._filled = self.closing, self.is_exact, list(self._filled)
        other._native = self._native.copy()
        return other

    def text(self, hole: str = "░") -> str:
        """Return the text so far, with a mark for each open cell."""
        parts = [
            "".join(group) if isinstance(group, list) else bytes(group).decode("utf-8", "replace")
            for group in self._groups(hole)
        ]
        return "".join(parts)

    def _groups(self, hole: str) -> list[Any]:
        groups: list[Any] = [bytearray()]
        for token in self._filled:
            if token < 0:
                groups += [[hole if token == _OPEN else "…"], bytearray()]
            elif token not in self.closing:
                groups[-1] += self.vocabulary.token_bytes(token) or b""
        return groups

    def check(self) -> None:
        """Raise `CanvasInfeasible`, which explains why, if there is no completion."""
        if not self.completable():
            from .blame import blame

            raise blame(self)

    def __repr__(self) -> str:
        return f"<canvas of {len(self)} cells, {len(self.open_cells)} open: {self.text()!r:.60}>"

    @property
    def size(self) -> dict[str, int]:
        """The number of positions at which terminals may start, and the number of charts made so far."""
        return {"nodes": self._native.nodes, "charts": self._native.charts}

    def _cell(self, cell: int) -> int:
        _check_number("cell", cell, len(self))
        return cell

    def _check_weighable(self) -> None:
        if _GAP in self._filled:
            raise OptionError(
                "a canvas with a gap has no most likely completion",
                hint="Use Hole(least, most) instead of GAP.",
            )


def _program(constraint: Constraint, vocabulary: Vocabulary) -> _Known:
    """Return what all canvases of a constraint share, from a bounded cache."""
    known = _programs.setdefault(vocabulary, OrderedDict())
    found = known.get(constraint)
    if found is None:
        # For an unsatisfiable schema, its own error is better than any that a canvas could raise.
        compiled = compile_constraint(constraint, vocabulary)
        texts = as_grammar(constraint)
        if texts is not constraint:
            compiled = vocabulary.engine.compile(texts.lower())
        try:
            found = known[constraint] = _Known(_core.CanvasProgram(compiled), notes_of(texts))
        except ValueError as error:
            raise CombinationError(
                f"{error} cannot be put on a canvas: {constraint.describe():.80}",
                hint="Grammars without a contextual lexer, indentation and other constraints in them can, most "
                "JSON Schemas, and all regular constraints. For others sg.infill fills templates from left to right.",
            ) from None
        if len(known) > _MAX_PROGRAMS:
            known.popitem(last=False)
    known.move_to_end(constraint)
    return found


def _read(piece: object, vocabulary: Vocabulary) -> list[int]:
    if isinstance(piece, Hole):
        return [_OPEN] * piece.last
    if isinstance(piece, Gap):
        return [_GAP]
    if isinstance(piece, str | bytes):
        data = piece.encode() if isinstance(piece, str) else piece
        tokens = vocabulary.encode(piece) or vocabulary.native.fewest_tokens(data)
        if tokens is None:
            raise OptionError(f"the tokenizer cannot spell {piece!r:.60}")
        return list(tokens)
    if isinstance(piece, int | np.integer) and not isinstance(piece, bool):
        if not 0 <= piece < vocabulary.size:
            raise OptionError(f"{piece} is not a token; there are {vocabulary.size}")
        return [int(piece)]
    raise OptionError(
        f"a canvas is made of tokens, texts, Hole(...) and GAP, not of {with_kind(piece)}",
        hint="For example: ['{\"name\": \"', Hole(4), '\"}'].",
    )


def _check_number(name: str, value: object, end: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not 0 <= value < end:
        raise OptionError(f"{name} is {value!r:.40}; it must be a whole number from 0 to {end - 1}")


def _weights(log_p: NDArray[np.float32]) -> NDArray[np.float32]:
    weights = np.ascontiguousarray(log_p, dtype=np.float32)
    if np.isnan(weights).any() or np.isposinf(weights).any():
        raise OptionError("log_p has entries that are not log probabilities (nan or inf)")
    return weights
