"""The calls: a model, a prompt and an output type in; a value, a `Result` or a stream of partial values out.

Why: one path from prompt to value, which prompt functions, the command line and servers share.
Invariant: `generate`, `run` and `stream` draw the same text for the same options and seed.
Cost: beside the sampling, one reading of the type (kept) and of the constraint (kept per vocabulary).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeGuard, TypeVar, overload

from structgen import reasking
from structgen.constraints.composition import CappedReasoning
from structgen.errors import OptionError, PromptError, a_kind
from structgen.matcher import open_matcher
from structgen.reasking import EncodedPrompt
from structgen.results import Result
from structgen.sampling import Generation, SamplingOptions, generate_steps, generate_tokens
from structgen.sampling.conditions import Potential, Product
from structgen.sampling.options import make_options
from structgen.speculative.defaults import drafting_of
from structgen.streams import ItemStream, Stream
from structgen.types import OutputType, output_type

if TYPE_CHECKING:
    from structgen.models.base import LanguageModel, Prompt

__all__ = [
    "AnsweringModel",
    "answers_itself",
    "check_model",
    "encoded",
    "generate",
    "run",
    "run_batch",
    "run_encoded",
    "stream",
    "stream_items",
]

T = TypeVar("T")
Cancel = Callable[[], bool]


class AnsweringModel(Protocol):
    """A model that is given prompts and gives texts; nobody sees its tokens and logits (see `structgen.remote`)."""

    def answers(
        self,
        prompts: Sequence[Prompt],
        output: OutputType,
        options: Sequence[SamplingOptions],
        *,
        cancel: Cancel | None = None,
    ) -> list[Result[Any]]:
        """One result for each prompt; raises only where it cannot ask at all."""
        ...

    def answer_steps(
        self, prompt: Prompt, output: OutputType, options: SamplingOptions, *, cancel: Cancel | None = None
    ) -> Iterator[Any]:
        """Steps with the `text` so far; the last one has the `generation`."""
        ...


@overload
def generate(
    model: LanguageModel, prompt: Prompt, output: type[T], *, describe: bool = ..., **options: Any
) -> T: ...
@overload
def generate(
    model: LanguageModel, prompt: Prompt, output: Any = ..., *, describe: bool = ..., **options: Any
) -> Any: ...
def generate(
    model: LanguageModel, prompt: Prompt, output: Any = str, *, describe: bool = False, **options: Any
) -> Any:
    """The model's answer to `prompt` as a value of type `output`.

    `describe` adds the fields of the type and their descriptions to the prompt. The options are those of
    `SamplingOptions`; ``attempts=3`` shows the model what a validator refused and draws again, at most twice. Raises
    `Truncated`, `DeadEnd` or `OutputInvalid` where there is no valid value.
    """
    options.setdefault("exact_weight", False)  # nobody sees the weight
    result: Result[Any] = run(model, prompt, output, describe=describe, **options)
    return result.value


@overload
def run(
    model: LanguageModel,
    prompt: Prompt,
    output: type[T],
    *,
    describe: bool = ...,
    cancel: Cancel | None = ...,
    **options: Any,
) -> Result[T]: ...
@overload
def run(
    model: LanguageModel,
    prompt: Prompt,
    output: Any = ...,
    *,
    describe: bool = ...,
    cancel: Cancel | None = ...,
    **options: Any,
) -> Result[Any]: ...
def run(
    model: LanguageModel,
    prompt: Prompt,
    output: Any = str,
    *,
    describe: bool = False,
    cancel: Cancel | None = None,
    **options: Any,
) -> Result[Any]:
    """The model's answer with its text, weights and timing. Raises only where generation cannot start."""
    kind = _kind(output)
    chosen = make_options(options)
    asked = described(prompt, kind) if describe else prompt
    (result,) = run_batch(model, [asked], kind, [chosen], cancel=cancel)
    return result


def run_batch(
    model: LanguageModel,
    prompts: Sequence[Prompt],
    output: OutputType,
    options: Sequence[SamplingOptions],
    *,
    cancel: Cancel | None = None,
) -> list[Result[Any]]:
    """One result per prompt, drawn together in one batch; `attempts` of the options draws failed ones again."""
    check_model(model)
    return run_encoded(model, [encoded(model, prompt) for prompt in prompts], output, options, cancel=cancel)


def encoded(model: LanguageModel, prompt: Prompt) -> Any:
    """What `run_encoded` takes: a prompt with its tokens; for a model behind a server the prompt as it is."""
    return prompt if answers_itself(model) else EncodedPrompt(prompt, model.encode(prompt))


def run_encoded(
    model: LanguageModel,
    prompts: Sequence[Any],
    output: OutputType,
    options: Sequence[SamplingOptions],
    *,
    cancel: Cancel | None = None,
) -> list[Result[Any]]:
    """The same for prompts that were given to `encoded`."""
    if answers_itself(model):
        _check_answerable(output)
        return model.answers(prompts, output, options, cancel=cancel)

    def draw(ids: Sequence[Sequence[int]], each: Sequence[SamplingOptions]) -> Sequence[Generation]:
        matchers = [open_matcher(output.constraint, model.vocabulary) for _ in ids]
        drafting = drafting_of(model, each)
        return generate_tokens(model, ids, matchers, each, cancel=cancel, drafting=drafting)

    return reasking.answers(model, prompts, output, options, draw)


def stream(
    model: LanguageModel,
    prompt: Prompt,
    output: Any = str,
    *,
    describe: bool = False,
    cancel: Cancel | None = None,
    **options: Any,
) -> Stream[Any]:
    """Partial values as they grow, each different from the one before; the last one is whole and validated.

    Where ``attempts`` allows another attempt, the values start again after an answer that is not valid.

    Raises as `generate` does, after the last partial value. Dropping the iterator stops the generation.
    `Stream.is_complete` says which parts of the last partial value are finished.
    """
    kind = _kind(output)
    return Stream(kind, _steps(model, prompt, kind, describe, cancel, options))


def stream_items(
    model: LanguageModel,
    prompt: Prompt,
    output: Any,
    *,
    path: str | Sequence[str | int] = (),
    describe: bool = False,
    cancel: Cancel | None = None,
    **options: Any,
) -> ItemStream[Any]:
    """The items of a list, one by one, each validated as soon as the model has finished it.

    Args:
        model: The model.
        prompt: The prompt.
        output: A type that is a list (``list[Person]``), or has one at `path`.
        path: Where the list is, as ``"order.items"``; empty where the output itself is the list.
        describe: Add the fields of the type and their descriptions to the prompt.
        cancel: Called between tokens; generation stops when it returns True.
        **options: Those of `SamplingOptions`.

    Raises:
        OptionError: `output` has no list at `path`.
        OutputInvalid: While iterating, where a validator refuses an item.
        Truncated: While iterating, after the items that are finished.
    """
    kind = _kind(output)
    return ItemStream(kind, _steps(model, prompt, kind, describe, cancel, options), path)


def _steps(
    model: LanguageModel,
    prompt: Prompt,
    kind: OutputType,
    describe: bool,
    cancel: Cancel | None,
    options: dict[str, Any],
) -> Iterator[Any]:
    """The generation step by step: each has the text so far, the last one the generation."""
    check_model(model)
    options.setdefault("exact_weight", False)
    chosen = make_options(options)
    asked = described(prompt, kind) if describe else prompt
    if answers_itself(model):
        _check_answerable(kind)
        return model.answer_steps(asked, kind, chosen, cancel=cancel)
    first = EncodedPrompt(asked, model.encode(asked))
    matchers = [open_matcher(kind.constraint, model.vocabulary)]  # an impossible constraint shows here

    def draw(ids: Sequence[int], each: SamplingOptions) -> Iterator[Any]:
        matcher = matchers.pop() if matchers else open_matcher(kind.constraint, model.vocabulary)
        drafting = drafting_of(model, each)
        return generate_steps(model, [ids], [matcher], each, cancel=cancel, drafting=drafting)

    return reasking.steps(model, first, kind, chosen, draw)


def _kind(output: Any) -> OutputType:
    if isinstance(output, Potential | Product):
        raise OptionError("masks alone know nothing of potentials", hint="structgen.sample(...) takes them.")
    return output_type(output)


def answers_itself(model: Any) -> TypeGuard[AnsweringModel]:
    """Is it a model behind a server?"""
    return hasattr(model, "answer_steps")


def _check_answerable(output: OutputType) -> None:
    """Refuse what only a loop over tokens can keep, for a model behind a server."""
    if isinstance(output.constraint, CappedReasoning):
        raise OptionError(
            "a model behind a server cannot count the tokens of reasoning (max_tokens)",
            hint="Load the model here: structgen.load(). Or leave out max_tokens and set the server's own limit.",
        )


def check_model(model: Any, needs_logits: str = "") -> None:
    """Raise where `model` is something else, such as the name of one.

    `needs_logits`: the call that asks, if it can do nothing with a model that gives texts only.
    """
    if answers_itself(model):
        if needs_logits:
            raise OptionError(
                f"{needs_logits} needs the model's logits at each token, which a server does not give: {model!r}",
                hint="Load the model here: structgen.load(). Of a server, generate, run, stream and prompt "
                "functions can ask.",
            )
        return
    if not hasattr(model, "start") or not hasattr(model, "vocabulary"):
        raise OptionError(
            f"the first argument is {a_kind(model)}, not a model",
            hint="Make one with structgen.load(), structgen.wrap(model, tokenizer) or structgen.connect(url).",
        )


def described(prompt: Prompt, kind: OutputType) -> Prompt:
    """The prompt with what the type says about itself; in messages it goes to the last one."""
    if not kind.description:
        return prompt
    if isinstance(prompt, str):
        return f"{prompt}\n\n{kind.description}"
    *before, last = prompt or [{}]
    content = last.get("content")
    if isinstance(content, str):
        return [*before, {**last, "content": f"{content}\n\n{kind.description}"}]
    if isinstance(content, Sequence):  # parts of a message
        return [*before, {**last, "content": [*content, {"type": "text", "text": kind.description}]}]
    raise PromptError(
        "the prompt's last message has no content that a description could be added to",
        hint='Messages look like {"role": "user", "content": "..."}.',
    )
