"""Which drafts a call has: none, those of a `Speculation` that the caller made, or the model's own.

A model's own `Speculation` is made when it is first wanted, and learns from one request to the next as long as the
model lives: how often guesses are right, what a pass costs, texts of earlier requests under the same constraint.
"""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Sequence
from typing import Any

from structgen.errors import OptionError, a_kind
from structgen.generation.options import SamplingOptions
from structgen.protocols import is_language_model

from .ahead import RunAhead
from .drafters import Start
from .driver import Speculation
from .guarded import SpeculationWarning
from .run import Run

__all__ = ["drafting_of", "reading_ahead_of", "speculation_of"]

_own: weakref.WeakKeyDictionary[Any, Speculation] = weakref.WeakKeyDictionary()


def speculation_of(model: Any) -> Speculation:
    """The one that calls with ``speculate=True`` share."""
    if not is_language_model(model):
        raise OptionError(
            f"`speculation_of` takes a structgen model; this is {a_kind(model)}",
            hint="What structgen.load(...) or structgen.wrap(model, tokenizer) gave.",
        )
    found = _own.get(model)
    if found is None:
        found = _own[model] = Speculation()
    return found


def drafting_of(model: Any, options: SamplingOptions | Sequence[SamplingOptions]) -> Run | None:
    """The drafts of one generation; None where no row wants any."""
    each = [options] if isinstance(options, SamplingOptions) else options
    asked = {id(one.speculate): one.speculate for one in each if one.speculate is not False}
    if not asked:
        return None
    if len(asked) > 1:
        raise OptionError(
            "rows of one batch have different values of `speculate`",
            hint="Give all rows the same Speculation, or False to some of them.",
        )
    (chosen,) = asked.values()
    return _chosen(model, chosen).start(model, told=chosen is not True)


def reading_ahead_of(
    model: Any,
    speculate: Any,
    prompt: Sequence[int],
    matcher: Any,
    *,
    temperature: float,
    max_tokens: int,
    sampler: str,
    gives_up: bool = False,
) -> RunAhead | None:
    """What a sampler's rows read ahead (see `RunAhead`); None where nothing is wanted."""
    if speculate is False or speculate is None:
        return None
    speculation = _chosen(model, speculate)
    speculation.check_vocabulary(model)
    start = Start(tuple(prompt), model.vocabulary, matcher.constraint, temperature, model)
    told = speculate is not True
    if told and speculation.verifier.drafted != "any":
        warnings.warn(
            f"samplers read laws ahead and draw as without; {type(speculation.verifier).__name__} is not used",
            SpeculationWarning,
            stacklevel=2,
        )
    return RunAhead(speculation, start, max_tokens=max_tokens, sampler=sampler, gives_up=gives_up, told=told)


def _chosen(model: Any, speculate: Any) -> Speculation:
    if isinstance(speculate, Speculation):
        return speculate
    if speculate is not True:
        raise OptionError(f"`speculate` is {speculate!r:.60}; it must be True, False or a Speculation")
    try:
        return speculation_of(model)
    except TypeError:  # a model that nothing can point to weakly has none of its own
        return Speculation()
