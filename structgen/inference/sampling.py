"""`sample`: many draws of a model under a constraint and potentials, as a `Posterior`.

Why: one call for every sampler; the meaning of a draw is the same for all of them.
Cost: that of the sampler for each draw. `learned` keeps what exact samplers learn for later calls with the same prompt.
"""

from __future__ import annotations

import asyncio
import math
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from structgen.api import check_model
from structgen.argument_names import checks_names
from structgen.errors import DeadEnd, GenerationError, LimitExceeded, OptionError, a_kind
from structgen.generation.options import SamplingOptions, row_seed
from structgen.generation.potentials import Condition, Potential, Product
from structgen.inference.drawing import Draw, Task, draw
from structgen.inference.known_distributions import KnownDistributions
from structgen.inference.posterior import Posterior
from structgen.inference.requests import (
    is_number,
    limits_of,
    open_request,
    output_text,
    unknown_option,
    whole_number,
)
from structgen.inference.samplers import (
    AWRS,
    MH,
    SMC,
    AdaptiveRejection,
    Exact,
    LocalMasking,
    Rejection,
    Sampler,
    WalkSampler,
    sampler_of,
)
from structgen.progress import ProgressBar
from structgen.speculative.defaults import sampler_drafts_of
from structgen.speculative.guarded import SpeculationWarning
from structgen.speculative.speculation import Speculation
from structgen.types import OutputType, output_type

if TYPE_CHECKING:
    from structgen.protocols import LanguageModel, Prompt
    from structgen.speculative import Speculation

__all__ = ["KnownDistributions", "sample", "sample_async"]


@checks_names
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
    learned: KnownDistributions | None = None,
    speculate: bool | Speculation = True,
    **refused: Any,
) -> Posterior[Any]:
    """Draw `n` texts of `output` from the model conditioned on it.

    Args:
        model: The language model.
        prompt: A text or messages.
        output: A constraint, or a type as in `generate`; ``output & potential`` adds a potential.
        n: The number of draws. Particles come in whole runs, so `SMC` returns at least as many, minus those without a
            text (`account.lost`).
        sampler: A sampler or its name, such as ``"exact"`` or ``structgen.inference.SMC(32)``.
        potentials: Conditions of your own (`structgen.inference.potential`), hard or soft.
        temperature: The sampling temperature, above 0.
        max_tokens: The largest number of tokens of a text, before its end; less if the model's context has less room.
        seed: The seed; None for a fresh one.
        describe: Whether to describe the type in the prompt.
        max_seconds: A limit of time. The sampler ends early: there are fewer draws, and `account.stopped` names the
            limit. It may be exceeded by one step.
        max_calls: A limit of next-token distributions, likewise.
        max_attempts: A limit of walks, particles or chains. Those in progress are finished.
        cancel: Called at each step; True ends the sampler like a limit.
        progress: Whether to show a bar (tqdm).
        learned: A `KnownDistributions`, new or from an earlier call with the same arguments.
        speculate: Whether to draft tokens where that pays: the same draws in fewer forward passes (not for `MH`). A
            `structgen.Speculation` configures the drafters.

    Returns:
        The draws with their weights.

    Raises:
        DeadEnd: There is no text to return.
        LimitExceeded: A limit ended the sampler before the first text.
        OptionError: An argument is not valid.

    An error in the middle (of a potential, of the model, or an interrupt) has the draws so far as its `partial`
    posterior.
    """
    check_model(model, "sample()")
    _refuse(refused, temperature)
    chosen = sampler_of(sampler)
    options = SamplingOptions(
        temperature=float(temperature), max_tokens=max_tokens, seed=seed, speculate=speculate
    )
    count = whole_number("n", n, 1, "it must be the number of draws, a whole number")
    limits = limits_of(max_seconds, max_calls, max_attempts, cancel)
    kind, parts = _condition(output, potentials)
    ids, matcher, room = open_request(model, prompt, kind, describe=describe, max_tokens=options.max_tokens)
    task = Task(model, ids, matcher, Condition(parts), float(temperature), room, row_seed(seed, 0), limits)
    with _with_known_distributions(learned, task, chosen), _with_drafts(task, chosen, speculate):
        draws = _collect_draws(task, count, kind, chosen, progress)
    if not draws:
        raise _no_draw_error(task, chosen)
    return _posterior(draws, kind, chosen, task)


def _collect_draws(task: Task, count: int, kind: OutputType, sampler: Sampler, progress: bool) -> list[Draw]:
    """Return the draws; an error carries those before it, because they may have cost hours."""
    draws: list[Draw] = []
    try:
        with ProgressBar(count, "sample", progress) as bar:
            if progress:
                task.watch = lambda account: bar.say(attempts=account.attempts, calls=account.calls)
            for drawn in draw(task, count, sampler):
                draws.append(drawn)
                bar.advance()
    except BaseException as error:  # also where memory runs out or a user interrupts
        vars(error)["account"] = task.account
        if draws:
            vars(error)["partial"] = _posterior(draws, kind, sampler, task)
        raise
    return draws


def _posterior(draws: list[Draw], kind: OutputType, sampler: Sampler, task: Task) -> Posterior[Any]:
    texts = [output_text(task.model, kind, drawn.tokens) for drawn in draws]
    return Posterior(draws, texts, kind, sampler, task.account)


@contextmanager
def _with_drafts(task: Task, sampler: Sampler, speculate: object) -> Iterator[None]:
    """Give the task drafts inside the block, if they are wanted and useful."""
    if isinstance(sampler, MH):
        if isinstance(speculate, Speculation):
            warnings.warn("MH uses no drafts", SpeculationWarning, stacklevel=2)
    else:
        task.drafting = sampler_drafts_of(
            task.model,
            speculate,
            task.prompt,
            task.matcher,
            temperature=task.temperature,
            max_tokens=task.max_tokens,
            sampler=type(sampler).__name__,
            gives_up=isinstance(sampler, Exact | AdaptiveRejection | Rejection),
        )
    try:
        yield
    finally:
        if task.drafting is not None:
            task.drafting.close()


@contextmanager
def _with_known_distributions(learned: object, task: Task, sampler: Sampler) -> Iterator[None]:
    """Give the task what was learned before, and reserve it for this call until it ends."""
    if learned is None:
        yield
        return
    if not isinstance(learned, KnownDistributions):
        raise OptionError(
            f"learned is {a_kind(learned)}", hint="Give it a structgen.inference.KnownDistributions()."
        )
    if not isinstance(sampler, WalkSampler):
        raise OptionError(
            f"{type(sampler).__name__} does not learn from draw to draw, so it takes no learned=...",
            hint="Exact, ASAp, AdaptiveRejection and Rejection do.",
        )
    with learned.held(task.limit_reached) as is_mine:
        if not is_mine:
            raise LimitExceeded(
                f"no text was drawn within {task.account.stopped}: another call used the same KnownDistributions",
                limit=task.account.stopped or "",
                hint="Calls that share KnownDistributions wait for one another.",
            )
        task.trie = learned.trie_for(task, type(sampler).__name__, task.condition.potentials)
        yield


async def sample_async(
    model: LanguageModel, prompt: Prompt, output: Any = str, **options: Any
) -> Posterior[Any]:
    """Sample as `sample` does, without blocking the event loop; cancelling the task stops the sampler."""
    stop = threading.Event()
    given_cancel = limits_of(None, None, None, options.pop("cancel", None)).cancel

    def cancelled() -> bool:
        return stop.is_set() or (given_cancel is not None and given_cancel())

    try:
        return await asyncio.to_thread(sample, model, prompt, output, cancel=cancelled, **options)
    finally:
        stop.set()


def _condition(output: Any, potentials: object) -> tuple[OutputType, list[Potential]]:
    """Return the output type and all potentials."""
    if isinstance(output, Potential):
        output = Product(None, (output,))
    parts = list(output.potentials) if isinstance(output, Product) else []
    if isinstance(output, Product):
        output = str if output.output is None else output.output
    if (
        not isinstance(potentials, (Potential, Iterable))
        or isinstance(potentials, str)
        or callable(potentials)
    ):
        raise OptionError(
            f"potentials is {a_kind(potentials)}",
            hint="Make one with structgen.inference.potential(function).",
        )
    parts += [potentials] if isinstance(potentials, Potential) else list(potentials)
    if wrong := [part for part in parts if not isinstance(part, Potential)]:
        raise OptionError(
            f"potentials holds {wrong[0]!r:.60}",
            hint="Make one with structgen.inference.potential(function).",
        )
    kind = output_type(output)
    # A monitored constraint may refuse tokens when they are read, so its monitors become a potential.
    condition = kind.constraint.as_condition()
    if condition is not None:
        constraint, judge = condition
        return replace(kind, constraint=constraint), [*parts, judge]
    return kind, parts


def _refuse(given: dict[str, Any], temperature: Any) -> None:
    for name in ("top_k", "top_p", "min_p"):
        if given.pop(name, None) is not None:
            raise OptionError(
                f"sample() takes no {name}: truncation depends on the mask, so draws would no longer be from "
                "the model conditioned on the constraint",
                hint="Leave it out; structgen.generate(...) takes it.",
            )
    for name in ("frequency_penalty", "presence_penalty", "repetition_penalty", "logit_bias"):
        if given.pop(name, None) is not None:
            raise OptionError(
                f"sample() takes no {name}: it draws from the model's own distribution",
                hint="Change the model's logits by structgen.models.with_processors(model, ...).",
            )
    if given:
        raise unknown_option(next(iter(given)), sample)
    if not is_number(temperature) or not temperature > 0:
        raise OptionError(
            f"temperature is {temperature!r:.40}; sampling needs one above 0",
            hint="structgen.generate(...) is greedy at 0.",
        )


def _probability_advice(log_most: float) -> str | None:
    """Return advice if the model gives little probability to the texts of the constraint."""
    if not log_most < math.log(0.01):
        return None
    return (
        f"The texts of the constraint have at most {math.exp(log_most):.1g} of the model's probability after this "
        "prompt; a prompt that shows the form of the answer needs fewer calls."
    )


def _no_draw_error(task: Task, sampler: Sampler) -> GenerationError | LimitExceeded:
    """Return the error that explains why there is no draw, and what may help."""
    account, lost = task.account, task.account.lost
    spent = f"{account.attempts} attempts, {account.calls} model calls, {account.seconds:.1f} s"
    causes = f" ({', '.join(f'{cause}: {times}' for cause, times in lost.most_common())})" if lost else ""
    error: GenerationError | LimitExceeded
    if account.stopped in ("cancel", "patience"):
        what = "it was cancelled" if account.stopped == "cancel" else "patience ran out"
        error = LimitExceeded(
            f"no text was drawn: {what} after {spent}{causes}",
            limit=account.stopped,
            hint=_sampler_advice(sampler),
        )
    elif account.stopped is not None:
        advice = (
            " ".join(filter(None, (_probability_advice(account.log_z_bounds[1]), _sampler_advice(sampler))))
            or None
        )
        error = LimitExceeded(
            f"no text was drawn within {account.stopped}: {spent}{causes}",
            limit=account.stopped,
            hint="Raise it." if advice is None else f"Raise it. {advice}",
        )
    elif lost["refused"]:
        error = DeadEnd(
            f"no text was drawn: potentials rejected all that the model wrote under the constraint{causes}",
            text="",
            hint="Check that each potential accepts a text that you expect.",
        )
    elif lost["max_tokens"]:
        error = DeadEnd(
            f"no text was drawn: what the model wrote under the constraint did not end within {task.max_tokens} "
            f"tokens{causes}",
            text="",
            hint="Raise max_tokens.",
        )
    else:
        error = DeadEnd(f"no text was drawn: the model gives the constraint no probability{causes}", text="")
    error.account = account
    return error


def _sampler_advice(sampler: Sampler) -> str | None:
    if isinstance(sampler, Exact | AdaptiveRejection | Rejection):
        return (
            "A weighted sampler (structgen.inference.ASAp(), structgen.inference.SMC()) gives no attempt up."
        )
    if isinstance(sampler, SMC | LocalMasking | AWRS):
        return (
            "Let potentials judge prefixes (prefix=...), so that texts without a future are abandoned early."
        )
    return None
