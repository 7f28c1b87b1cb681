"""Send many requests to a server at once and check every answer.

Invariant: a case ends in exactly one of the outcomes of `Outcome`. "cut" is an answer that met the token limit and
whose prefix the constraint allows, according to structgen's own matcher over bytes. A hostile case may also be
"stopped": its constraint was accepted, and the text met a limit that the error (status 422) or vLLM's log names.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, Literal

from bench.clients import client_of
from structgen.errors import StructgenError
from structgen.matcher import Matcher
from structgen.serving.requests import constraint_of
from structgen.vocabulary import Vocabulary

from .cases import MAX_TOKENS, Case

__all__ = ["Outcome", "Report", "ask", "ask_all"]

Outcome = Literal["right", "cut", "refused", "stopped", "wrong", "failed"]
_PROMPT = "Write something short."
_JUDGE_STEPS = 4_000_000_000
"""Work of one call of the judge, which reads a whole text at once: more than a server spends on it token by token."""
_bytes = Vocabulary.of_bytes().with_limits(call_steps=_JUDGE_STEPS)
_LIMITS = frozenset(
    ("automaton_states", "earley_items", "matcher_bytes", "mask_steps", "max_alternatives", "step_seconds")
)
"""Limits of structgen that a running text may reach. A busy server is not among them."""


@dataclass
class Report:
    """The outcomes of the requests."""

    outcomes: Counter[tuple[str, Outcome]] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    seconds: float = 0.0
    tokens: int = 0
    refusal_seconds: list[float] = field(default_factory=list)
    sent_again: int = 0
    """Requests whose connection was closed before an answer began (`bench.clients`)."""

    @property
    def is_clean(self) -> bool:
        return not self.faults

    def explain_failures(self, log: str) -> None:
        """Count failures of hostile cases as stopped, as many as the log of vLLM explains by a limit.

        vLLM ends a request whose constraint meets a limit with an internal error, and its log has the cause.
        """
        ends = [line for line in log.splitlines() if " ends: " in line]
        stopped = sum(any(f"(limit {name})" in line for name in _LIMITS) for line in ends)
        for fault in [fault for fault in self.faults if fault.startswith("hostile ")][:stopped]:
            kind, _, _ = fault.partition(":")
            if self.outcomes[kind, "failed"] > 0:
                self.faults.remove(fault)
                self.outcomes[kind, "failed"] -= 1
                self.outcomes[kind, "stopped"] += 1

    def lines(self) -> list[str]:
        kinds = sorted({kind for kind, _ in self.outcomes})
        names: tuple[Outcome, ...] = ("right", "cut", "refused", "stopped", "wrong", "failed")
        rows = [f"{'':24}" + "".join(f"{name:>9}" for name in names)]
        for kind in [*kinds, "all"]:
            counts = [
                sum(n for (k, o), n in self.outcomes.items() if o == name and kind in (k, "all"))
                for name in names
            ]
            rows.append(f"{kind:24}" + "".join(f"{count:9}" for count in counts))
        total = sum(self.outcomes.values())
        rows.append(
            f"{total} requests in {self.seconds:.0f} s, {self.tokens} tokens, {self.tokens / self.seconds:.0f} a second"
        )
        if self.sent_again:
            rows.append(
                f"{self.sent_again} requests were sent again: their connections were closed unanswered"
            )
        if self.refusal_seconds:
            ordered = sorted(self.refusal_seconds)
            rows.append(
                f"refusals: median {1e3 * ordered[len(ordered) // 2]:.0f} ms, slowest {1e3 * ordered[-1]:.0f} ms"
            )
        return rows


async def ask_all(
    url: str, model: str, cases: Sequence[Case], concurrency: int, *, api_key: str = "none"
) -> Report:
    """Send all cases, `concurrency` at a time."""
    report, begin = Report(), perf_counter()
    gate = asyncio.Semaphore(concurrency)
    async with client_of(url, api_key) as (client, sending):

        async def send(case: Case) -> None:
            async with gate:
                started = perf_counter()
                outcome, detail, tokens = await ask(client, model, case)
            if outcome == "refused":
                report.refusal_seconds.append(perf_counter() - started)
            report.outcomes[case.kind, outcome] += 1
            report.tokens += tokens
            if outcome in ("wrong", "failed"):
                report.faults.append(f"{case.kind}: {detail}; sent {case.options!r:.400}")

        await asyncio.gather(*(send(case) for case in cases))
        report.sent_again = sending.sent_again
    report.seconds = perf_counter() - begin
    return report


async def ask(client: Any, model: str, case: Case) -> tuple[Outcome, str, int]:
    """Send a request. Return its outcome, what is wrong with the answer, and the number of drawn tokens."""
    import openai

    try:
        text, calls, finish, tokens = await _answer(client, model, case)
    except openai.BadRequestError as error:
        return ("refused", "", 0) if case.is_poison else ("failed", str(error)[:300], 0)
    except openai.APIError as error:
        if case.may_answer and error.code in _LIMITS:
            return "stopped", "", 0
        return "failed", f"{type(error).__name__} {error}, from {error.__cause__!r}"[:300], 0
    if case.is_poison and not case.may_answer:
        return "wrong", f"it was answered: {text!r:.100}", tokens
    if finish == "length":
        may_begin = await asyncio.to_thread(_may_begin, case, text)
        return ("cut", "", tokens) if may_begin else ("wrong", f"cut off: {text!r:.200}", tokens)
    fault = case.fault(text, calls)
    return ("right", "", tokens) if fault is None else ("wrong", fault, tokens)


async def _answer(client: Any, model: str, case: Case) -> tuple[str, list[tuple[str, str]], str | None, int]:
    options: dict[str, Any] = {
        "model": model,
        "messages": [{"role": "user", "content": _PROMPT}],
        "max_tokens": MAX_TOKENS,
        "temperature": 1.0,
        **case.options,
    }
    if case.seed is not None:
        options["seed"] = case.seed
    if not case.stream:
        answer = await client.chat.completions.create(**options)
        choice = answer.choices[0]
        calls = [(call.function.name, call.function.arguments) for call in choice.message.tool_calls or []]
        return choice.message.content or "", calls, choice.finish_reason, answer.usage.completion_tokens
    stream = await client.chat.completions.create(
        **options, stream=True, stream_options={"include_usage": True}
    )
    text, finish, tokens = "", None, 0
    parts: dict[int, list[str]] = {}
    async for chunk in stream:
        tokens = chunk.usage.completion_tokens if chunk.usage else tokens
        if not chunk.choices:
            continue
        delta = chunk.choices[0].delta
        text += delta.content or ""
        finish = chunk.choices[0].finish_reason or finish
        for call in delta.tool_calls or []:
            part = parts.setdefault(call.index, ["", ""])
            part[0] += (call.function and call.function.name) or ""
            part[1] += (call.function and call.function.arguments) or ""
    return text, [(name, arguments) for name, arguments in parts.values()], finish, tokens


def _may_begin(case: Case, text: str) -> bool:
    """Return whether the constraint allows a text that begins so; the last character may be incomplete."""
    if case.kind_and_spec is None:
        return True  # the server parses calls, and does not return a call that was cut off
    kind, spec = case.kind_and_spec
    try:
        matcher = Matcher(constraint_of(kind, spec), _bytes)  # type: ignore[arg-type]
    except StructgenError:
        return False
    return matcher.accepts(list(text.rstrip("\ufffd").encode())) == len(text.rstrip("\ufffd").encode())
