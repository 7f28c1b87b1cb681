"""Further attempts of local models: `SamplingOptions.attempts`.

Why: Python validators cannot mask tokens. A model that is shown its answer and what is wrong with it often corrects it.
What: an answer that a validator refuses, or that was cut off, is drawn again under the prompt with two more messages
(`structgen.attempts.feedback`), the same as for models on servers. The rows of a batch are drawn again together.
Invariant: the first attempt is what would have been drawn without `attempts`. Later ones are draws from the
distribution under another prompt, so the answers of several attempts are not a sample of the distribution that one
attempt has; their weights are those of the last prompt.
Cost: one generation for each attempt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from structgen.attempts import Account, attempt_seed, feedback, messages_of
from structgen.errors import OutputInvalid, StructgenError, Truncated
from structgen.generation import Generation, SamplingOptions
from structgen.protocols import is_chat_model
from structgen.results import Result, attempt_of
from structgen.types import OutputType

if TYPE_CHECKING:
    from structgen.protocols import LanguageModel, Prompt

__all__ = ["EncodedPrompt", "answers", "steps"]

Draw = Callable[[Sequence[Sequence[int]], Sequence[SamplingOptions]], Sequence[Generation]]
"""From the tokens of prompts, and options for each, to the generations."""
DrawSteps = Callable[[Sequence[int], SamplingOptions], Iterator[Any]]
"""The same for one prompt, step by step."""


@dataclass(frozen=True)
class EncodedPrompt:
    """A prompt and its tokens."""

    prompt: Prompt
    ids: Sequence[int]


@dataclass
class _Row:
    """A prompt that may get several attempts."""

    model: LanguageModel
    prompt: EncodedPrompt
    options: SamplingOptions
    result: Result[Any]
    account: Account = field(default_factory=Account)
    stopped: str = ""
    """Why no further attempt was possible."""

    def __post_init__(self) -> None:
        self.account.attempts.append(attempt_of(self.result))

    @property
    def is_open(self) -> bool:
        """Whether another attempt is allowed and would help."""
        done = len(self.account.attempts)
        return (
            not self.stopped
            and done < (self.options.attempts or 1)
            and isinstance(self.result.error, (OutputInvalid, Truncated))
        )

    def prepare(self) -> tuple[Sequence[int], SamplingOptions] | None:
        """Return the tokens and options of the next attempt; None if the model cannot get feedback."""
        generation, last = self.result.generation, self.account.attempts[-1]
        said = feedback(generation.text, last.problem, generation.finish == "length")
        try:
            ids = self._encoded(said)
        except StructgenError as error:
            self.stop(error)
            return None
        options = self.options
        if options.seed is not None:
            options = options.replace(seed=attempt_seed(options.seed, len(self.account.attempts)))
        return ids, options

    def _encoded(self, said: Sequence[dict[str, Any]]) -> Sequence[int]:
        prompt = self.prompt.prompt
        if not isinstance(prompt, str) or is_chat_model(self.model):
            return self.model.encode([*messages_of(prompt), *said])
        # A model without chat template continues after its own answer.
        answer, wrong = (one["content"] for one in said)
        return self.model.encode(f"{prompt}{answer}\n\n{wrong}\n\n")

    def take(self, generation: Generation) -> None:
        """Count an attempt. If it could not start, the answer before it remains the result."""
        if generation.finish == "failed" and generation.error is not None:
            self.stop(generation.error)
            return
        self.result = Result(self.result.output, generation)
        self.account.attempts.append(attempt_of(self.result))

    def stop(self, error: StructgenError) -> None:
        """Allow no further attempt, because of an error."""
        self.stopped = f"no further attempt was possible: {error.message}"

    def ended(self) -> Result[Any]:
        """Return the last answer, with the account, and with an error that counts the attempts."""
        error = self.result.error
        if isinstance(error, (OutputInvalid, Truncated)):
            self.result.fail(self._exhausted(error))
        self.result.account = self.account
        return self.result

    def _exhausted(self, error: OutputInvalid | Truncated) -> OutputInvalid | Truncated:
        count = len(self.account.attempts)
        why = f"{self.stopped[:1].upper()}{self.stopped[1:]}." if self.stopped else ""
        hint = f"{why or 'The budget of attempts is spent; attempts= raises it.'} {error.hint or ''}"
        found = type(error)(
            f"no valid answer in {count} attempt{'s' * (count != 1)}; the last: {error.message}",
            text=error.text,
            result=error.result,
            hint=hint.rstrip(),
        )
        found.__cause__ = error.__cause__
        return found


def answers(
    model: LanguageModel,
    prompts: Sequence[EncodedPrompt],
    output: OutputType,
    options: Sequence[SamplingOptions],
    draw: Draw,
) -> list[Result[Any]]:
    """Return one result for each prompt; rows whose options allow several attempts are drawn again while they fail."""
    drawn = draw([one.ids for one in prompts], options)
    results = [Result[Any](output, generation) for generation in drawn]
    rows = {
        index: _Row(model, prompts[index], each, results[index])
        for index, each in enumerate(options)
        if (each.attempts or 1) > 1
    }
    while still_open := [row for row in rows.values() if row.is_open]:
        prepared = [(row, next_one) for row in still_open if (next_one := row.prepare()) is not None]
        if not prepared:
            continue
        try:
            drawn = draw([ids for _, (ids, _) in prepared], [each for _, (_, each) in prepared])
        except StructgenError as error:  # the answers so far remain
            for row, _ in prepared:
                row.stop(error)
            continue
        for (row, _), generation in zip(prepared, drawn, strict=True):
            row.take(generation)
    for index, row in rows.items():
        results[index] = row.ended()
    return results


def steps(
    model: LanguageModel, prompt: EncodedPrompt, output: OutputType, options: SamplingOptions, draw: DrawSteps
) -> Iterator[Any]:
    """Yield the steps of one answer; a further attempt starts again from an empty text."""
    ids, each, row = prompt.ids, options, None
    while True:
        for step in draw(ids, each):
            if step.generation is None:
                yield step
                continue
            if (options.attempts or 1) == 1:
                yield step
                return
            if row is None:
                row = _Row(model, prompt, options, Result(output, step.generation))
            else:
                row.take(step.generation)
        assert row is not None, "a generation always ends"
        prepared = row.prepare() if row.is_open else None
        if prepared is None:
            break
        ids, each = prepared
    last = row.ended()
    generation = last.generation
    if isinstance(last.error, (OutputInvalid, Truncated)):
        generation = replace(generation, finish="failed", error=last.error)
    yield replace(step, text=generation.text, generation=generation)
