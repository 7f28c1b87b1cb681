"""The option ``close_within_budget`` of a request, in SGLang's ``custom_params``.

Why: SGLang gives a grammar neither the request nor its `max_new_tokens`. `GrammarManager` configures the grammar of
each request in one method; this adds the budget there.
Invariant: requests without the option, and with grammars of other backends, are as before. If the method does not look
as expected, nothing is changed, a warning says so, and the option has no effect.
"""

from __future__ import annotations

import functools
import inspect
import logging
from typing import Any

from structgen import _core
from structgen.errors import LimitExceeded
from structgen.serving.sequence import CALL_SECONDS

from .grammar import RequestGrammar

__all__ = ["CLOSE", "apply_budget", "patch_budgets"]

CLOSE = "close_within_budget"
_METHOD = "_apply_request_reasoning_config"
_MARK = "__structgen__"
_log = logging.getLogger("sglang.structgen")


def patch_budgets() -> bool:
    """Let requests have budgets, once per process. Return False, and warn, if SGLang's code is not as expected."""
    from sglang.srt.constrained.grammar_manager import GrammarManager

    original = getattr(GrammarManager, _METHOD, None)
    if original is None or list(inspect.signature(original).parameters)[1:] != ["req"]:
        _log.warning("%s is not available: GrammarManager.%s is not as expected", CLOSE, _METHOD)
        return False
    if hasattr(original, _MARK):
        return True

    @functools.wraps(original)
    def configured(self: Any, req: Any) -> None:
        original(self, req)
        apply_budget(req)

    setattr(configured, _MARK, True)
    setattr(GrammarManager, _METHOD, configured)
    return True


def apply_budget(request: Any) -> None:
    """Give the grammar of a request its budget, if the request has the option; abort it if that cannot be."""
    parameters = request.sampling_params
    custom = parameters.custom_params if isinstance(parameters.custom_params, dict) else {}
    closes = custom.get(CLOSE, False)
    if closes is False:
        return
    wrapper = request.grammar
    grammar = getattr(wrapper, "grammar", wrapper)
    if not isinstance(grammar, RequestGrammar):
        return
    if closes is not True:
        request.set_finish_with_abort(f"{CLOSE} is {closes!r:.40}; it must be true or false")
        return
    most = parameters.max_new_tokens
    if most is None:
        request.set_finish_with_abort(f"{CLOSE} needs max_new_tokens")
        return
    try:
        with _core.CallLimits(cpu_seconds=CALL_SECONDS):
            least = grammar.sequence.matcher.least_tokens(most)
    except LimitExceeded:  # the first row finds out
        least = None
    if least is not None and least + 1 > most:
        request.set_finish_with_abort(
            f"no text that was found fits max_new_tokens={most}: the shortest one takes {least} tokens and its end. "
            f"Raise max_new_tokens, or leave out {CLOSE}."
        )
        return
    # Tokens that the wrapper read while the model reasoned are not of the text, but of the budget.
    is_outside = wrapper is not grammar and not wrapper.reasoning_in_grammar
    thoughts = wrapper._thinking_match_history if is_outside else []
    grammar.close_within(lambda: most - len(thoughts))
