"""The scores of one row: log p and log Z of each step, and the most probable tokens of each position."""

from __future__ import annotations

from .distributions import StepDistribution

__all__ = ["RowScores"]

Step = tuple[float, float]
"""log p of the token at temperature 1, and log Z, the log of the allowed probability."""


class RowScores:
    """The scores of one row.

    Attributes:
        steps: One for each token; None if the token was not scored.
        end: The step of the end-of-sequence token; None if it was not drawn.
        top_tokens: How many of the most probable tokens `top_logprobs` holds at each position.
    """

    def __init__(self, size: int) -> None:
        self.steps: list[Step | None] = []
        self.end: Step | None = None
        self.top_tokens = 0
        self._size = size
        self._tops: dict[int, list[tuple[int, float]]] = {}

    @property
    def token_logprobs(self) -> list[float | None]:
        """Log p at temperature 1 of each token; None if it was not scored."""
        return [None if step is None else step[0] for step in self.steps]

    @property
    def top_logprobs(self) -> list[list[tuple[int, float]]]:
        """For each token the most probable tokens at its position and their log p; empty if not scored."""
        return [self._tops.get(position, []) for position in range(len(self.steps))]

    def keep_top(self, position: int, distribution: StepDistribution) -> None:
        """Keep the most probable tokens of a position, if they are wanted."""
        if self.top_tokens:
            self._tops[position] = distribution.most_probable(self.top_tokens, self._size)

    def complete_steps(self, has_end: bool) -> list[Step] | None:
        """Return all steps, that of the end included if there is one; None if one of them was not scored."""
        steps = [*self.steps, self.end] if has_end else self.steps
        scored = [step for step in steps if step is not None]
        return scored if len(scored) == len(steps) else None

    def truncate(self, position: int) -> None:
        """Remove the scores from a position on."""
        del self.steps[position:]
        self._tops = {index: top for index, top in self._tops.items() if index < position}

    def copy(self) -> RowScores:
        """Return an independent copy."""
        other = RowScores(self._size)
        other.steps, other.end, other.top_tokens = self.steps[:], self.end, self.top_tokens
        other._tops = dict(self._tops)
        return other
