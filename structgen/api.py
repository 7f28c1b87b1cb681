"""The calls: a model, a prompt and an output type in; a value, a `Result` or a stream of partial values out.

Why: prompt functions, the command line and servers share one path from prompt to value.
Invariant: `generate`, `run` and `stream` draw the same text for the same options and seed.
Cost: besides sampling, the type is analysed once (cached), and the constraint once per vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeGuard, TypeVar, overload

import numpy as np

from structgen import reasking
from structgen.argument_names import checks_names
from structgen.constraints.composition import CappedReasoning
from structgen.errors import OptionError, PromptError, StructgenError, a_kind
from structgen.generation import Generation, SamplingOptions, generate_steps, generate_tokens
from structgen.generation.options import make_options
from structgen.generation.potentials import Potential, Product
from structgen.matcher import open_matcher
from structgen.models.messages import prompt_of
from structgen.protocols import is_language_model
from structgen.reasking import EncodedPrompt
from structgen.results import Result
from structgen.speculative.defaults import generation_drafts_of
from structgen.streams import ItemStream, Stream
from structgen.types import OutputType, output_type

if TYPE_CHECKING:
    from structgen.protocols import LanguageModel, Prompt

__all__ = [
    "TextModel",
    "check_describe",
    "check_model",
    "encoded",
    "generate",
    "is_remote_model",
    "row_options",
    "run",
    "run_batch",
    "run_encoded",
    "several",
    "stream",
    "stream_items",
    "values_of",
    "with_description",
    "with_item",
]

T = TypeVar("T")
Cancel = Callable[[], bool]


class TextModel(Protocol):
    """A model that takes prompts and returns texts, without tokens and logits (see `structgen.remote`)."""

    budget: Any
    """The limits of one answer; `budget.attempts` is the default of ``attempts``."""

    def answers(
        self,
        prompts: Sequence[Prompt],
        output: OutputType,
        options: Sequence[SamplingOptions],
        *,
        cancel: Cancel | None = None,
    ) -> list[Result[Any]]:
        """Return one result for each prompt; raise only if no request can be sent."""
        ...

    def answer_steps(
        self, prompt: Prompt, output: OutputType, options: SamplingOptions, *, cancel: Cancel | None = None
    ) -> Iterator[Any]:
        """Yield steps with the `text` so far; the last one has the `generation`."""
        ...


@overload
def generate(
    model: LanguageModel,
    prompt: Prompt,
    output: type[T],
    *,
    describe: bool | None = ...,
    n: None = ...,
    **options: Any,
) -> T: ...
@overload
def generate(
    model: LanguageModel,
    prompt: Prompt,
    output: type[T],
    *,
    n: int,
    describe: bool | None = ...,
    **options: Any,
) -> list[T]: ...
@overload
def generate(
    model: LanguageModel,
    prompt: Prompt,
    output: Any = ...,
    *,
    describe: bool | None = ...,
    n: int | None = ...,
    **options: Any,
) -> Any: ...
@checks_names
def generate(
    model: LanguageModel,
    prompt: Prompt,
    output: Any = str,
    *,
    describe: bool | None = None,
    n: int | None = None,
    **options: Any,
) -> Any:
    """Return the model's answer to `prompt` as a value of type `output`.

    Args:
        model: A model from `load`, `wrap` or `connect`.
        prompt: A text, or messages: `{"role": ..., "content": ...}`, contents as texts or parts of text, with calls of
            tools and their results as the OpenAI protocol writes them.
        output: A Python type, or a constraint.
        describe: Write the fields of the type and their descriptions before the prompt. None: for a model, a dataclass
            or another type of one object (or a list of one), if the prompt has no examples: no assistant's messages.
        n: Return a list of this many values, drawn together. Value i is drawn with ``seed=(seed, i)``. Without random
            options the temperature is 1 if `n` is 2 or more.
        **options: The fields of `SamplingOptions`. ``attempts=3`` shows the model what a validator refused and draws
            again, at most twice.

    Raises:
        Truncated, DeadEnd, OutputInvalid: There is no valid value. With `n`, the error is that of the first value
            without one; `item` is its index, and `results` has the values and errors of all.
    """
    options.setdefault("exact_weight", False)  # the weight is not returned
    answer = run(model, prompt, output, describe=describe, n=n, **options)
    return answer.value if isinstance(answer, Result) else values_of(answer)


@overload
def run(
    model: LanguageModel,
    prompt: Prompt,
    output: type[T],
    *,
    describe: bool | None = ...,
    n: None = ...,
    cancel: Cancel | None = ...,
    **options: Any,
) -> Result[T]: ...
@overload
def run(
    model: LanguageModel,
    prompt: Prompt,
    output: type[T],
    *,
    n: int,
    describe: bool | None = ...,
    cancel: Cancel | None = ...,
    **options: Any,
) -> list[Result[T]]: ...
@overload
def run(
    model: LanguageModel,
    prompt: Prompt,
    output: Any = ...,
    *,
    describe: bool | None = ...,
    n: int | None = ...,
    cancel: Cancel | None = ...,
    **options: Any,
) -> Any: ...
@checks_names
def run(
    model: LanguageModel,
    prompt: Prompt,
    output: Any = str,
    *,
    describe: bool | None = None,
    n: int | None = None,
    cancel: Cancel | None = None,
    **options: Any,
) -> Any:
    """Return the model's answer with its text, weights and timing; with `n`, a list of answers.

    Raises only if generation cannot start. The arguments are those of `generate`.

    Args:
        model: As for `generate`.
        prompt: As for `generate`.
        output: As for `generate`.
        describe: As for `generate`.
        n: As for `generate`.
        cancel: Called between tokens; True ends the generation.
        **options: As for `generate`.
    """
    kind = _kind(output)
    each = several(make_options(options, ("describe", "n", "cancel")), n)
    full_prompt = with_description(model, prompt, kind, describe)
    results = run_batch(model, [full_prompt] * len(each), kind, each, cancel=cancel)
    return results[0] if n is None else results


def several(options: SamplingOptions, n: int | None) -> list[SamplingOptions]:
    """Return the options of each of `n` draws; None stands for one draw with the options as they are."""
    if n is None:
        return [options]
    if isinstance(n, bool) or not isinstance(n, (int, np.integer)) or n < 1:
        raise OptionError(f"n is {n!r:.40}; it must be the number of values, a whole number of 1 or more")
    if n > 1 and options.effective_temperature == 0 and options.temperature is None:
        options = options.replace(temperature=1.0)  # greedy draws would all be equal
    return [row_options(options, row) for row in range(n)]


def row_options(base: SamplingOptions, row: int) -> SamplingOptions:
    """Return the options of one row of a batch, whose seed is that of the batch with the row's index."""
    if base.seed is None:
        return base
    seed = tuple(base.seed) if isinstance(base.seed, Sequence) else (base.seed,)
    return base.replace(seed=(*seed, row))


def values_of(results: Sequence[Result[T]]) -> list[T]:
    """Return the values of all results; the error of the first without one has the others in `results`."""
    for index, result in enumerate(results):
        if result.error is not None:
            raise with_item(
                result.error,
                index,
                len(results),
                [outcome.value if outcome.error is None else outcome.error for outcome in results],
            )
    return [result.value for result in results]


def with_item(error: StructgenError, item: int, count: int, results: list[Any]) -> StructgenError:
    """Return the error with its item of a batch, and the results of all items so far."""
    error.item, error.results = item, results
    which = f"item {item} of {count} (counted from 0)"
    error.where = which if error.where is None else f"{which}, {error.where}"
    return error


def run_batch(
    model: LanguageModel,
    prompts: Sequence[Prompt],
    output: OutputType,
    options: Sequence[SamplingOptions],
    *,
    cancel: Cancel | None = None,
) -> list[Result[Any]]:
    """Return one result per prompt, drawn in one batch; failed ones are drawn again if `attempts` allows it."""
    check_model(model)
    _check_cancel(cancel)
    known: dict[int, Any] = {}
    for prompt in prompts:
        if id(prompt) not in known:
            known[id(prompt)] = encoded(model, prompt)
    return run_encoded(model, [known[id(prompt)] for prompt in prompts], output, options, cancel=cancel)


def encoded(model: LanguageModel, prompt: Prompt) -> Any:
    """Return a prompt with its tokens for `run_encoded`; for a model on a server, the prompt as it is."""
    return prompt if is_remote_model(model) else EncodedPrompt(prompt, model.encode(prompt))


def run_encoded(
    model: LanguageModel,
    prompts: Sequence[Any],
    output: OutputType,
    options: Sequence[SamplingOptions],
    *,
    cancel: Cancel | None = None,
) -> list[Result[Any]]:
    """Return one result per prompt, for prompts from `encoded`."""
    if is_remote_model(model):
        _check_answerable(output)
        return model.answers(prompts, output, options, cancel=cancel)

    def draw(ids: Sequence[Sequence[int]], each: Sequence[SamplingOptions]) -> Sequence[Generation]:
        matchers = [open_matcher(output.constraint, model.vocabulary) for _ in ids]
        drafting = generation_drafts_of(model, each)
        return generate_tokens(model, ids, matchers, each, cancel=cancel, drafting=drafting)

    return reasking.answers(model, prompts, output, options, draw)


@checks_names
def stream(
    model: LanguageModel,
    prompt: Prompt,
    output: Any = str,
    *,
    describe: bool | None = None,
    cancel: Cancel | None = None,
    **options: Any,
) -> Stream[Any]:
    """Return a stream of partial values, each different from the one before; the last one is complete and validated.

    If ``attempts`` allows another attempt, the values start again after an invalid answer. `Stream.is_complete` reports
    which parts of the last partial value are finished. Dropping the iterator stops the generation.

    Args:
        model: As for `generate`.
        prompt: As for `generate`.
        output: As for `generate`.
        describe: As for `generate`.
        cancel: Called between tokens; True ends the generation.
        **options: As for `generate`.

    Raises:
        Truncated, DeadEnd, OutputInvalid: While iterating, after the last partial value.
    """
    kind = _kind(output)
    return Stream(kind, text_steps(model, prompt, kind, describe, cancel, options))


@checks_names
def stream_items(
    model: LanguageModel,
    prompt: Prompt,
    output: Any,
    *,
    path: str | Sequence[str | int] = (),
    describe: bool | None = None,
    cancel: Cancel | None = None,
    **options: Any,
) -> ItemStream[Any]:
    """Return a stream of the items of a list, each validated as soon as the model has finished it.

    Args:
        model: The model.
        prompt: The prompt.
        output: A type that is a list (``list[Person]``), or has one at `path`.
        path: The position of the list, such as ``"order.items"``; empty if the output itself is the list.
        describe: As for `generate`.
        cancel: Called between tokens; generation stops when it returns True.
        **options: Those of `SamplingOptions`.

    Raises:
        OptionError: `output` has no list at `path`.
        OutputInvalid: While iterating, where a validator refuses an item.
        Truncated: While iterating, after the items that are finished.
    """
    kind = _kind(output)
    steps = text_steps(model, prompt, kind, describe, cancel, options)
    attempts = options.get("attempts") or (model.budget.attempts if is_remote_model(model) else 1)
    return ItemStream(kind, steps, path, is_last_attempt=attempts == 1)


def text_steps(
    model: LanguageModel,
    prompt: Prompt,
    kind: OutputType,
    describe: bool | None,
    cancel: Cancel | None,
    options: dict[str, Any],
) -> Iterator[Any]:
    """Yield the generation step by step: each step has the text so far, the last one the generation."""
    check_model(model)
    _check_cancel(cancel)
    options.setdefault("exact_weight", False)
    if options.pop("n", None) is not None:
        raise OptionError(
            "a stream is of one text, so it takes no n", hint="Call generate(..., n=...) or run."
        )
    chosen = make_options(options, ("describe", "cancel", "path"))
    full_prompt = with_description(model, prompt, kind, describe)
    if is_remote_model(model):
        _check_answerable(kind)
        return model.answer_steps(full_prompt, kind, chosen, cancel=cancel)
    first = EncodedPrompt(full_prompt, model.encode(full_prompt))
    matchers = [open_matcher(kind.constraint, model.vocabulary)]  # raises for an impossible constraint

    def draw(ids: Sequence[int], each: SamplingOptions) -> Iterator[Any]:
        matcher = matchers.pop() if matchers else open_matcher(kind.constraint, model.vocabulary)
        drafting = generation_drafts_of(model, each)
        return generate_steps(model, [ids], [matcher], each, cancel=cancel, drafting=drafting)

    return reasking.steps(model, first, kind, chosen, draw)


def _kind(output: Any) -> OutputType:
    if isinstance(output, Potential | Product):
        raise OptionError(
            "potentials need weights, which masks alone do not give", hint="Use structgen.sample(...)."
        )
    return output_type(output)


def is_remote_model(model: object) -> TypeGuard[TextModel]:
    """Return whether `model` is a model on a server."""
    return hasattr(model, "answer_steps")


def _check_answerable(output: OutputType) -> None:
    """Refuse, for a model on a server, what only a loop over tokens can guarantee."""
    constraint = output.constraint
    if not isinstance(constraint, CappedReasoning) and constraint.counts_tokens():
        raise OptionError(
            "a model on a server cannot count the tokens of a part (max_tokens)",
            hint="Load the model here: structgen.load(). Or limit the characters of the part.",
        )
    if isinstance(constraint, CappedReasoning):
        raise OptionError(
            "a model on a server cannot count the tokens of reasoning (max_tokens)",
            hint="Load the model here: structgen.load(). Or leave out max_tokens and set the server's own limit.",
        )


def check_model(model: object, needs_logits: str = "") -> None:
    """Raise `OptionError` for anything that is not a model, such as the name of one.

    Args:
        model: The argument.
        needs_logits: The name of the call, if it needs logits, which models on servers do not give.
    """
    if is_remote_model(model):
        if needs_logits:
            raise OptionError(
                f"{needs_logits} needs the model's logits at each token, which a server does not give: {model!r}",
                hint="Load the model here: structgen.load(). With a server, use generate, run, stream or prompt "
                "functions.",
            )
        return
    if not is_language_model(model):
        raise OptionError(
            f"the first argument is {a_kind(model)}, not a model",
            hint="Make one with structgen.load(), structgen.wrap(model, tokenizer) or structgen.connect(url).",
        )


def _check_cancel(cancel: object) -> None:
    if cancel is not None and not callable(cancel):
        raise OptionError(f"cancel is {a_kind(cancel)}; it must be a function that returns whether to stop")


def check_describe(describe: object) -> None:
    """Raise `OptionError` unless the option `describe` is a bool or None."""
    if describe is not None and not isinstance(describe, bool):
        raise OptionError(f"describe is {describe!r:.40}; it must be True, False or None")


def with_description(model: object, prompt: Prompt, kind: OutputType, describe: bool | None) -> Prompt:
    """Return the prompt, with a description of the type if `describe` is True, or None and the description helps.

    It helps small models with the fields of one object. It harms with a union of several, and in prompts with examples
    (docs/types.md has the figures). Requests to servers contain the schema.
    """
    check_describe(describe)
    prompt = prompt_of(prompt)
    if describe is None:
        is_plain = isinstance(prompt, str) or (
            isinstance(prompt, Sequence)
            and bool(prompt)
            and all(isinstance(message, Mapping) and message.get("role") != "assistant" for message in prompt)
        )
        describe = is_plain and kind.has_fields and not is_remote_model(model)
    return described(prompt, kind) if describe else prompt


def described(prompt: Prompt, kind: OutputType) -> Prompt:
    """Return the prompt with a description of the type: fields before it, instructions after it.

    In a list of messages, the last one gets the description.
    """
    prompt = prompt_of(prompt)
    if not kind.description:
        return prompt
    before, after = (f"{kind.description}\n\n", "") if kind.is_json else ("", f"\n\n{kind.description}")
    if isinstance(prompt, str):
        return f"{before}{prompt}{after}"
    *earlier, last = prompt or [{}]
    content = last.get("content")
    if isinstance(content, str):
        return [*earlier, {**last, "content": f"{before}{content}{after}"}]
    if isinstance(content, Sequence):  # parts of a message
        parts = [*([before] if before else []), *content, *([after] if after else [])]
        texts = [{"type": "text", "text": part} if isinstance(part, str) else part for part in parts]
        return [*earlier, {**last, "content": texts}]
    raise PromptError(
        "the prompt's last message has no content that a description could be added to",
        hint='Messages look like {"role": "user", "content": "..."}.',
    )
