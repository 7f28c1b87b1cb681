"""VocabTrim: let a drafter propose only the tokens that texts have most often.

Why: the output layer is often the larger part of a drafter's work, and most tokens never come.
What: the drafter's weights do not change, since it scores tokens with the model's own output rows. If it has output
rows of its own, those of the other tokens are left out. Verification does not change, so texts stay the same.
Source: Goel et al. 2025 (VocabTrim).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from structgen.errors import OptionError
from structgen.speculative.checks import check_whole
from structgen.speculative.learned import DraftWeights
from structgen.speculative.trimmed_vocabulary import most_frequent

from .texts import Text

__all__ = ["check_trimming", "trimmed"]


def check_trimming(texts: Sequence[Text], most: int) -> None:
    """Check what `trimmed` is given, as far as that needs no weights.

    Raises:
        OptionError: The number of tokens is not one, or there are no answers.
    """
    check_whole("drafted_tokens", most, high=10_000_000)
    if not any(text.answer for text in texts):
        raise OptionError(
            "there is no text with an answer",
            hint="Give texts that `structgen draft train` has collected with this model.",
        )


def trimmed(weights: DraftWeights, texts: Sequence[Text], most: int) -> DraftWeights:
    """Return the weights with the `most` tokens that answers have most often, of those that they list.

    Notes on where the weights came from stay.

    Raises:
        OptionError: There are no answers, or they have none of the tokens that the weights list.
    """
    check_trimming(texts, most)
    answers = np.array([token for text in texts for token in text.answer], dtype=np.int64)
    counts = np.bincount(answers[np.isin(answers, weights.token_ids)])
    ids = most_frequent(counts, most)
    if not len(ids):
        raise OptionError(
            "the texts have none of the tokens that the drafter may propose",
            hint="Give texts that `structgen draft train` has collected with this model.",
        )
    if not weights.sizes.get("output_rows"):
        return replace(weights, token_ids=ids)
    rows = torch.from_numpy(np.searchsorted(weights.token_ids, ids))
    own = {name: each[rows] for name, each in weights.tensors.items() if name.startswith("output.")}
    sizes = {**weights.sizes, "output_rows": len(ids)}
    return replace(weights, token_ids=ids, sizes=sizes, tensors={**weights.tensors, **own})
