"""`sample`: many draws of a model under a constraint and potentials, as a `Posterior`.

Why: one call for every sampler; what a draw means is the same for all of them.
Cost: of a draw, see the sampler; `learned` keeps what was found out for the next call under the same prompt.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from structgen.api import check_model, described
from structgen.errors import DeadEnd, GenerationError, LimitExceeded, OptionError, OutputInvalid
from structgen.known_laws import KnownLaws
from structgen.matcher import Matcher
from structgen.posterior import Posterior
from structgen.progress import ProgressBar
from structgen.sampling.beams import Beam, beam_search
from structgen.sampling.conditions import Condition, Potential
from structgen.sampling.drawing import Limits, Task, draw
from structgen.sampling.options import SamplingOptions, row_seed
from structgen.sampling.prefixes import PrefixBatch
from structgen.sampling.samplers import Sampler, WalkSampler, sampler_of
from structgen.types import OutputType, output_type

if TYPE_CHECKING:
    from structgen.models.base import LanguageModel, Prompt

__all__ = ["Found", "KnownLaws", "beam", "sample", "sample_async"]


def sample(
    model: LanguageModel,
    prompt: Prompt,
    output: Any = str,
    *,
    n: int = 1,
    sampler: str | Sampler = "exact",
    potentials: Potential | Sequence[Potential] = (),
    temperature: float = 1.0,
    max_tokens: int = 512,
    seed: int | Sequence[int] | None = None,
    describe: bool = False,
    max_seconds: float | None = None,
    max_calls: int | None = None,
    max_attempts: int | None = None,
    cancel: Callable[[], bool] | None = None,
    progress: bool = False,
    learned: KnownLaws | None = None,
    **refused: Any,
) -> Posterior[Any]:
    """Draws `n` texts of `output` from the model conditioned on it, as the sampler says.

    output       a constraint, or a type as in `generate`
    potentials   conditions of your own (`structgen.potential`), hard or soft
    max_seconds, max_calls (rows that the model reads), max_attempts (walks or particles)
                 end the sampling early: there are fewer draws then, and `account.stopped` says why
    learned      a `KnownLaws` that an earlier call with the same arguments was given, or a new one

    Raises `DeadEnd` or `LimitExceeded` where there is nothing to give back.
    """
    check_model(model)
    _refuse(refused, temperature)
    chosen = sampler_of(sampler)
    options = SamplingOptions(temperature=temperature, max_tokens=max_tokens, seed=seed)
    if not isinstance(n, int) or isinstance(n, bool) or n < 1:
        raise OptionError(f"n is {n!r:.40}; it is how many texts are drawn, 1 or more")
    kind = _output(output)
    parts = [potentials] if isinstance(potentials, Potential) else list(potentials)
    if wrong := [one for one in parts if not isinstance(one, Potential)]:
        raise OptionError(
            f"potentials holds {wrong[0]!r:.60}", hint="Make one with structgen.potential(function)."
        )
    ids = model.encode(described(prompt, kind) if describe else prompt)
    task = Task(
        model,
        ids,
        Matcher(kind.constraint, model.vocabulary),
        Condition(parts),
        float(temperature),
        options.max_tokens,
        row_seed(seed, 0),
        Limits(max_seconds, max_calls, max_attempts, cancel),
    )
    if learned is not None:
        if not isinstance(chosen, WalkSampler):
            raise OptionError(
                f"{type(chosen).__name__} does not learn from draw to draw, so it takes no learned=...",
                hint="Exact, ASAp, AdaptiveRejection and Rejection do.",
            )
        task.trie = learned.trie_for(task, type(chosen).__name__, parts)
    draws = []
    with ProgressBar(n, "sample", progress) as advance:
        for one in draw(task, n, chosen):
            draws.append(one)
            advance(1)
    if not draws:
        raise _nothing(task)
    texts = [model.decode(one.tokens) for one in draws]
    return Posterior(draws, texts, kind, chosen, task.account)


async def sample_async(
    model: LanguageModel, prompt: Prompt, output: Any = str, **options: Any
) -> Posterior[Any]:
    """The same as `sample`, without blocking the event loop; cancelling it stops the sampling."""
    stop = threading.Event()
    asked: Callable[[], bool] | None = options.pop("cancel", None)

    def cancelled() -> bool:
        return stop.is_set() or (asked is not None and asked())

    try:
        return await asyncio.to_thread(sample, model, prompt, output, cancel=cancelled, **options)
    finally:
        stop.set()


@dataclass(frozen=True)
class Found:
    """A text that beam search found."""

    text: str
    value: Any
    """None where the output type's own validators reject the text."""
    log_prob: float
    score: float
    group: int


def beam(
    model: LanguageModel,
    prompt: Prompt,
    output: Any = str,
    *,
    width: int = 8,
    groups: int = 1,
    diversity: float = 0.5,
    length_penalty: float = 0.0,
    max_tokens: int = 512,
    describe: bool = False,
) -> list[Found]:
    """The most probable texts of `output` that beam search finds, best first: at most `width`.

    groups, diversity   that many beams side by side, which pay `diversity` (in log probability) for a token that
                        earlier ones chose in the same step
    length_penalty      a text's score is its log probability over its length to this power

    Raises `DeadEnd` where no text ends within `max_tokens`.
    """
    check_model(model)
    for name, value in (("width", width), ("groups", groups)):
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise OptionError(f"{name} is {value!r:.40}; it is a whole number of 1 or more")
    if groups > width:
        raise OptionError(f"groups={groups} are more than width={width}", hint="Each group needs a text.")
    if not diversity >= 0 or not length_penalty >= 0:
        raise OptionError("diversity and length_penalty are 0 or more")
    options = SamplingOptions(max_tokens=max_tokens)
    kind = _output(output)
    ids = model.encode(described(prompt, kind) if describe else prompt)
    found = beam_search(
        PrefixBatch(model, ids),
        Matcher(kind.constraint, model.vocabulary),
        width=width,
        groups=groups,
        diversity=diversity if groups > 1 else 0.0,
        length_penalty=length_penalty,
        max_tokens=options.max_tokens,
    )
    if not found:
        raise DeadEnd(
            f"beam search found no text of at most {max_tokens} tokens", text="", hint="Raise max_tokens."
        )
    return [_found(model, kind, one) for one in found]


def _found(model: LanguageModel, kind: OutputType, one: Beam) -> Found:
    text = model.decode(one.tokens)
    try:
        value = kind.validate(text)
    except OutputInvalid:
        value = None
    return Found(text, value, one.log_prob, one.score, one.group)


def _output(output: Any) -> OutputType:
    if isinstance(output, Potential):
        raise OptionError(
            "the output is a potential", hint="Give it as potentials=..., beside a type or a constraint."
        )
    return output_type(output)


def _refuse(given: dict[str, Any], temperature: Any) -> None:
    for name in ("top_k", "top_p", "min_p"):
        if given.pop(name, None) is not None:
            raise OptionError(
                f"sample() takes no {name}: a cut law depends on the mask, so that draws would no longer be from "
                "the model conditioned on the constraint",
                hint="Leave it out; structgen.generate(...) takes it.",
            )
    if given:
        raise OptionError(f"unknown option {next(iter(given))!r} of sample()")
    if not isinstance(temperature, int | float) or isinstance(temperature, bool) or not temperature > 0:
        raise OptionError(
            f"temperature is {temperature!r:.40}; sampling needs one above 0",
            hint="structgen.generate(...) is greedy at 0.",
        )


def _nothing(task: Task) -> GenerationError | LimitExceeded:
    account = task.account
    error: GenerationError | LimitExceeded = DeadEnd(
        "no text was drawn: the constraint has no mass under the model", text=""
    )
    if account.stopped is not None:
        error = LimitExceeded(
            f"no text was drawn within {account.stopped}: {account.attempts} attempts, {account.calls} model calls, "
            f"{account.seconds:.1f} s",
            limit=account.stopped,
            hint="Raise it, or take a weighted sampler (structgen.ASAp(), structgen.SMC()), which gives up nothing.",
        )
    error.account = account
    return error
