"""Which drafts a call uses: none, those of the caller's `Speculation`, or those of the model's own one.

A model's own `Speculation` is made when it is first needed, and learns from one request to the next as long as the
model lives: acceptance rates, durations of forward passes, texts of earlier requests under the same constraint.
"""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from structgen.errors import OptionError, a_kind
from structgen.generation.options import SamplingOptions
from structgen.protocols import is_language_model, layer_count_of

from .drafters import Drafter, Start
from .generation_drafts import GenerationDrafts
from .guarded import SpeculationWarning
from .lossy import is_lossy
from .sampler_drafts import SamplerDrafts
from .speculation import Speculation

if TYPE_CHECKING:
    from structgen.protocols import LanguageModel, TokenMatcher

__all__ = ["default_drafters", "generation_drafts_of", "sampler_drafts_of", "speculation_of"]

_own: weakref.WeakKeyDictionary[Any, Speculation] = weakref.WeakKeyDictionary()


def default_drafters(model: LanguageModel) -> tuple[Drafter, ...]:
    """Return the drafters that calls on `model` use by default.

    These are the ones of ``Speculation()``, and the learned one if structgen comes with weights for the model.
    """
    drafters = Speculation().drafters
    if layer_count_of(model) is None:
        return drafters
    try:
        from .learned.shipped_weights import shipped_drafter
    except ImportError:  # a model of another library, without torch
        return drafters
    try:
        learned = shipped_drafter(model)
    except Exception as error:  # noqa: BLE001 — a text must not depend on what drafts it
        warnings.warn(
            f"the drafter that comes with structgen is not used: {error}", SpeculationWarning, stacklevel=2
        )
        learned = None
    return drafters if learned is None else (*drafters, learned)


def speculation_of(model: LanguageModel) -> Speculation:
    """Return the `Speculation` that all calls on `model` with ``speculate=True`` share.

    Raises:
        OptionError: `model` is not a structgen model.
    """
    if not is_language_model(model):
        raise OptionError(
            f"`speculation_of` takes a structgen model; this is {a_kind(model)}",
            hint="Give the result of structgen.load(...) or structgen.wrap(model, tokenizer).",
        )
    speculation = _own.get(model)
    if speculation is None:
        speculation = _own[model] = Speculation(default_drafters(model))
    return speculation


def generation_drafts_of(
    model: LanguageModel, options: SamplingOptions | Sequence[SamplingOptions]
) -> GenerationDrafts | None:
    """Return the drafts of one generation; None if no row wants any."""
    each = [options] if isinstance(options, SamplingOptions) else options
    requested = {
        id(row_options.speculate): row_options.speculate
        for row_options in each
        if row_options.speculate is not False
    }
    if not requested:
        return None
    if len(requested) > 1:
        raise OptionError(
            "rows of one batch have different values of `speculate`",
            hint="Give all rows the same Speculation, or False to some of them.",
        )
    (chosen,) = requested.values()
    return _chosen(model, chosen).start(model, warns=chosen is not True)


def sampler_drafts_of(
    model: LanguageModel,
    speculate: object,
    prompt: Sequence[int],
    matcher: TokenMatcher,
    *,
    temperature: float,
    max_tokens: int,
    sampler: str,
    gives_up: bool = False,
) -> SamplerDrafts | None:
    """Return the drafts of one call of a sampler; None if it wants none."""
    if speculate is False or speculate is None:
        return None
    speculation = _chosen(model, speculate)
    speculation.check_vocabulary(model)
    start = Start(tuple(prompt), model.vocabulary, matcher.constraint, temperature, model)
    is_explicit = speculate is not True
    if is_explicit and (speculation.verifier.drafted != "any" or is_lossy(speculation.verifier)):
        warnings.warn(
            f"samplers draw as they do without drafts; {type(speculation.verifier).__name__} is not used",
            SpeculationWarning,
            stacklevel=2,
        )
    return SamplerDrafts(
        speculation, start, max_tokens=max_tokens, sampler=sampler, gives_up=gives_up, warns=is_explicit
    )


def _chosen(model: LanguageModel, speculate: object) -> Speculation:
    if isinstance(speculate, Speculation):
        return speculate
    if speculate is not True:
        raise OptionError(f"`speculate` is {speculate!r:.60}; it must be True, False or a Speculation")
    try:
        return speculation_of(model)
    except TypeError:  # there are no weak references to this model
        return Speculation(default_drafters(model))
