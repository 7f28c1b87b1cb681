"""The masks of texts that obey a constraint: which tokens could have come at each position.

Why: a drafter has to be right among the allowed tokens only. What the constraint forces needs no draft, so nothing is
to be learned there.
What: the text is read again by a matcher of its constraint. Masks are computed when a batch needs them: that takes less
time than reading them from a disk would.
Cost: for each text of a batch one matcher, and one mask for each token of its answer.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from structgen.generation.distributions import bits_of
from structgen.matcher import Matcher

from .features import Features
from .requests import constraint_of

if TYPE_CHECKING:
    from structgen.constraints.base import Constraint
    from structgen.vocabulary import Vocabulary

__all__ = ["Masks", "TextMasks"]


class Masks(Protocol):
    """The masks of texts, cut to the tokens that may be drafted."""

    def of(self, text: int) -> NDArray[np.bool_] | None:
        """Return which tokens could stand at each position, ``[tokens of the text, token_ids]``.

        None for a text without a constraint.
        """
        ...


class TextMasks:
    """The masks of texts, cut to the tokens that may be drafted.

    Args:
        features: The texts.
        vocabulary: The model's vocabulary.
        token_ids: The tokens that may be drafted.
    """

    def __init__(self, features: Features, vocabulary: Vocabulary, token_ids: NDArray[np.int64]) -> None:
        self._features, self._vocabulary, self._token_ids = features, vocabulary, token_ids

    def of(self, text: int) -> NDArray[np.bool_] | None:
        """Return which tokens could stand at each position, ``[tokens of the text, token_ids]``.

        None for a text without a constraint. Positions of the prompt allow all tokens; those after a token that the
        constraint refuses allow none, so that they are left out.
        """
        matcher = self.matcher(text)
        if matcher is None:
            return None
        length, answer = self._features.length(text), int(self._features.answers[text])
        allowed = np.ones((length, len(self._token_ids)), dtype=bool)
        first = int(self._features.offsets[text])
        for position in range(answer, length):
            allowed[position] = bits_of(matcher.mask(), self._vocabulary.size)[self._token_ids]
            if not matcher.advance(int(self._features.tokens[first + position])):
                allowed[position:] = False
                break
        return allowed

    def matcher(self, text: int) -> Matcher | None:
        """Return a matcher at the start of a text's answer; None for a text without a constraint."""
        source = str(self._features.constraints[text])
        return Matcher(_compiled(source), self._vocabulary) if source else None


@lru_cache(maxsize=256)
def _compiled(source: str) -> Constraint | None:
    return constraint_of(json.loads(source))
