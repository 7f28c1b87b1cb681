"""How well a drafter does: tokens per pass, acceptance by position, and speed with a confidence interval.

What: each request is answered without drafts and with them, in turn, in random order. Speed is the ratio of the times
of a token after the prompt. The interval is a bootstrap over requests.
Invariant: greedy texts are the same on both sides, unless the verifier is lossy. The report counts those that are.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from structgen.generation import Generation, SamplingOptions, generate_tokens
from structgen.matcher import Matcher
from structgen.progress import ProgressBar
from structgen.speculative import Costs, Speculation

from .texts import Request

if TYPE_CHECKING:
    from structgen.protocols import LanguageModel
    from structgen.speculative import Drafter
    from structgen.speculative.lossy import LossyVerifier

__all__ = ["Evaluation", "evaluate_drafters"]

_RESAMPLES = 2000


@dataclass
class Evaluation:
    """What was measured for the requests of one kind."""

    kind: str
    ratios: list[float] = field(default_factory=list)
    """How many times faster each request was."""
    tokens: int = 0
    passes: int = 0
    drafted: int = 0
    accepted: int = 0
    reached: Counter[int] = field(default_factory=Counter)
    """How many drafts had a token at each position after the row's end."""
    right: Counter[int] = field(default_factory=Counter)
    """How many of these tokens were accepted."""
    same: int = 0

    @property
    def tokens_per_pass(self) -> float:
        """The tokens of a forward pass after the prompt."""
        return self.tokens / max(1, self.passes)

    @property
    def speed(self) -> float:
        """The median of the ratios."""
        return float(np.median(self.ratios))

    def speed_interval(self, seed: int = 0) -> tuple[float, float]:
        """Return the 95 % confidence interval of the median, by a bootstrap over requests."""
        rng = np.random.default_rng(seed)
        drawn = rng.choice(np.array(self.ratios), size=(_RESAMPLES, len(self.ratios)))
        low, high = np.quantile(np.median(drawn, axis=1), (0.025, 0.975))
        return float(low), float(high)

    def acceptance(self) -> list[float]:
        """Return the share of draft tokens that were accepted, by position: each after those before it were."""
        return [self.right[position] / reached for position, reached in sorted(self.reached.items())]


def evaluate_drafters(
    model: LanguageModel,
    requests: Iterable[Request],
    drafters: Sequence[Drafter] | None,
    *,
    verifier: LossyVerifier | None = None,
    temperature: float = 0.0,
    seed: int = 0,
    progress: bool = False,
) -> list[Evaluation]:
    """Answer requests with and without drafts.

    Args:
        model: The model.
        requests: Requests that the drafter was not trained on.
        drafters: The drafters; None for the default ones.
        verifier: A lossy verifier. Texts then differ, and `Evaluation.same` counts those that do not.
        temperature: The temperature of the answers.
        seed: The seed of all draws.
        progress: Whether to show a progress bar.

    Returns:
        One evaluation for each kind of request, in the order in which the kinds come.
    """
    asked = list(requests)
    found: dict[str, Evaluation] = {}
    is_lossy = verifier is not None
    warm = Speculation(drafters, verifier, allow_lossy=is_lossy)
    if asked:  # durations of passes are known from here on, and nothing else
        _answer(model, asked[0], warm, temperature, seed)
    speculation = Speculation(drafters, verifier, allow_lossy=is_lossy)
    speculation.costs = Costs(warm.costs.known)
    order = random.Random(seed)
    with ProgressBar(len(asked), "requests", progress) as bar:
        for number, request in enumerate(asked):
            sides: list[Speculation | None] = [None, speculation]
            order.shuffle(sides)
            speculation.reached.clear()
            speculation.right.clear()
            answers = {
                side is None: _answer(model, request, side, temperature, seed + number) for side in sides
            }
            evaluation = found.setdefault(request.kind, Evaluation(request.kind))
            evaluation.reached += speculation.reached
            evaluation.right += speculation.right
            _add(evaluation, answers[True], answers[False])
            bar.advance()
    return list(found.values())


def _add(evaluation: Evaluation, plain: Generation, drafted: Generation) -> None:
    tokens = [max(1, len(each.tokens)) for each in (plain, drafted)]
    seconds = [each.timing.total - each.timing.prompt for each in (plain, drafted)]
    evaluation.ratios.append(seconds[0] / tokens[0] / (seconds[1] / tokens[1]))
    evaluation.tokens += len(drafted.tokens)
    evaluation.passes += drafted.timing.forward_passes
    evaluation.drafted += drafted.drafted_tokens
    evaluation.accepted += drafted.accepted_tokens
    evaluation.same += plain.tokens == drafted.tokens


def _answer(
    model: LanguageModel, request: Request, speculation: Speculation | None, temperature: float, seed: int
) -> Generation:
    matcher = None if request.constraint is None else Matcher(request.constraint, model.vocabulary)
    options = SamplingOptions(temperature=temperature, seed=seed, max_tokens=request.most, exact_weight=False)
    drafting = None if speculation is None else speculation.start(model)
    (answer,) = generate_tokens(model, [list(request.prompt)], [matcher], options, drafting=drafting)
    return answer
