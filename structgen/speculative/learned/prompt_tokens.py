"""`PromptTokens`: trained embeddings after the last token, at which the model itself predicts tokens further ahead.

What: in the pass that verifies a draft, the model also reads a few embeddings after the row and after the nodes where
the draft most probably ends. The logits after embedding k, in place of the tokens not yet known, stand for those k
tokens further. Nothing of them is kept.
Invariant: the text does not depend on the embeddings: no token of the row sees them.
Cost: ``ends x count`` more positions in each pass. There are no other weights than the embeddings.
Source: Chen et al. 2024 (Parallel Prompt Decoding, PPD).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from structgen.errors import OptionError

from ..checks import check_whole
from ..drafters import Context
from .fitting import Fitted
from .learned_drafter import LearnedDrafter, LearnedRow
from .size_checks import check_sizes
from .trimmed_head import Scores
from .weights import DraftWeights

__all__ = ["PromptTokenSizes", "PromptTokens", "PromptTokensNetwork"]

_MOST_EMBEDDINGS = 256


@dataclass(frozen=True)
class PromptTokenSizes:
    """What determines the shapes of the embeddings."""

    hidden: int
    """The width of the model's embeddings."""
    count: int
    """The number of embeddings."""

    def __post_init__(self) -> None:
        check_sizes(hidden=self.hidden)
        check_sizes(1, _MOST_EMBEDDINGS, count=self.count)

    @property
    def hidden_layers(self) -> tuple[int, ...]:
        """Empty: no hidden states are read."""
        return ()

    def as_dict(self) -> dict[str, Any]:
        """Return the sizes as JSON values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, given: dict[str, Any]) -> PromptTokenSizes:
        """Return the sizes that `as_dict` returned."""
        return cls(**given)


class PromptTokensNetwork(nn.Module):
    """The embeddings, which a training starts from ``start``, such as the mean of the model's own ones."""

    def __init__(self, sizes: PromptTokenSizes, start: torch.Tensor | None = None) -> None:
        super().__init__()
        zeros = torch.zeros(sizes.count, sizes.hidden)
        self.embeddings = nn.Parameter(zeros if start is None else zeros + start.detach().float().cpu())


class PromptTokens(LearnedDrafter[PromptTokensNetwork]):
    """Drafts with trained embeddings that the model reads after the text.

    A draft has no more tokens than the weights have embeddings.

    Args:
        weights: Weights of such a drafter, or the path of their file.
        ends: After how many nodes of a draft, the end of the row included, the embeddings are read.
        options: Those of `LearnedDrafter`, without `acceptance`.
    """

    kind = "prompt-tokens"
    grows_without_lock = True
    computes_in_half = False  # the model reads its embeddings
    sizes: PromptTokenSizes
    usual_least = 0.0
    drafts_in_batches = False

    def __init__(self, weights: DraftWeights | str | Path, *, ends: int = 2, **options: Any) -> None:
        if options.pop("acceptance", None) is not None:
            raise OptionError("an acceptance head reads a drafter's states, and prompt tokens have none")
        super().__init__(weights, **options)
        check_whole("ends", ends)
        self.probe_ends = ends

    def probe_embeddings(self, model: Any) -> torch.Tensor:
        """See `Drafter`."""
        return self.prepare(model).network.embeddings

    def _sizes_from(self, given: dict[str, Any]) -> PromptTokenSizes:
        return PromptTokenSizes.from_dict(given)

    def new_network(self) -> PromptTokensNetwork:
        """See `LearnedDrafter`."""
        return PromptTokensNetwork(self.sizes)

    def _row(self, fitted: Fitted[PromptTokensNetwork], temperature: float) -> _PromptTokensRow:
        return _PromptTokensRow(fitted.head, self, temperature)


class _PromptTokensRow(LearnedRow):
    """The drafter of one row; it has no state of its own."""

    def observe(self, tokens: Sequence[int], start: int) -> None:
        """Do nothing: the logits name the number of tokens before them."""

    def _scores(self, context: Context) -> Scores | None:
        probed = context.probed
        if probed is None:
            return None
        after = len(context.tokens) - probed.count
        if not 0 < after <= len(probed.logits):
            return None
        return Scores(probed.logits[after - 1][self._head.token_ids])
