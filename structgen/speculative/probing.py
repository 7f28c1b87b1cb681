"""`Probing`: the embeddings that a drafter lets the model read in the verifying pass, and after how many nodes.

Why: the model itself predicts several tokens ahead if trained embeddings stand for the tokens between. They ride along
in the pass that verifies the draft anyway, and nothing of them is kept.
Cost: ``ends x embeddings`` more positions in each pass. Their drafter is charged for the time.
Source: Chen et al. 2024 (Parallel Prompt Decoding, PPD).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from structgen.errors import OptionError

if TYPE_CHECKING:
    from structgen.protocols import LanguageModel

    from .drafters import Drafter

__all__ = ["Probing"]


@dataclass(frozen=True)
class Probing:
    """What one of the drafters lets the model read."""

    index: int
    """The number of the drafter."""
    embeddings: Any
    """A torch tensor ``[embeddings, hidden size]``."""
    ends: int
    """After how many nodes of a draft, the end of the row included, they are read."""

    @classmethod
    def of(cls, drafters: Sequence[Drafter], model: LanguageModel) -> Probing | None:
        """Return what a drafter lets the model read; None if there is no such drafter.

        Raises:
            OptionError: There are several.
        """
        found = [index for index, drafter in enumerate(drafters) if hasattr(drafter, "probe_embeddings")]
        if len(found) > 1:
            raise OptionError(
                f"{len(found)} drafters have embeddings that the model reads; a pass has room for those of one",
                hint="Leave out all but one of them.",
            )
        if not found:
            return None
        drafter: Any = drafters[found[0]]
        return cls(found[0], drafter.probe_embeddings(model), drafter.probe_ends)
