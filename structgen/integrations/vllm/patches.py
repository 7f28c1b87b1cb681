"""The changes to vLLM that a new backend needs.

Why: vLLM 0.29 to 0.33 have an interface for backends but no registry; the names are constants in its code.
The changes, each with a check that the code looks as expected:

    StructuredOutputsConfig.backend                 also takes "structgen"
    SamplingParams._validate_structured_outputs     refuses faulty specs with a 400, for "structgen" only
    AsyncLLM.generate                               refuses known faulty specs at once, so that a stream that has not
                                                    started gets a 400, too
    AsyncLLM.add_request                            probes a spec before, without blocking the event loop
    StructuredOutputManager.grammar_init            returns `StructgenBackend`
    Scheduler.schedule                              records when a step starts, for the costs of such drafts
    Scheduler.update_draft_token_ids                drafts, if the proposer is `GrammarProposer` (with any backend)
    StructuredOutputManager.accept_tokens           learns the texts of requests that have ended, for such drafts
    StructuredOutputManager.grammar_bitmask         fills all rows of a batch in one call, those of drafts included

Invariant: with another backend and another proposer, all of them behave as before. If the code of vLLM does not look
as expected, nothing is changed, a warning names the difference, and vLLM refuses the backend "structgen" as unknown.
"""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal, get_args

__all__ = ["NAME", "fits", "patch"]

NAME = "structgen"
_MARK = "__structgen__"
_DRAFTS = "_structgen_drafts"
_log = logging.getLogger("vllm.structgen")


def patch() -> bool:
    """Change vLLM, once per process. Return False, and change nothing, if its code does not look as expected."""
    missing = fits()
    if missing:
        import vllm

        _log.warning(
            "the backend structgen is not available: vLLM %s does not look as expected (%s)",
            vllm.__version__,
            "; ".join(missing),
        )
        return False
    from vllm.sampling_params import SamplingParams
    from vllm.v1.core.sched.scheduler import Scheduler
    from vllm.v1.engine.async_llm import AsyncLLM
    from vllm.v1.structured_output import StructuredOutputManager

    if hasattr(SamplingParams._validate_structured_outputs, _MARK):
        return True
    _patch_config()
    _replace(SamplingParams, "_validate_structured_outputs", _validate)
    _replace(AsyncLLM, "generate", _generate)
    _replace(AsyncLLM, "add_request", _add_request)
    _replace(StructuredOutputManager, "grammar_init", _grammar_init)
    _replace(StructuredOutputManager, "grammar_bitmask", _grammar_bitmask)
    _replace(Scheduler, "schedule", _schedule)
    _replace(Scheduler, "update_draft_token_ids", _update_draft_token_ids)
    _replace(StructuredOutputManager, "accept_tokens", _accept_tokens)
    return True


def drafts_are_patched() -> bool:
    """Return whether the engine of this process would draft."""
    from vllm.v1.core.sched.scheduler import Scheduler

    return hasattr(getattr(Scheduler, "update_draft_token_ids", None), _MARK)


def fits() -> list[str]:
    """Return the differences between vLLM's code and what is expected."""
    try:
        from vllm.config.structured_outputs import StructuredOutputsConfig
        from vllm.exceptions import VLLMValidationError
        from vllm.sampling_params import SamplingParams
        from vllm.v1.core.sched.scheduler import Scheduler
        from vllm.v1.engine.async_llm import AsyncLLM
        from vllm.v1.outputs import DraftTokenIds
        from vllm.v1.structured_output import StructuredOutputManager
        from vllm.v1.structured_output.backend_types import StructuredOutputBackend, StructuredOutputGrammar
        from vllm.v1.structured_output.request import get_structured_output_key
    except ImportError as error:
        return [str(error)]
    wanted: list[tuple[Any, str, tuple[str, ...]]] = [
        (
            SamplingParams,
            "_validate_structured_outputs",
            ("model_config", "structured_outputs_config", "tokenizer"),
        ),
        (AsyncLLM, "generate", ("prompt", "sampling_params")),
        (AsyncLLM, "add_request", ("request_id", "prompt", "params")),
        (StructuredOutputManager, "grammar_init", ("request",)),
        (
            StructuredOutputManager,
            "grammar_bitmask",
            ("requests", "structured_output_request_ids", "scheduled_spec_decode_tokens"),
        ),
        (StructuredOutputManager, "_get_constraint_bounds", ("request", "spec_tokens")),
        (Scheduler, "schedule", ()),
        (Scheduler, "update_draft_token_ids", ("draft_token_ids",)),
        (DraftTokenIds, "__init__", ("req_ids", "draft_token_ids")),
        (StructuredOutputManager, "accept_tokens", ("request", "new_token_ids")),
        (StructuredOutputBackend, "compile_grammar", ("request_type", "grammar_spec")),
        (StructuredOutputBackend, "allocate_token_bitmask", ("max_num_seqs",)),
        (StructuredOutputGrammar, "accept_tokens", ("request_id", "tokens")),
        (StructuredOutputGrammar, "validate_tokens", ("tokens",)),
        (StructuredOutputGrammar, "rollback", ("num_tokens",)),
        (StructuredOutputGrammar, "fill_bitmask", ("bitmask", "batch_index")),
    ]
    missing = [problem for kind, name, names in wanted if (problem := _lacks(kind, name, names))]
    if "backend" not in getattr(StructuredOutputsConfig, "__dataclass_fields__", {}):
        missing.append("StructuredOutputsConfig has no field `backend`")
    if not issubclass(VLLMValidationError, Exception) or not callable(get_structured_output_key):
        missing.append("vllm.exceptions or vllm.v1.structured_output.request have changed")
    abstract: frozenset[str] = getattr(StructuredOutputGrammar, "__abstractmethods__", frozenset())
    known = {"accept_tokens", "validate_tokens", "rollback", "fill_bitmask", "is_terminated", "reset"}
    missing += [f"StructuredOutputGrammar requires {name}" for name in sorted(abstract - known)]
    return missing


def _lacks(kind: Any, name: str, names: tuple[str, ...]) -> str | None:
    found = getattr(kind, name, None)
    if found is None:
        return f"{kind.__name__} has no {name}"
    there = list(inspect.signature(found).parameters)[1 : 1 + len(names)]
    return None if tuple(there) == names else f"{kind.__name__}.{name} takes {', '.join(there)}"


def _replace(kind: Any, name: str, make: Callable[[Any], Any]) -> None:
    original = getattr(kind, name)
    changed = functools.wraps(original)(make(original))
    setattr(changed, _MARK, True)
    setattr(kind, name, changed)


def _patch_config() -> None:
    """Let `backend` also be "structgen", from Python and from the command line."""
    from pydantic.dataclasses import rebuild_dataclass
    from vllm.config import structured_outputs as module

    config = module.StructuredOutputsConfig
    names = get_args(config.__dataclass_fields__["backend"].type) or get_args(module.StructuredOutputsBackend)
    if NAME in names:
        return
    wider = Literal[(*names, NAME)]  # type: ignore[valid-type]
    module.StructuredOutputsBackend = wider
    config.__annotations__["backend"] = wider
    config.__dataclass_fields__["backend"].type = wider
    pydantic_fields = getattr(config, "__pydantic_fields__", {})
    if "backend" in pydantic_fields:
        pydantic_fields["backend"].annotation = wider
    rebuild_dataclass(config, force=True)


def _is_ours(config: Any) -> bool:
    return config is not None and config.backend == NAME


def _validate(original: Any) -> Any:
    def _validate_structured_outputs(
        self: Any, model_config: Any, structured_outputs_config: Any, tokenizer: Any
    ) -> None:
        if not _is_ours(structured_outputs_config):
            original(self, model_config, structured_outputs_config, tokenizer)
            return
        from .checking import check_budget, validate

        closes = check_budget(self)
        if self.structured_outputs is None:
            original(self, model_config, structured_outputs_config, tokenizer)
        else:
            validate(self, model_config, tokenizer, closes=closes)

    return _validate_structured_outputs


def _generate(original: Any) -> Any:
    def generate(self: Any, prompt: Any, sampling_params: Any, *args: Any, **kwargs: Any) -> Any:
        if _is_ours(self.vllm_config.structured_outputs_config):
            from .checking import refuse_at_once

            refuse_at_once(sampling_params, self.vllm_config.model_config)
        return original(self, prompt, sampling_params, *args, **kwargs)

    return generate


def _add_request(original: Any) -> Any:
    async def add_request(
        self: Any, request_id: Any, prompt: Any, params: Any, *args: Any, **kwargs: Any
    ) -> Any:
        if _is_ours(self.vllm_config.structured_outputs_config):
            from .checking import probe_ahead

            await probe_ahead(params, self.vllm_config.model_config, self.input_processor)
        return await original(self, request_id, prompt, params, *args, **kwargs)

    return add_request


def _grammar_init(original: Any) -> Any:
    def grammar_init(self: Any, request: Any) -> None:
        if (
            request.structured_output_request is not None
            and self.backend is None
            and _is_ours(self.vllm_config.structured_outputs_config)
        ):
            from .backend import StructgenBackend

            size = self.vllm_config.model_config.get_vocab_size()
            self.backend = StructgenBackend(self.vllm_config, tokenizer=self.tokenizer, vocab_size=size)
            if hasattr(self, "backend_name"):  # 0.33 compares the name of a request's backend with this one
                self.backend_name = NAME
        original(self, request)

    return grammar_init


def _grammar_bitmask(original: Any) -> Any:
    def grammar_bitmask(
        self: Any,
        requests: Any,
        structured_output_request_ids: Any,
        scheduled_spec_decode_tokens: Any,
    ) -> Any:
        rows = None
        if structured_output_request_ids and _is_ours(self.vllm_config.structured_outputs_config):
            rows = _rows_of(self, requests, structured_output_request_ids, scheduled_spec_decode_tokens)
        if rows is None:
            return original(self, requests, structured_output_request_ids, scheduled_spec_decode_tokens)
        from .backend import fill_batch

        if self._grammar_bitmask is None:
            most = self.vllm_config.scheduler_config.max_num_seqs
            drafts = getattr(self.vllm_config, "num_speculative_tokens", 0) or 0
            self._grammar_bitmask = self.backend.allocate_token_bitmask(most * (1 + drafts))
        return fill_batch(self.backend, rows, self._grammar_bitmask)

    return grammar_bitmask


def _rows_of(manager: Any, requests: Any, ids: Any, drafts_of: Any) -> list[Any] | None:
    """Return the rows of a batch; None if vLLM must fill them itself."""
    from .backend import Rows, StructgenGrammar
    from .grammar import closes_within_budget, room_of, without_padding

    found = []
    for request_id in ids:
        request = requests[request_id]
        grammar = request.structured_output_request.grammar
        if not isinstance(grammar, StructgenGrammar):
            return None
        drafts = drafts_of.get(request_id, ())
        # subtle: also called without drafts, since it notes whether the prompt has ended the reasoning.
        read, masked = manager._get_constraint_bounds(request, without_padding(drafts))
        if closes_within_budget(request.sampling_params):
            # Reasoning among the drafts is not of the text, but of the budget.
            room = room_of(request, manager.vllm_config.model_config.max_model_len)
            grammar.close_within(room - min(read, len(without_padding(drafts))))
        found.append(Rows(grammar, drafts, read, masked))
    return found


def _schedule(original: Any) -> Any:
    def schedule(self: Any, *args: Any, **kwargs: Any) -> Any:
        drafts = _drafts_of(self.structured_output_manager)
        begin = 0.0 if drafts is None else drafts.clock()
        output = original(self, *args, **kwargs)
        if drafts is not None:
            drafts.begin_step(begin, *_step_size(output))
        return output

    return schedule


def _step_size(output: Any) -> tuple[int, int]:
    """Return the numbers of rows and of draft tokens of a step; no rows if it has prefill."""
    rows, total = len(output.num_scheduled_tokens), output.total_num_scheduled_tokens
    drafted = sum(map(len, output.scheduled_spec_decode_tokens.values()))
    return (rows if rows + drafted == total else 0), drafted


def _update_draft_token_ids(original: Any) -> Any:
    def update_draft_token_ids(self: Any, draft_token_ids: Any) -> None:
        drafts = _drafts_of(self.structured_output_manager)
        if drafts is not None:
            draft_token_ids = _drafted(self, drafts, draft_token_ids)
        original(self, draft_token_ids)

    return update_draft_token_ids


def _drafted(scheduler: Any, drafts: Any, draft_token_ids: Any) -> Any:
    """Return the draft tokens of the next step; none if finding them fails, for drafts change the speed only."""
    drafted: dict[str, list[int]] = {}
    try:
        drafts.end_step()
        requests = {name: scheduler.requests.get(name) for name in draft_token_ids.req_ids}
        texts = {
            name: _text_of(scheduler.structured_output_manager, request)
            for name, request in requests.items()
            if request is not None and not request.is_finished() and not request.is_prefill_chunk
        }
        drafted = dict(zip(texts, drafts.draft_all([*texts.values()]), strict=True))
    except Exception:  # noqa: BLE001 — a fault of a drafter must not end the engine
        _log.exception("drafting from the constraints failed in this step")
    return replace(
        draft_token_ids, draft_token_ids=[drafted.get(name, []) for name in draft_token_ids.req_ids]
    )


def _accept_tokens(original: Any) -> Any:
    def accept_tokens(self: Any, request: Any, new_token_ids: Any) -> Any:
        accepted = original(self, request, new_token_ids)
        drafts = _drafts_of(self)
        if drafts is not None and request.is_finished():
            drafts.finish(_text_of(self, request))
        return accepted

    return accept_tokens


def _drafts_of(manager: Any) -> Any:
    """Return the manager's `GrammarDrafts`; None if its engine has another proposer, or no tokenizer."""
    if not hasattr(manager, _DRAFTS):
        from .drafting import PROPOSER, GrammarDrafts

        config = manager.vllm_config.speculative_config
        tokenizer = getattr(manager, "tokenizer", None)
        made = None
        if config is not None and config.model == PROPOSER and tokenizer is not None:
            from .backend import vocabulary_of

            vocabulary = vocabulary_of(tokenizer, manager.vllm_config.model_config.get_vocab_size())
            made = GrammarDrafts(vocabulary, config.num_speculative_tokens)
            _log.info("structgen drafts up to %d tokens, over %r", config.num_speculative_tokens, vocabulary)
        setattr(manager, _DRAFTS, made)
    return getattr(manager, _DRAFTS)


def _text_of(manager: Any, request: Any) -> Any:
    from .drafting import RequestText
    from .grammar import RequestGrammar

    sequence, key = None, None
    if request.use_structured_output:
        grammar = request.structured_output_request.grammar
        if isinstance(grammar, RequestGrammar):
            key = grammar.key, request.cache_salt
            if manager._get_constraint_bounds(request, ()).grammar_start == 0:
                sequence = grammar.sequence
    least = getattr(request.sampling_params, "min_tokens", 0)
    return RequestText(request, request.all_token_ids, request.num_prompt_tokens, sequence, key, least)
