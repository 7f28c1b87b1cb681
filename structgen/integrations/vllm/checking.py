"""Probe specs where requests come in, so that faulty ones get a 400 and never reach the engine.

Why: in the engine a faulty spec is a 500, and compiling a hostile one there would delay all requests.
What: `probe_ahead` waits for the compile probe without blocking the event loop. vLLM then calls `validate`, which finds
the cached result. Without an event loop (`LLM`), `validate` itself waits.
Invariant: the message of a refusal is that of `StructgenError`, with its position and its hint. Temporary refusals (too
many specs wait, no process for them) are a 429 or 503 if vLLM has errors with a status (0.32 and later), otherwise 400.
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

from structgen.errors import OptionError, StructgenError
from structgen.serving.checker import SpecChecker
from structgen.serving.requests import Kind
from structgen.serving.settings import read_settings
from structgen.serving.temporary_errors import temporary_status

from .backend import KIND_OF, vocabulary_of
from .grammar import CLOSE, closes_within_budget
from .metrics import register_metrics

__all__ = ["check_budget", "probe_ahead", "refuse_at_once", "validate"]

_checkers: dict[int, tuple[Any, SpecChecker]] = {}
"""A checker per model configuration. The configuration is kept as well, so that its id stays unique."""
_lock = threading.Lock()
_AT_ONCE = 0.02
"""Seconds that the event loop may wait for a probe."""


def check_budget(params: Any) -> bool:
    """Return whether a request sets ``close_within_budget``.

    Raises:
        VLLMValidationError: It is neither true nor false, or the request has no structured output.
    """
    try:
        closes = closes_within_budget(params)
    except OptionError as error:
        raise VLLMValidationError(str(error)) from None
    wanted = params.structured_outputs
    if closes and (wanted is None or wanted.all_constraints_none()):
        raise VLLMValidationError(
            f"{CLOSE} needs structured output: only a constraint says when a text is complete."
        )
    return closes


def validate(params: Any, model_config: Any, tokenizer: Any, *, closes: bool = False) -> None:
    """Raise `VLLMValidationError` if the structured output of `params` is invalid or unsupported.

    Args:
        params: The sampling parameters of a request.
        model_config: vLLM's configuration of the model.
        tokenizer: The tokenizer of the model.
        closes: The answer must be complete within `max_tokens`.
    """
    _check_setting(model_config, tokenizer)
    from .patches import NAME

    wanted = params.structured_outputs
    if wanted._backend not in (None, NAME):
        raise VLLMValidationError(
            f"The request names the structured output backend '{wanted._backend}', but the server has '{NAME}'."
        )
    wanted._backend = NAME
    kind, spec = _spec_of(wanted)
    try:
        least = _checker(model_config, tokenizer).check(kind, spec)
    except StructgenError as error:
        raise _refused(error) from None
    if closes and params.max_tokens is not None and least is not None and least + 1 > params.max_tokens:
        raise VLLMValidationError(
            f"No text that was found fits max_tokens={params.max_tokens}: the shortest one takes {least} tokens and "
            f"its end. Raise max_tokens, or leave out {CLOSE}."
        )
    wanted.__post_init__()


def refuse_at_once(params: Any, model_config: Any) -> None:
    """Raise `VLLMValidationError` for a faulty spec, if its probe ends within `_AT_ONCE` seconds.

    vLLM calls it in the event loop, before the answer starts, so it waits no longer. An error that is found later is
    the first event of a stream.
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


async def probe_ahead(params: Any, model_config: Any, input_processor: Any) -> None:
    """Wait for the compile probe of a request's spec. Its outcome is raised by `validate`.

    Only a temporary refusal is raised here: `validate` would block the event loop to probe the spec again.
    """
    wanted = getattr(params, "structured_outputs", None)
    tokenizer = getattr(input_processor, "tokenizer", None)
    if wanted is None or tokenizer is None or wanted.all_constraints_none():
        return
    temporary: Exception | None = None
    with contextlib.suppress(VLLMValidationError, StructgenError):
        kind, spec = _spec_of(wanted)
        known = _checkers.get(id(model_config))
        # Reading the vocabulary takes a second, the first time.
        checker = known[1] if known else await asyncio.to_thread(_checker, model_config, tokenizer)
        try:
            await asyncio.wrap_future(checker.submit(kind, spec))
        except StructgenError as error:
            if temporary_status(error) is not None:
                temporary = _refused(error)
    if temporary is not None:
        raise temporary


def _check_setting(model_config: Any, tokenizer: Any) -> None:
    if getattr(model_config, "is_diffusion", False):
        raise VLLMValidationError("Structured outputs are not supported for diffusion language models.")
    if tokenizer is None:
        raise VLLMValidationError("Structured outputs need a tokenizer, so not 'skip_tokenizer_init'.")


def _spec_of(wanted: Any) -> tuple[Kind, str]:
    """Return kind and spec as vLLM passes them to the backend later."""
    if wanted.json_object is False:
        raise VLLMValidationError("structured_outputs.json_object must be true or absent.")
    for name in ("disable_any_whitespace", "disable_additional_properties", "whitespace_pattern"):
        if getattr(wanted, name, None):
            raise VLLMValidationError(
                f"structured_outputs.{name} is not supported by structgen; white space is bounded, and the schema "
                "states which keys an object may have."
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
    """Return the exception that vLLM turns into a response."""
    status = temporary_status(error)
    with_status: Any = getattr(vllm.exceptions, "GracefulHTTPError", None)
    if status is None or with_status is None:
        return VLLMValidationError(str(error))
    return with_status(str(error), HTTPStatus(status))
