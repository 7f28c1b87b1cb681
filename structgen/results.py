"""`Result`: the value of an answer, and how it was generated.

Invariant: `value` is a validated value, or raises the error that a typed call would have raised. A text that was cut
off is never returned as a value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, TypeVar, cast

from structgen.attempts import Account, Attempt
from structgen.brief import brief
from structgen.captures import Capture
from structgen.errors import DeadEnd, GenerationError, OutputInvalid, StructgenError, Truncated
from structgen.generation import Finish, Generation, Timing
from structgen.notebook import card, code, pairs
from structgen.types import OutputType, output_type

__all__ = ["Result", "attempt_of"]

T = TypeVar("T")


@dataclass
class Result(Generic[T]):
    """One answer of a model."""

    output: OutputType
    generation: Generation

    def __getstate__(self) -> dict[str, Any]:
        """Return what is pickled. Monitors hold connections and matter only during generation, so they are left out."""
        self._outcome  # noqa: B018  (validators run once, here, so that the copy has an equal value)
        state = self.__dict__.copy()
        condition = self.output.constraint.as_condition()
        if condition is not None:
            state["output"] = output_type(condition[0])
        return state

    @cached_property
    def _outcome(self) -> tuple[T | None, StructgenError | None]:
        generation = self.generation
        if generation.finish != "complete" and not (
            generation.finish == "length" and self.output.is_free_text
        ):
            return None, self._failure()
        try:
            return cast(T, self.output.validate(generation.text)), None
        except OutputInvalid as error:
            error.result = self
            return None, error

    @cached_property
    def account(self) -> Account:
        """All attempts: their texts, errors, tokens and seconds (`structgen.remote.Account`)."""
        return Account([attempt_of(self)])

    def fail(self, error: GenerationError) -> None:
        """Make `value` raise this error, which says more than its own."""
        self.__dict__["_outcome"] = (None, error)

    def _failure(self) -> StructgenError:
        generation = self.generation
        if generation.error is not None:
            return generation.error
        about: dict[str, Any] = {"text": generation.text, "result": self}
        if generation.finish == "length":
            return Truncated(
                f"the output was cut off after {len(generation.tokens)} tokens: {generation.text[-60:]!r}",
                hint="Raise max_tokens, or set close_within_budget=True to have it end in time.",
                **about,
            )
        if generation.finish == "dead_end":
            refused = 0 if generation.monitors is None else generation.monitors.refused
            note = f"; monitors refused {refused} tokens" if refused else ""
            return DeadEnd(
                f"no token continues {generation.text[-60:]!r} ({generation.retries} steps back did not help{note})",
                hint="Look at what the monitors return there: it may be nothing, or nothing that the constraint allows."
                if refused
                else "Raise max_backtracks, try another seed, or simplify the constraint.",
                **about,
            )
        return GenerationError("generation was cancelled", **about)

    @property
    def value(self) -> T:
        """The validated value; raises `Truncated`, `DeadEnd` or `OutputInvalid` if there is no valid one."""
        value, error = self._outcome
        if error is not None:
            raise error
        return cast(T, value)

    @property
    def error(self) -> StructgenError | None:
        """The error that `value` raises, or None."""
        return self._outcome[1]

    @property
    def partial(self) -> Any:
        """The value so far, unvalidated; the value itself if it is complete."""
        value, error = self._outcome
        return value if error is None else self.output.partial(self.text)

    def is_complete(self, path: str | Sequence[str | int] = ()) -> bool:
        """Return whether the part of `partial` at `path` is finished; every part of a complete value is.

        Args:
            path: Field names, keys and indices: ``"items.0.name"`` or ``("items", 0, "name")``; empty for the whole.
        """
        if self.error is None:
            return True
        growing = self.output.growing()
        growing(self.text)
        return growing.is_complete(path)

    @property
    def text(self) -> str:
        """The generated text."""
        return self.generation.text

    @property
    def captures(self) -> Sequence[Capture]:
        """The parts of the text that rules of a grammar capture, ordered by their starts.

        Raises:
            LimitExceeded: The text can be parsed in too many ways.
            GrammarUnsupported: The text cannot be parsed again from its bytes; see `structgen.captures.captures_of`.
        """
        captured = self.generation.captured
        return () if captured is None else captured.captures

    @property
    def finish(self) -> Finish:
        """``complete``, ``length``, ``dead_end``, ``cancelled`` or ``failed``."""
        return self.generation.finish

    @property
    def logprob(self) -> float | None:
        """The sum of the log probabilities of the tokens, the end included, under the model at temperature 1."""
        return self.generation.logprob

    @property
    def log_weight(self) -> float | None:
        """The sum of log Z, where Z is the allowed probability of a step; see `structgen.generation.results`."""
        return self.generation.log_weight

    @property
    def is_lossy(self) -> bool:
        """Whether a lossy verifier took part in the draws (`structgen.speculative.lossy`)."""
        return self.generation.is_lossy

    @property
    def tokens(self) -> list[int]:
        """The tokens of the text."""
        return self.generation.tokens

    @property
    def timing(self) -> Timing:
        """The time spent in each phase."""
        return self.generation.timing

    @property
    def monitors(self) -> Any:
        """What the monitors did (`structgen.monitors.MonitorReport`); None without monitors."""
        return self.generation.monitors

    def _repr_html_(self) -> str:
        timing, generation = self.timing, self.generation
        facts = [("tokens", f"{len(self.tokens)}, {generation.forced_tokens} of them forced")]
        for name, number in (("log probability", self.logprob), ("log weight", self.log_weight)):
            facts += [] if number is None else [(name, f"{number:.2f}")]
        facts += [("verification", "lossy: not the model's distribution")] if self.is_lossy else []
        spent = ("prompt", "model", "constraint", "drawing", "drafting")
        facts += [
            ("seconds", f"{timing.total:.2f}: " + ", ".join(f"{n} {getattr(timing, n):.2f}" for n in spent))
        ]
        if self.error is None:
            about, parts = (
                type(self.value).__name__,
                [code(repr(self.value)), pairs([("text", "")]), code(self.text)],
            )
        else:
            about, parts = (
                type(self.error).__name__,
                [code(str(self.error)), pairs([("text", "")]), code(self.text)],
            )
        return card(f"Result, {self.finish}", about, *parts, pairs(facts))

    def __repr__(self) -> str:
        shown = brief(self.error if self.error is not None else self.value, 120)
        lossy = ", lossy" if self.is_lossy else ""
        return f"<Result {self.finish}: {shown}, {len(self.tokens)} tokens{lossy}>"


def attempt_of(result: Result[Any]) -> Attempt:
    """Return a local answer as an attempt."""
    error, tokens = result.error, len(result.tokens)
    if isinstance(error, Truncated):
        problem = f"the answer was cut off after {tokens} tokens"
    else:
        problem = "" if error is None else error.message
    return Attempt(result.text, problem, tokens, result.timing.total, "mask")
