"""The posterior: weighted draws of a model under a constraint, and what they estimate together.

Why: the answer to "what would the model say, given that it is valid" is a distribution and not a text.
Invariant: `weights` sum to 1 and are proper: as draws are added, the weighted mean of a function converges to its
expectation under the model conditioned on the constraint (and the potentials). At least one draw has a weight.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from structgen.brief import short_repr
from structgen.errors import OutputInvalid
from structgen.extras import needed
from structgen.generation.distributions import log_sum_exp
from structgen.inference.drawing import Account, Draw
from structgen.inference.resampling import effective_size
from structgen.inference.samplers import Sampler
from structgen.notebook import bar, card, plain, table
from structgen.types import OutputType

__all__ = ["Merged", "Posterior"]

T = TypeVar("T")


@short_repr
@dataclass(frozen=True)
class Merged(Generic[T]):
    """A distinct text, over all draws and tokenizations of it."""

    text: str
    value: T | None
    """The parsed value; None if the output type's own validators reject the text."""
    weight: float
    """The sum of the weights of its draws."""
    draws: int
    log_prob: float
    """log P of the most probable tokenization among its draws."""


class Posterior(Generic[T], Sequence[T]):
    """Weighted draws, in the order in which they were made; a sequence of their values.

    Attributes:
        draws: The draws (`Draw`).
        texts: Their texts.
        sampler: The sampler.
        account: Model calls, tests, attempts, seconds; `account.stopped` names the limit that ended it, if one did.
        log_weights: The normalised log weights, float64 ``[draws]``.
    """

    def __init__(
        self,
        draws: Sequence[Draw],
        texts: Sequence[str],
        output: OutputType,
        sampler: Sampler,
        account: Account,
    ) -> None:
        self.draws = list(draws)
        self.texts = list(texts)
        self.sampler = sampler
        self.account = account
        self._output = output
        logs = np.array([drawn.log_weight for drawn in draws], dtype=np.float64)
        self.log_weights: NDArray[np.float64] = logs - log_sum_exp(logs)
        """Normalised."""

    @cached_property
    def weights(self) -> NDArray[np.float64]:
        """The weight of each draw, float64 ``[draws]``; they sum to 1."""
        weights: NDArray[np.float64] = np.exp(self.log_weights)
        return weights

    @cached_property
    def values(self) -> list[T | None]:
        """The value of each draw; None if the output type's own validators reject the text."""
        known: dict[str, T | None] = {}
        for text in self.texts:
            if text not in known:
                try:
                    known[text] = self._output.validate(text)
                except OutputInvalid:
                    known[text] = None
        return [known[text] for text in self.texts]

    @property
    def ess(self) -> float:
        """The effective sample size: the number of equally weighted independent draws with the same information.

        Particles that share ancestors are not independent: `merged` shows how many distinct texts there are.
        """
        return effective_size(self.log_weights)

    @property
    def log_z(self) -> float:
        """A point estimate of the log of the normalising constant; nan for MH.

        The constant is the sum of P(x) * exp(potentials of x) over the texts of the constraint. `account.log_z_bounds`
        brackets it with certainty: the lower bound is the total of all texts drawn so far, the upper bound adds
        everything not yet ruled out.
        """
        return self.account.log_z

    def expectation(self, function: Callable[[T | None], float]) -> float:
        """Return the weighted mean of a function of the values."""
        return float(
            sum(w * float(function(value)) for w, value in zip(self.weights, self.values, strict=True))
        )

    def probability(self, holds: Callable[[T | None], bool]) -> float:
        """Return the total weight of the values for which `holds` returns True."""
        return self.expectation(lambda value: 1.0 if holds(value) else 0.0)

    @cached_property
    def merged(self) -> list[Merged[T]]:
        """The distinct texts with their total weights, the greatest weight first."""
        draws_of: dict[str, list[int]] = {}
        for i, text in enumerate(self.texts):
            draws_of.setdefault(text, []).append(i)
        merged = [
            Merged(
                text,
                self.values[numbers[0]],
                float(self.weights[numbers].sum()),
                len(numbers),
                max(self.draws[i].log_prob for i in numbers),
            )
            for text, numbers in draws_of.items()
        ]
        return sorted(merged, key=lambda item: (-item.weight, item.text))

    @property
    def best(self) -> T | None:
        """The value of the text with the greatest weight."""
        return self.merged[0].value

    def resampled(self, count: int, seed: int = 0) -> list[T | None]:
        """Return `count` values drawn in proportion to the weights."""
        chosen = np.random.default_rng(seed).choice(len(self.texts), size=count, p=self.weights)
        return [self.values[i] for i in chosen]

    def table(self, rows: int = 10) -> str:
        """Return the texts with the greatest weights as a table: share, draws, log probability, text."""
        lines = ["  share  draws     log p  text"]
        lines += [
            f"{merged.weight:7.2%} {merged.draws:6} {merged.log_prob:9.2f}  {merged.text!r:.80}"
            for merged in self.merged[:rows]
        ]
        left = self.merged[rows:]
        if left:
            share = sum(merged.weight for merged in left)
            lines.append(f"{share:7.2%} {sum(merged.draws for merged in left):6}            {len(left)} more")
        return "\n".join(lines)

    def plot(self, rows: int = 10, axes: Any = None) -> Any:
        """Draw the texts with the greatest weights as bars, and return the axes; needs matplotlib.

        Long texts are wrapped and shortened to two lines.

        Args:
            rows: The largest number of bars.
            axes: The axes to draw into; None makes a figure.
        """
        if axes is None:
            with needed("Posterior.plot()", extra="plot"):
                from matplotlib import pyplot

            _, axes = pyplot.subplots(figsize=(7, 0.5 + 0.35 * min(rows, len(self.merged))))
        shown = self.merged[:rows][::-1]
        names = [_label(merged.text) for merged in shown]
        axes.barh(range(len(shown)), [merged.weight for merged in shown])
        axes.set_yticks(range(len(shown)), names)
        axes.figure.set_layout_engine(
            "constrained"
        )  # makes room for the labels, which would be cut off otherwise
        axes.set_xlabel("posterior share")
        axes.set_title(
            f"{len(self.texts)} draws, effective {self.ess:.1f}, log Z {self.log_z:.2f}", fontsize=9
        )
        return axes

    def __len__(self) -> int:
        return len(self.texts)

    def __getitem__(self, index: Any) -> Any:
        return self.values[index]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.values)

    def _repr_html_(self, rows: int = 20) -> str:
        cells = [
            (
                bar(merged.weight),
                f"{merged.weight:.2%}",
                str(merged.draws),
                f"{merged.log_prob:.2f}",
                plain(merged.text, 300),
            )
            for merged in self.merged[:rows]
        ]
        if left := self.merged[rows:]:
            share = sum(merged.weight for merged in left)
            more = f"<i>{len(left):,} more texts</i>"
            cells.append((bar(share), f"{share:.2%}", str(sum(merged.draws for merged in left)), "", more))
        return card("Posterior", repr(self)[11:-1], table(("", "share", "draws", "log p", "text"), cells))

    def __repr__(self) -> str:
        top = self.merged[0]
        mass = f"log Z {self.log_z:.2f}" if math.isfinite(self.log_z) else "log Z unknown"
        stopped = f", stopped by {self.account.stopped}" if self.account.stopped else ""
        lost = sum(times for cause, times in self.account.lost.items() if cause != "given up")
        nothing = f", {lost} of {self.account.attempts} attempts had no text" if lost else ""
        return (
            f"<Posterior {len(self)} draws of {len(self.merged)} texts, effective {self.ess:.1f}, {mass}; "
            f"{top.text!r:.40} {top.weight:.1%}{nothing}{stopped}>"
        )


_LABEL_WIDTH = 40


def _label(text: str) -> str:
    """Return a text as the label of a bar: printable, at most two lines, dollar signs escaped for matplotlib."""
    shown = text if text.isprintable() else repr(text)[1:-1]
    lines = textwrap.wrap(shown, _LABEL_WIDTH, max_lines=2, placeholder="…") or ["(empty)"]
    return "\n".join(lines).replace("$", r"\$")
