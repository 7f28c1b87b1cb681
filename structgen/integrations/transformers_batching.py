"""Constraints for the continuous batching of transformers: each request has its own, or none.

Why: `ContinuousBatchingManager` and ``generate_batch`` pass one token per row to processors, not the text, and drop
some processors. So a processor of ``model.generate`` does not work there. How: before each forward pass, a processor of
continuous batching gets the requests of the batch (`prepare_tensor_args`). There each request's matcher reads the new
tokens, and its mask fills one row of a buffer. In the pass the rows are applied to the logits. The state of a request
follows from its tokens, also after it was preempted and resumed, or forked for several answers.
Invariant: no request gets a token that its own constraint forbids; a matcher that fails ends only its request.
Cost: one mask per constrained row, all filled in one call, and one pass over the logits.
Supported: transformers 5.23, synchronous batching, without CUDA graphs and compilation. Asynchronous batching samples
a token before the CPU knows the previous one, which no automaton on the CPU can follow; it is refused.
Source: ``transformers.generation.continuous_batching`` (`cb_logits_processors.py`, `continuous_api.py`).
"""

from __future__ import annotations

import copy
import logging
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from structgen.constraints.base import Constraint
from structgen.errors import OptionError, StructgenError, VocabularyMismatch
from structgen.extras import needed
from structgen.matcher import Matcher, fill_masks, warn_of_temperatures
from structgen.types import output_type
from structgen.vocabulary import Vocabulary

from .transformers import _Row, _vocabulary

with needed("continuous batching", extra="transformers"):
    import torch
    from transformers import ContinuousBatchingConfig, LogitsProcessorList
    from transformers.generation.continuous_batching.cb_logits_processors import (
        ContinuousBatchingLogitsProcessor,
    )

__all__ = ["BatchingManager", "constrained_batching", "generate_batch"]

logger = logging.getLogger(__name__)
_KEY = "constraint"
_LEAST_REMEMBERED = 256


class ConstraintArgument(ContinuousBatchingLogitsProcessor):  # type: ignore[misc]
    """The processor. Its tensor argument is the index of each row's mask; -1 for no mask."""

    supported_kwargs = {_KEY: Constraint}  # noqa: RUF012  (its base wants it so)
    ignored_kwargs = ()

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self.errors: OrderedDict[str, StructgenError] = OrderedDict()
        """Errors of requests whose matchers failed, by request."""
        self._rows: OrderedDict[str, _Row] = OrderedDict()
        self._masks = torch.zeros((0, vocabulary.words), dtype=torch.int32)

    def fill_defaults(self, int32_tensor: torch.Tensor) -> None:
        """Return an argument without masks."""
        int32_tensor.fill_(-1)

    def prepare_tensor_args(self, requests_with_new_token: list[Any]) -> torch.Tensor:
        """Let the matchers read the new tokens, and fill the masks of this batch."""
        numbers: list[int] = []
        running: list[tuple[int, str, Matcher]] = []
        masks = np.zeros((len(requests_with_new_token), self.vocabulary.words), dtype=np.int32)
        for index, request in enumerate(requests_with_new_token):
            state = request.state
            constraint = state.logit_processor_kwargs.get(_KEY)
            numbers.append(-1 if constraint is None else index)
            if constraint is None:
                continue
            try:
                row = self._moved(state, constraint)
            except StructgenError as error:
                self._failed(state.request_id, error)
                row = None
            if row is None or not row.can_continue or state.request_id in self.errors:
                masks[index] = self.vocabulary.eos_mask
            else:
                assert row.matcher is not None
                running.append((index, state.request_id, row.matcher))
        self._fill(masks, running)
        self._masks = torch.from_numpy(masks)
        self._forget(len(requests_with_new_token))
        return torch.tensor(numbers, dtype=torch.int32)

    def __call__(self, scores: torch.Tensor, tensor_arg: torch.Tensor) -> torch.Tensor:
        """Return `scores` ``[rows, vocabulary]`` with minus infinity where a row's mask forbids the token."""
        numbers = tensor_arg[: scores.shape[0]].long()
        if not len(self._masks) or bool((numbers < 0).all()):
            return scores
        width, size = scores.shape[-1], self.vocabulary.size
        if width < size and any(self.vocabulary.token_bytes(token) for token in range(width, size)):
            raise VocabularyMismatch(
                f"the model scores {width:,} tokens, the vocabulary has {size:,}",
                hint="Use the tokenizer that belongs to this model.",
            )
        words = self._masks.to(scores.device)[numbers.clamp(0, len(self._masks) - 1)]
        bits = (words.unsqueeze(-1) >> torch.arange(32, device=scores.device)) & 1
        allowed = torch.zeros_like(scores, dtype=torch.bool)
        bits = bits.view(len(numbers), -1)[:, : min(width, size)]
        allowed[:, : bits.shape[1]] = bits.bool()
        allowed |= (numbers < 0).unsqueeze(-1)
        return scores.masked_fill(~allowed, -float("inf"))

    def _moved(self, state: Any, constraint: Constraint) -> _Row:
        row = self._rows.get(state.request_id)
        if row is None:
            row = _Row(Matcher(constraint, self.vocabulary))
        self._rows[state.request_id] = row
        self._rows.move_to_end(state.request_id)
        # subtle: a request that was preempted comes back with its generated tokens as a part of its prompt.
        before = state.initial_tokens[state._true_initial_tokens :] if state._true_initial_tokens else []
        row.move_to([*before, *state.generated_tokens])
        return row

    def _fill(self, masks: Any, running: list[tuple[int, str, Matcher]]) -> None:
        filled = np.zeros((len(running), self.vocabulary.words), dtype=np.int32)
        try:
            fill_masks([matcher for _, _, matcher in running], filled)
        except StructgenError as error:
            for index, (_, request, _) in enumerate(running):
                if not filled[index].any():
                    self._failed(request, error)
                    filled[index] = self.vocabulary.eos_mask
        for (index, _, _), row in zip(running, filled, strict=True):
            masks[index] = row

    def _failed(self, request: str, error: StructgenError) -> None:
        logger.error("request %s ends here: %s", request, error)
        self.errors[request] = error
        while len(self.errors) > _LEAST_REMEMBERED:
            self.errors.popitem(last=False)

    def _forget(self, rows: int) -> None:
        """Evict the requests that were not seen for longest, since their end is not reported.

        One that comes again is read again.
        """
        while len(self._rows) > max(_LEAST_REMEMBERED, 4 * rows):
            self._rows.popitem(last=False)


class BatchingManager:
    """A `ContinuousBatchingManager` whose requests may have constraints; `constrained_batching` returns it."""

    def __init__(self, manager: Any, processor: ConstraintArgument) -> None:
        self.manager = manager
        self._processor = processor

    @property
    def errors(self) -> OrderedDict[str, StructgenError]:
        """Errors of the last few hundred requests that ended before their text was complete, by request."""
        return self._processor.errors

    def add_request(self, input_ids: Sequence[int], *, constraint: Any = None, **options: Any) -> str:
        """Add a request, like ``manager.add_request``, with a constraint or any output type; None for free text.

        An impossible constraint raises here, in the caller's thread. The ends of text are the vocabulary's.
        """
        options.setdefault("eos_token_id", list(self._processor.vocabulary.eos_ids))
        if constraint is not None:
            options[_KEY] = output_type(constraint).constraint
            warn_of_temperatures(Matcher(options[_KEY], self._processor.vocabulary), "transformers")
        return str(self.manager.add_request(list(input_ids), **options))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.manager, name)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.manager)


@contextmanager
def constrained_batching(
    model: Any,
    vocabulary: Any,
    *,
    generation_config: Any = None,
    continuous_batching_config: Any = None,
) -> Iterator[BatchingManager]:
    """Run a manager for `model` while a block runs.

    `vocabulary` is a `Vocabulary`, a tokenizer, or a structgen model.

    Raises:
        OptionError: The configuration enables asynchronous batching, CUDA graphs or compilation.
    """
    config = _configuration(continuous_batching_config)
    processor = ConstraintArgument(_vocabulary(vocabulary))
    if getattr(model, "_cached_continuous_batching_manager", None) is not None:
        raise OptionError(
            "this model has a manager of its own, which does not support constraints",
            hint="Call model.destroy_cached_continuous_batching_manager() first.",
        )
    own = model._get_logits_processor

    def with_constraints(*args: Any, **kwargs: Any) -> Any:
        return LogitsProcessorList([processor, *own(*args, **kwargs)])  # the mask first, as in all loops

    model._get_logits_processor = with_constraints
    try:
        manager = model.init_continuous_batching(
            generation_config=generation_config, continuous_batching_config=config
        )
    finally:
        del model._get_logits_processor
    # subtle: it counts only processors that it converts itself, so there would be no room for our argument.
    manager.logit_processor.tensors_required += 1
    manager.start()
    try:
        yield BatchingManager(manager, processor)
    finally:
        manager.stop(block=True, timeout=30)


def generate_batch(
    model: Any,
    vocabulary: Any,
    inputs: Sequence[Sequence[int]],
    constraints: Sequence[Any] | Any,
    *,
    generation_config: Any = None,
    continuous_batching_config: Any = None,
    max_new_tokens: int | None = None,
    timeout: float = 600.0,
) -> list[Any]:
    """Return the `GenerationOutput` of each prompt of `inputs`, in order.

    `constraints` is one constraint, or one per prompt. A text that `max_new_tokens` cuts off has no end of text.

    Raises:
        StructgenError: The error of a request whose matcher failed.
        TimeoutError: No request ended for `timeout` seconds.
    """
    several = isinstance(constraints, Sequence) and not isinstance(constraints, str)
    each = list(constraints) if several else [constraints] * len(inputs)
    if len(each) != len(inputs):
        raise OptionError(
            f"{len(each)} constraints for {len(inputs)} prompts", hint="Pass one, or one per prompt."
        )
    found: dict[str, Any] = {}
    with constrained_batching(
        model,
        vocabulary,
        generation_config=generation_config,
        continuous_batching_config=continuous_batching_config,
    ) as manager:
        names = [
            manager.add_request(ids, constraint=constraint, max_new_tokens=max_new_tokens)
            for ids, constraint in zip(inputs, each, strict=True)
        ]
        while len(found) < len(names):
            output = manager.get_result(timeout=timeout)
            if output is None:
                raise TimeoutError(f"{len(names) - len(found)} requests did not end")
            found[output.request_id] = output
        for name in names:
            if name in manager.errors:
                raise manager.errors[name]
    return [found[name] for name in names]


def _configuration(given: Any) -> Any:
    config = ContinuousBatchingConfig() if given is None else copy.copy(given)
    graphs = config.use_cuda_graph
    if config.use_async_batching:
        raise OptionError(
            "constraints cannot follow asynchronous batching",
            hint="Set use_async_batching=False, or leave it out.",
        )
    if any(graphs) if isinstance(graphs, tuple) else graphs:
        raise OptionError(
            "constraints cannot follow CUDA graphs", hint="Set use_cuda_graph=False, or leave it out."
        )
    if config.varlen_compile_config is not None or config.decode_compile_config is not None:
        raise OptionError(
            "constraints cannot follow compiled passes", hint="Leave the compile configurations out."
        )
    config.use_async_batching = False
    config.use_cuda_graph = False
    return config
