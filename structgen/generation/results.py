"""What a generation is once it has ended: text, tokens, how it ended, what it weighs, how long it took.

`finish` is one of
    complete    the text is in the language and the model ended it (or nothing else could follow)
    length      the token budget or the model's context ended first; the text is partial
    dead_end    no token continues the text, and going back did not help; the text is partial
    cancelled   the caller asked to stop; the text is partial
    failed      a limit or an error stopped this row alone (`error`); the text is partial

The weights. Let p_t be the model's own law at step t (no mask, no top-k). `logprob` is the sum of
log p_t(token) at temperature 1. `log_weight` is the sum of log Z_t, Z_t the mass that the mask allows at the
sampling temperature (at temperature 1 if greedy), before top-k, top-p and min-p. So for sampling without
those three, exp(log_weight) is exactly the importance weight of the draw towards the model's law conditioned
on the constraint. Forced tokens and the end-of-text token count as steps. Both are None where a step was not
scored (`exact_weight=False`); `log_weight` also where the allowed mass is not known: after a step back from
a dead end, and where closing within the budget removed a token.
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
    """Seconds of wall clock. The rows of a batch share every step, so they share these figures."""

    prompt: float = 0.0
    """Reading the prompts."""
    model: float = 0.0
    """Forward passes after the prompt."""
    constraint: float = 0.0
    """Masks, forced tokens, moving the matcher."""
    drawing: float = 0.0
    """Softmax, temperature, top-k, the draw."""
    drafting: float = 0.0
    """Proposing tokens ahead of the model."""
    first_token: float | None = None
    """From the start to the first token of this row."""
    total: float = 0.0
    """From the start to the end of this row."""
    forward_passes: int = 0
    """Calls of the model after the prompt."""

    def tokens_per_second(self, tokens: int) -> float:
        """Tokens over the time after the prompt; 0 where that time is 0."""
        spent = self.total - self.prompt
        return tokens / spent if spent > 0 else 0.0


@short_repr
@dataclass
class Generation:
    """One sequence that has ended."""

    text: str
    tokens: list[int]
    """The tokens of the text, without the end-of-text token."""
    finish: Finish
    logprob: float | None
    log_weight: float | None
    end_token: int | None = None
    """The end-of-text token that was drawn, if one was."""
    prompt_tokens: int = 0
    forced_tokens: int = 0
    """How many tokens were the only choice and never drawn."""
    drafted_tokens: int = 0
    """How many tokens the model read ahead."""
    taken_tokens: int = 0
    """How many of these were then drawn: each has spared a pass."""
    steered: bool = False
    """Whether closing within the budget removed a token that was drawn."""
    retries: int = 0
    """Steps back from dead ends."""
    unproven: int = 0
    """How many decisions of the constraint, in this run, were taken as alive for lack of work budget."""
    monitors: Any = None
    """What monitors did (`structgen.monitors.MonitorReport`), where there were any."""
    error: StructgenError | None = None
    """What stopped a row that failed."""
    captured: CapturedText | None = field(default=None, compare=False, repr=False)
    """The text, if rules of a grammar capture parts of it."""
    seed: int | tuple[int, ...] = 0
    """The seed that repeats this draw."""
    timing: Timing = field(default_factory=Timing)
