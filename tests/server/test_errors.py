"""Which status an error of the library has before and in the middle of a text."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import structgen as sg
from structgen._core import LimitError
from structgen.constraints.failures import limit_exceeded
from structgen.errors import GenerationError, LimitExceeded, SchemaInvalid, StructgenError
from structgen.inference.samplers import sampler_of
from structgen.server.errors import ShuttingDown, failed, message_of, of_error


@pytest.mark.parametrize(
    ("error", "before", "midway"),
    [
        (SchemaInvalid("no schema", pointer="#"), 400, 500),
        (GenerationError("it broke"), 400, 500),
        (LimitExceeded("too much", limit="mask_steps"), 400, 422),
        (LimitExceeded("too many wait", limit="max_matcher_processes"), 503, 503),
        (LimitExceeded("it is not there", limit="worker"), 503, 503),
        (ShuttingDown("it ends"), 503, 503),
    ],
)
def test_statuses(error: GenerationError, before: int, midway: int) -> None:
    assert (of_error(error, "response_format").status, failed(error).status) == (before, midway)
    assert ("Retry-After" in failed(error).headers) == (midway in (429, 503))


@pytest.mark.parametrize(
    ("hint", "hint_for_client"),
    [
        ("Raise it: vocabulary.with_limits(call_steps=...).", "Send a smaller or simpler one."),
        ("Allow the calls more time, or simplify the constraint.", "Send a smaller or simpler one."),
        ("Raise it with limits=RegexLimits(length=...), or use choice().", "Send a smaller or simpler one."),
        (
            "Flatten the pattern, or raise the limit with limits=RegexLimits(depth=...).",
            "Flatten the pattern.",
        ),
        (
            "Leave out the upper bound ({n,}), or raise the limit: limits=RegexLimits(count=...).",
            "Leave out the upper bound ({n,}).",
        ),
        ("Shorten the prompt, or set max_tokens.", "Shorten the prompt, or set max_tokens."),
    ],
)
def test_clients_get_hints_that_they_can_follow(hint: str, hint_for_client: str) -> None:
    error = LimitExceeded("too much", limit="call_steps", hint=hint)
    for api in (of_error(error, "response_format"), failed(error)):
        assert api.message == f"too much (limit call_steps)\n{hint_for_client}"
    assert error.hint == hint


def test_limits_of_the_core_have_hints_for_clients() -> None:
    for name in ("call_steps", "mask_steps", "call_seconds"):
        error = limit_exceeded(LimitError(f"it takes too much (limit {name})"))
        assert failed(error).message.endswith("\nSend a smaller or simpler one.")


@pytest.mark.parametrize(
    ("make", "hint"),
    [
        (
            lambda: sg.json_schema({"$ref": "http://example.com/a"}),
            "Put it into $defs; documents are never fetched.",
        ),
        (lambda: sg.grammar("nothing"), "For your own, send its text."),
        (lambda: sampler_of("nothing"), "smc, mh."),
        (lambda: sg.lark('a: "x"'), "Call the first rule start (Lark) or root (GBNF, EBNF)."),
    ],
    ids=["schema", "shelf", "sampler", "lark"],
)
def test_hints_that_name_python_are_put_into_words_of_requests(make: Callable[[], object], hint: str) -> None:
    with pytest.raises(StructgenError) as caught:
        make()
    shown = message_of(caught.value)
    assert shown.endswith(hint), shown
    assert "sg." not in shown and "=..." not in shown
