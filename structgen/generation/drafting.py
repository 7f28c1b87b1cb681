"""The interface between generation or samplers on one side and drafters on the other: draft tokens, and hooks.

`Drafting` serves the rows of a generation, `PrefixDrafting` samplers that request distributions after prefixes.
Invariant: drafts change the time that a text takes, and not its distribution, unless `Drafting.is_lossy`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from structgen.protocols import EarlyExit, Session, capabilities_of

from .distributions import StepDistribution
from .row import Row

__all__ = [
    "NO_DRAFT",
    "ROOT",
    "DraftedTokens",
    "Drafting",
    "PrefixDrafting",
    "PrefixQuery",
    "Probed",
    "RowStates",
]

ROOT = -1
"""The parent of the first nodes of a draft tree: the end of the row."""


@dataclass(frozen=True, slots=True)
class RowStates:
    """The hidden states of one row, after the tokens that the model has read."""

    states: Any
    """A tensor, ``[tokens, layers, hidden size]``, from the first token of the prompt on, as `Session.hidden_states`
    returns it. It is read-only, and valid until the session keeps the path, or reads the row again."""
    layers: tuple[int, ...]
    """The layers."""
    read: int
    """The number of tokens whose states are used."""
    path: tuple[int, ...] = ()
    """The accepted nodes of the draft that was read after these tokens. In `states` all nodes follow the tokens."""
    session: Session | None = None
    """The session, if it does not change before the next draft is found."""
    row: int = 0
    """The number of the row in the session."""

    @classmethod
    def of(cls, session: Session, row: int, layers: Sequence[int], count: int) -> RowStates:
        """Return those of a row of a session that keeps `layers`, after its first `count` tokens."""
        return cls(session.hidden_states(row), tuple(layers), count, session=session, row=row)

    @property
    def count(self) -> int:
        """The number of tokens, accepted nodes included."""
        return self.read + len(self.path)

    def since(self, start: int, layers: Sequence[int]) -> Any:
        """Return the states after the tokens from number `start` on, a tensor ``[tokens, layers, hidden size]``.

        Args:
            start: The number of the first token.
            layers: Some of `self.layers`.
        """
        if all(node == place for place, node in enumerate(self.path)):
            states = self.states[start : self.count]
        else:
            nodes = self.path[max(0, start - self.read) :]
            states = self.states[[*range(start, self.read), *(self.read + node for node in nodes)]]
        if tuple(layers) == self.layers:
            return states
        return states[:, [self.layers.index(layer) for layer in layers]]

    def early_exit(self, layers: int) -> EarlyExit | None:
        """Return the first `layers` layers of the model, for the tokens after the first `count` ones.

        None if the session has no such thing (`SessionCapabilities.exits`), or may change meanwhile, as in a running
        batch. It is valid until the next forward pass.
        """
        if self.session is None or not capabilities_of(self.session).exits:
            return None
        return self.session.early_exit(self.row, self.count, layers)


@dataclass(frozen=True, slots=True)
class Probed:
    """What the model gives after embeddings that it read after a row and did not keep."""

    count: int
    """The number of tokens before them, prompt included."""
    logits: Any
    """The logits after each embedding, an array ``[embeddings, vocabulary.size]``."""


class DraftedTokens(Protocol):
    """A draft tree: tokens that may be drawn next, and tokens that may follow those."""

    @property
    def tokens(self) -> list[int]:
        """The token of each node."""
        ...

    @property
    def parents(self) -> list[int]:
        """The parent of each node, an earlier node; `ROOT` for the first ones."""
        ...

    @property
    def padding(self) -> int:
        """How many of the last nodes are padding, which makes the forward pass faster, and no drafts."""
        ...

    @property
    def probes(self) -> Sequence[int]:
        """The nodes, or `ROOT`, after which `Drafting.probe_embeddings` are read."""
        ...

    @property
    def is_chain(self) -> bool:
        """Whether each node has at most one child, the next node."""
        ...

    def __len__(self) -> int: ...

    def path(self, tokens: Sequence[int]) -> list[int]:
        """Return the nodes along `tokens`, as far as the tree has them."""
        ...


class Drafting(Protocol):
    """Proposes draft tokens for rows. The hooks report what became of them."""

    hidden_layers: tuple[int, ...]
    """The layers whose hidden states `propose` needs, as in `HiddenStatesModel.start_with_hidden_states`."""

    wants_logits: bool
    """Whether `on_logits` is called."""

    wants_masks: bool
    """Whether `on_mask` is called."""

    replaces_draws: bool
    """Whether `draw` may replace the plain sampler's draw."""

    is_lossy: bool
    """Whether `draw` changes the distribution of the text."""

    wants_states: bool
    """Whether `on_states` is called. Then all trees are chains without `DraftedTokens.probes`."""

    probe_embeddings: Any
    """Embeddings that the model reads after `DraftedTokens.probes`, a torch tensor ``[embeddings, hidden size]``."""

    def propose(
        self,
        rows: Sequence[Row],
        hidden: Sequence[RowStates] | None = None,
        *,
        trees: bool,
        pads: bool = False,
        probes: bool = False,
    ) -> Sequence[DraftedTokens]:
        """Return a draft tree for each row, no deeper than the row has room for, and without end-of-sequence tokens.

        Args:
            rows: The rows of the next forward pass.
            hidden: The hidden states of each row; None if the session keeps none.
            trees: Whether the session reads trees; otherwise chains are returned.
            pads: Whether the session takes padding.
            probes: Whether the session reads embeddings.
        """
        ...

    def grow(self, row: Row, hidden: RowStates | None = None, *, trees: bool) -> None:
        """Find draft tokens for a row whose token was just drawn, for the next `choose`.

        Rows of a running batch call it on the threads that draw, several at a time.

        Args:
            row: The row.
            hidden: Its hidden states; None if the session keeps none.
            trees: Whether the session reads trees; otherwise chains are returned.
        """
        ...

    def choose(
        self, rows: Sequence[Row], pending: Sequence[int], *, rows_in_pass: int, pads: bool = False
    ) -> Sequence[DraftedTokens]:
        """Return what the next forward pass reads of the drafts that `grow` found.

        Args:
            rows: The rows that may read draft tokens in the pass.
            pending: The number of tokens that each of them reads anyway. A row that has more reads no draft.
            rows_in_pass: The number of rows of the pass, those without tokens included.
            pads: Whether the session takes padding.
        """
        ...

    def draw(self, row: Row, node: int, distribution: StepDistribution, uniform: float) -> int | None:
        """Draw the token after a node (or `ROOT`) from `distribution`; None leaves the draw to the plain sampler."""
        ...

    def on_mask(self, row: Row, allowed: NDArray[np.int64]) -> None:
        """Called before a token of a row is drawn under a constraint. Not for forced tokens, which need no draw.

        Rows of a running batch call it on the threads that draw, several at a time.

        Args:
            row: The row.
            allowed: The tokens that may come next, increasing.
        """
        ...

    def on_token(self, row: Row, node: int, token: int) -> None:
        """Called after `token` was drawn at `node`."""
        ...

    def on_logits(self, row: Row, tree: Any, logits: Any) -> None:
        """Called with the logits after the row's last token and after each node, ``[1 + nodes, vocabulary.size]``."""
        ...

    def on_states(self, row: Row, states: Any) -> None:
        """Called with the hidden states after each node, a tensor ``[nodes, layers, hidden size]``, before draws.

        None if the session keeps none.
        """
        ...

    def on_probed(self, row: Row, logits: Any) -> None:
        """Called with the logits after the embeddings at the end of what was accepted, ``[embeddings, size]``."""
        ...

    def on_step(self, row: Row, drafted: int, accepted: int) -> None:
        """Called after each step of a row with the numbers of drafted and of accepted tokens."""
        ...

    def on_pass(self, rows: int, tokens: int, seconds: float) -> None:
        """Called after each forward pass; `tokens` is the number of tokens of the longest row."""
        ...

    def on_unsupported(self) -> None:
        """Called once if the session cannot be cropped cheaply; no drafts follow."""
        ...

    def on_end(self, row: Row) -> None:
        """Called when the row has ended."""
        ...


@dataclass(frozen=True, slots=True)
class PrefixQuery:
    """A prefix whose distribution a sampler requests, and the state of the session's row that reads it."""

    row: int
    prefix: tuple[int, ...]
    """Tokens after the prompt."""
    matcher: Any
    """The matcher after the prefix. Anyone who advances it must roll it back."""
    pending: int
    """The number of tokens that the row has to read to reach the prefix."""
    held: tuple[int, ...] = ()
    """The tokens that the row holds after the prefix, if it holds the prefix."""
    is_known: bool = False
    """Whether the logits after the prefix are known, so that the row need not read."""


class PrefixDrafting(Protocol):
    """Proposes draft tokens after prefixes, for samplers. The hooks report what became of them."""

    def propose(
        self, queries: Sequence[PrefixQuery], rows: int, *, pads: bool = False
    ) -> Sequence[Sequence[int]]:
        """Return the draft tokens to read after each prefix in the next forward pass.

        No draft contains an end-of-sequence token or exceeds the room of its text.

        Args:
            queries: One for each row that takes part.
            rows: The number of rows of the pass.
            pads: Whether the session takes padding.
        """
        ...

    def on_request(self, prefixes: Collection[tuple[int, ...]], used: int) -> None:
        """Called with all prefixes of a request; `used` of them were read as drafts and are first used now."""
        ...

    def on_pass(self, rows: int, tokens: int, seconds: float) -> None:
        """Called after each forward pass; `tokens` is the number of tokens of the longest row."""
        ...

    def on_unsupported(self) -> None:
        """Called once if the session cannot be cropped cheaply; no drafts follow."""
        ...

    def on_end(self, tokens: Sequence[int]) -> None:
        """Called when a text has been drawn."""
        ...

    def close(self) -> None:
        """Called when the sampler has ended."""
        ...


class NoDraft:
    """The empty draft tree."""

    tokens: ClassVar[list[int]] = []
    parents: ClassVar[list[int]] = []
    probes: ClassVar[list[int]] = []
    is_chain = True
    padding = 0

    def __len__(self) -> int:
        return 0

    def path(self, tokens: Sequence[int]) -> list[int]:
        """Empty."""
        return []


NO_DRAFT = NoDraft()
