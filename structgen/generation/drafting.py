"""What generation and samplers ask of drafts: tokens to read ahead, and somebody to be told what became of them.

`Drafting` is for the rows of a generation, `ReadingAhead` for samplers that ask for laws after prefixes (`ahead`).
Invariant: drafts change the time that a text takes, and not its law.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from .distributions import StepLaw
from .row import Row

__all__ = ["NOTHING", "ROOT", "DraftedTokens", "Drafting", "Place", "ReadingAhead"]

ROOT = -1
"""Where a draft begins: behind the tokens that a row has."""


class DraftedTokens(Protocol):
    """Tokens that may be drawn next, and after those: a tree whose first nodes stand behind `ROOT`."""

    @property
    def tokens(self) -> list[int]:
        """The token of each node."""
        ...

    @property
    def parents(self) -> list[int]:
        """The node that each stands behind, itself before it; `ROOT` for the first ones."""
        ...

    @property
    def padding(self) -> int:
        """How many of the last nodes are no guesses, and are read because the pass takes less time with them."""
        ...

    @property
    def is_chain(self) -> bool:
        """Whether each node but the last has the next as its only child."""
        ...

    def __len__(self) -> int: ...

    def path(self, tokens: Sequence[int]) -> list[int]:
        """The nodes that `tokens` go through, as far as there are some."""
        ...


class Drafting(Protocol):
    """Proposes what rows may go on with, and is told what became of it."""

    reads_hidden: bool
    """Whether it wants the model's hidden states."""

    learns: bool
    """Whether it wants to be told what the model says (`read`)."""

    verifies: bool
    """Whether `draw` draws otherwise than the plain sampler does."""

    def propose(
        self, rows: Sequence[Row], hidden: Sequence[Any] | None = None, *, trees: bool, pads: bool = False
    ) -> Sequence[DraftedTokens]:
        """A tree for each row, no deeper than it has room for and without tokens that end the text.

        `trees`: whether the model can read others than chains; `pads`: whether it reads what no text goes on with.
        """
        ...

    def draw(self, row: Row, node: int, law: StepLaw, uniform: float) -> int | None:
        """The token that follows the node (or `ROOT`), drawn from `law`; None: it is drawn as always."""
        ...

    def drawn(self, row: Row, node: int, token: int) -> None:
        """This token did."""
        ...

    def read(self, row: Row, tree: Any, logits: Any) -> None:
        """Behind the row's last token and behind each node the model has told these logits, ``[1 + nodes, size]``."""
        ...

    def went(self, row: Row, drafted: int, taken: int) -> None:
        """Of so many tokens that were guessed for the row so many were drawn."""
        ...

    def passed(self, rows: int, tokens: int, seconds: float) -> None:
        """A pass in which the longest row read so many tokens took so long."""
        ...

    def declined(self) -> None:
        """The model cannot take tokens back, so that none are read ahead."""
        ...

    def ended(self, row: Row) -> None:
        """The row has ended."""
        ...


@dataclass(frozen=True, slots=True)
class Place:
    """A prefix whose law a sampler asks for, and what a row of the session holds of it."""

    row: int
    prefix: tuple[int, ...]
    """Tokens after the prompt."""
    matcher: Any
    """The constraint there; whoever advances it takes the tokens back."""
    pending: int
    """Tokens that the row would have to read to be there."""
    held: tuple[int, ...] = ()
    """Tokens that it has read behind the prefix, if it is there."""
    is_known: bool = False
    """Whether the law there is known already, so that the row need not read."""


class ReadingAhead(Protocol):
    """Proposes what rows read ahead, for samplers that ask for laws, and is told what became of it."""

    def propose(self, places: Sequence[Place], rows: int, *, pads: bool = False) -> Sequence[Sequence[int]]:
        """For each place the tokens that are read behind its prefix in the next pass of `rows` rows.

        None of them ends the text or is more than it may have. `pads`: whether the model reads what no text goes on
        with.
        """
        ...

    def asked(self, prefixes: Collection[tuple[int, ...]], used: int) -> None:
        """The laws after these are asked for, together; so many were read ahead and had not been asked for yet."""
        ...

    def passed(self, rows: int, tokens: int, seconds: float) -> None:
        """A pass in which the longest row read so many tokens took so long."""
        ...

    def declined(self) -> None:
        """The model cannot take tokens back, so that none are read ahead."""
        ...

    def ended(self, tokens: Sequence[int]) -> None:
        """A text was drawn, of these tokens."""
        ...

    def close(self) -> None:
        """The sampling has ended."""
        ...


class Nothing:
    """No draft."""

    tokens: ClassVar[list[int]] = []
    parents: ClassVar[list[int]] = []
    is_chain = True
    padding = 0

    def __len__(self) -> int:
        return 0

    def path(self, tokens: Sequence[int]) -> list[int]:
        """Empty."""
        return []


NOTHING = Nothing()
