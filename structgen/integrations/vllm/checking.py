"""Specs tried out where requests come in, so that bad ones are answered with a 400 and never reach the engine.

Why: in the engine a spec that fails is a 500, and compiling a hostile one there would hold up everybody.
What: `try_ahead` waits for the trial without holding up the event loop, `validate` is vLLM's own question, asked after
it, and finds the answer there. Without an event loop (`LLM`) `validate` alone waits.
Invariant: the message of a refusal is that of `StructgenError`, with its place and its hint. What passes (too many
specs wait, no process for them) is a 429 or 503 where vLLM has errors with a status of their own (0.32 and later), and
a 400 where it has not.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from http import HTTPStatus
from typing import Any

import vllm.exceptions
from vllm.exceptions import VLLMValidationError
from vllm.v1.structured_output.request import get_structured_output_key

from structgen.errors import StructgenError
from structgen.serving.checker import SpecChecker
from structgen.serving.requests import Kind
from structgen.serving.settings import read_settings
from structgen.serving.temporary_errors import temporary_status

from .backend import KIND_OF, vocabulary_of
from .metrics import register_metrics

__all__ = ["refuse_at_once", "try_ahead", "validate"]

_checkers: dict[int, tuple[Any, SpecChecker]] = {}
"""For each configuration of a model, which is kept so that its id stays its own."""
_lock = threading.Lock()
_AT_ONCE = 0.02


def validate(params: Any, model_config: Any, tokenizer: Any) -> None:
    """Raises `VLLMValidationError` where the structured output of `params` cannot be."""
    _check_setting(model_config, tokenizer)
    from .patches import NAME

    wanted = params.structured_outputs
    if wanted._backend not in (None, NAME):
        raise VLLMValidationError(
            f"The request asks for the structured output backend '{wanted._backend}', but the server has '{NAME}'."
        )
    wanted._backend = NAME
    kind, spec = _spec_of(wanted)
    try:
        _checker(model_config, tokenizer).check(kind, spec)
    except StructgenError as error:
        raise _refused(error) from None
    wanted.__post_init__()


def refuse_at_once(params: Any, model_config: Any) -> None:
    """Raises `VLLMValidationError` for a spec that is bad, if that is found out within `_AT_ONCE` seconds.

    Called where the answer has not begun, in the event loop: so it waits no longer. What takes longer is told later, to
    a stream as its first event.
    """
    wanted = getattr(params, "structured_outputs", None)
    known = _checkers.get(id(model_config))
    if wanted is None or known is None or wanted.all_constraints_none():
        return
    kind, spec = _spec_of(wanted)
    try:
        known[1].submit(kind, spec).result(_AT_ONCE)
    except StructgenError as error:
        raise _refused(error) from None
    except TimeoutError:
        pass


async def try_ahead(params: Any, model_config: Any, input_processor: Any) -> None:
    """Waits until the spec of a request is tried out; says nothing of the outcome, which `validate` finds.

    But where it cannot be tried out for now, it is refused here: `validate` would hold up the event loop for it.
    """
    wanted = getattr(params, "structured_outputs", None)
    tokenizer = getattr(input_processor, "tokenizer", None)
    if wanted is None or tokenizer is None or wanted.all_constraints_none():
        return
    passing: Exception | None = None
    with contextlib.suppress(VLLMValidationError, StructgenError):
        kind, spec = _spec_of(wanted)
        known = _checkers.get(id(model_config))
        # Reading the vocabulary takes a second, once.
        checker = known[1] if known else await asyncio.to_thread(_checker, model_config, tokenizer)
        try:
            await asyncio.wrap_future(checker.submit(kind, spec))
        except StructgenError as error:
            if temporary_status(error) is not None:
                passing = _refused(error)
    if passing is not None:
        raise passing


def _check_setting(model_config: Any, tokenizer: Any) -> None:
    if getattr(model_config, "is_diffusion", False):
        raise VLLMValidationError("Structured outputs are not supported for diffusion language models.")
    if tokenizer is None:
        raise VLLMValidationError("Structured outputs need a tokenizer, so not 'skip_tokenizer_init'.")


def _spec_of(wanted: Any) -> tuple[Kind, str]:
    """What is asked, as vLLM hands it to the backend later."""
    if wanted.json_object is False:
        raise VLLMValidationError("structured_outputs.json_object is true if it is there.")
    for name in ("disable_any_whitespace", "disable_additional_properties", "whitespace_pattern"):
        if getattr(wanted, name, None):
            raise VLLMValidationError(
                f"structured_outputs.{name} is not supported by structgen; white space is bounded, and the schema "
                "says what an object may have."
            )
    try:
        option, spec = get_structured_output_key(wanted)
    except (ValueError, TypeError, RecursionError) as error:
        raise VLLMValidationError(f"Invalid structured output: {error}") from None
    return KIND_OF[option], spec


def _checker(model_config: Any, tokenizer: Any) -> SpecChecker:
    with _lock:
        known = _checkers.get(id(model_config))
        if known is None:
            settings = read_settings()
            vocabulary = vocabulary_of(tokenizer, model_config.get_vocab_size())
            checker = SpecChecker(vocabulary, settings.limits, workers=settings.workers)
            known = _checkers[id(model_config)] = (model_config, checker)
            if len(_checkers) == 1:
                register_metrics(lambda: checker.stats)
        return known[1]


def _refused(error: StructgenError) -> Any:
    """The exception by which vLLM tells it."""
    status = temporary_status(error)
    with_status: Any = getattr(vllm.exceptions, "GracefulHTTPError", None)
    if status is None or with_status is None:
        return VLLMValidationError(str(error))
    return with_status(str(error), HTTPStatus(status))
