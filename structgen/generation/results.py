"""The result of a generation: text, tokens, how it ended, its weight, how long it took.

`finish` is one of
    complete    the text is in the language and the model ended it (or nothing else could follow)
    length      the token budget or the model's context ended first; the text is partial
    dead_end    no token continues the text, and stepping back did not help; the text is partial
    cancelled   the caller stopped the generation; the text is partial
    failed      a limit or an error stopped this row alone (`error`); the text is partial

The weights. Let p_t be the model's own distribution at step t (no mask, no top-k), after the penalties and the bias of
the options. `logprob` is the sum of log p_t(token) at temperature 1. `log_weight` is the sum of log Z_t, where Z_t is
the probability that the mask allows at the sampling temperature (at temperature 1 if greedy), before top-k, top-p and
min-p. So for sampling without these three, exp(log_weight) is exactly the importance weight of the draw for the model's
distribution conditioned on the constraint. Forced tokens and the end-of-sequence token count as steps. Both are None if
a step was not scored (`exact_weight=False`). `log_weight` is also None if the allowed probability is not known: after a
step back from a dead end, and if closing within the budget removed a token. After lossy verification (`is_lossy`) it
is None as well: the text was not drawn from the masked distribution. `logprob` then still is the model's.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from structgen.brief import short_repr
from structgen.captures import CapturedText
from structgen.errors import StructgenError

__all__ = ["Finish", "Generation", "Timing"]

Finish = Literal["complete", "length", "dead_end", "cancelled", "failed"]


@short_repr
@dataclass
class Timing:
    """Wall-clock times in seconds. The rows of a batch share every step, so they share these figures."""

    prompt: float = 0.0
    """Prefill of the prompts."""
    model: float = 0.0
    """Decode steps: forward passes after the prompt."""
    constraint: float = 0.0
    """Masks, forced tokens, advancing the matcher."""
    drawing: float = 0.0
    """Softmax, temperature, truncation, the draw."""
    drafting: float = 0.0
    """Proposing draft tokens."""
    first_token: float | None = None
    """From the start to the first token of this row."""
    total: float = 0.0
    """From the start to the end of this row."""
    forward_passes: int = 0
    """The number of forward passes after the prompt."""

    def tokens_per_second(self, tokens: int) -> float:
        """Return tokens per second after the prompt; 0 if that time is 0."""
        spent = self.total - self.prompt
        return tokens / spent if spent > 0 else 0.0


@short_repr
@dataclass
class Generation:
    """A sequence whose generation has ended."""

    text: str
    tokens: list[int]
    """The tokens of the text, without the end-of-sequence token."""
    finish: Finish
    logprob: float | None
    log_weight: float | None
    end_token: int | None = None
    """The end-of-sequence token that was drawn, if one was."""
    prompt_tokens: int = 0
    forced_tokens: int = 0
    """The number of tokens that were the only choice and were not drawn."""
    drafted_tokens: int = 0
    """The number of draft tokens that the model read."""
    accepted_tokens: int = 0
    """The number of draft tokens that were drawn: each saved a forward pass."""
    steered: bool = False
    """Whether closing within the budget removed a token that was drawn."""
    is_lossy: bool = False
    """Whether a lossy verifier took part in the draws, so that the text has another distribution than the model's."""
    retries: int = 0
    """The number of steps back from dead ends."""
    unproven: int = 0
    """The number of states, in this generation, that count as live for lack of work budget."""
    monitors: Any = None
    """What the monitors did (`structgen.monitors.MonitorReport`); None without monitors."""
    error: StructgenError | None = None
    """What stopped a row that failed."""
    captured: CapturedText | None = field(default=None, compare=False, repr=False)
    """The text, if rules of a grammar capture parts of it."""
    seed: int | tuple[int, ...] = 0
    """The seed that repeats this draw."""
    timing: Timing = field(default_factory=Timing)
