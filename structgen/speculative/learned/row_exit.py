"""`RowExit`: the states of a model's first layers at the nodes of one row's draft, for drafters that exit early."""

from __future__ import annotations

from typing import TYPE_CHECKING

from structgen.errors import ModelError

from ..drafters import Context

if TYPE_CHECKING:
    import torch

    from structgen.protocols import EarlyExit

__all__ = ["RowExit"]

_MOST_UNREAD = 8
"""The largest number of tokens that the layers read for one node. After long forced texts nothing is drafted."""


class RowExit:
    """The first layers of the model, until the row's next forward pass."""

    def __init__(self) -> None:
        self._exit: EarlyExit | None = None
        self._layers = 0

    def clear(self) -> None:
        """Forget the draft. Call it when the row changes."""
        self._exit = None

    def states(self, context: Context, layers: int) -> torch.Tensor | None:
        """Return the states after the tokens that the model has not read, up to the node, ``[tokens, hidden]``.

        None if there are no such tokens, too many of them, or nothing is known of the row.

        Args:
            context: The node.
            layers: The number of layers that run.

        Raises:
            ModelError: The session has no early exits.
        """
        hidden = context.hidden
        if hidden is None or not hidden.count:
            return None
        tokens = context.tokens[hidden.count :]
        if not tokens:
            return None
        if self._exit is None or layers != self._layers:
            self._exit, self._layers = hidden.early_exit(layers), layers
            if self._exit is None:
                raise ModelError(
                    "the first layers of this model cannot run alone with its KV cache",
                    hint="Early exits need a transformers model such as Llama's or Qwen's, without sliding windows.",
                )
        if self._exit.unread(tokens) > _MOST_UNREAD:
            return None
        states: torch.Tensor = self._exit.states(tokens)
        return states
