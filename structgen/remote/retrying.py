"""One answer of a server: request it, check it, and request it again with feedback, within a budget.

What: an attempt sends the constraint in the server's dialect, and checks the answer locally. If it is wrong, the next
attempt shows the model its answer and the problem, until the answer is right or the budget of attempts, tokens or
seconds is spent. If the server refuses the constraint by name (`refusals`), a weaker dialect is used.
Invariant: a complete answer has passed the check; its `account` lists all attempts. A weaker dialect is remembered,
with a warning, only after a request in it has succeeded.
Cost: one request per attempt.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from structgen.attempts import Account, Attempt, Message, attempt_seed, feedback
from structgen.errors import OptionError, OutputInvalid, RemoteError, StructgenError, Truncated
from structgen.generation import Finish, Generation, SamplingOptions, Timing
from structgen.types import OutputType

from .detection import content_of, first_choice, text_of
from .dialects import Dialect, RequestPart, request_part, weaker
from .format_prompt import with_format_description
from .refusals import cause_of, is_bad_request, wants_completion_tokens
from .transport import BrokenOff, Deadline, error_in
from .validation import PartialAnswer, Verdict, judge

if TYPE_CHECKING:
    from .model import RemoteModel

__all__ = ["Budget", "RemoteStep", "Run"]

_STOPPED = frozenset({"content_filter", "error", "abort"})
"""Values of `finish_reason` for an incomplete answer, other than the token limit."""
_AFTER_LOSS = 0.1
"""Seconds before a lost stream is requested again; doubled each time."""
_UNNAMED = (
    "The server does not state what it refuses, so the constraint was not left out. If the constraint is the cause, "
    "choose a weaker dialect= of structgen.connect()."
)
_MOST_CHARACTERS, _MOST_PER_TOKEN = 1 << 16, 256
"""A streamed answer may have so many characters, plus so many for each token of its budget."""


@dataclass(frozen=True)
class Budget:
    """The budget of one answer.

    `attempts` requests, `seconds` in total including pauses, and `tokens` in all attempts; None is `max_tokens` in
    each.
    """

    attempts: int
    seconds: float
    tokens: int | None


@dataclass(frozen=True)
class RemoteStep:
    """An unfinished answer: its text so far, and in the last step its result."""

    text: str
    generation: Generation | None = None
    account: Account | None = None


@dataclass
class _Reply:
    """The reply to one request."""

    text: str = ""
    finish: str | None = None
    refusal: str = ""
    has_text: bool = False
    """Whether the answer has text, perhaps an empty one. Tool calls and reasoning are not text."""
    prompt_tokens: int = 0
    tokens: int = 0


class Run:
    """One answer in progress."""

    def __init__(
        self,
        model: RemoteModel,
        messages: list[Message],
        options: SamplingOptions,
        output: OutputType,
        deadline: Deadline,
    ) -> None:
        self.model, self.messages, self.options, self.output = model, messages, options, output
        self.deadline = deadline
        self.account = Account()
        self.started = time.perf_counter()
        self.first: float | None = None
        self.room = options.max_tokens
        self.most_attempts = options.attempts or model.budget.attempts
        self.reply = _Reply()
        self.verdict = Verdict("")
        self.text = ""
        self.is_ignored = model.has_ignored(output.constraint)
        """Whether the server accepted the constraint and ignored it."""

    def attempts(self, streaming: bool) -> Iterator[RemoteStep]:
        """Request the answer until it is right or the budget is spent."""
        extra: list[Message] = []
        for number in range(self.most_attempts):
            self.room = self._room()
            if number and not self.room:
                break
            yield from self._attempt(number, extra, streaming)
            if self.verdict.is_right:
                cut = self.reply.finish == "length" and self.output.is_free_text
                yield self.ended("length" if cut else "complete")
                return
            extra = feedback(self.verdict.text, self.verdict.problem, self.reply.finish == "length")
            if not self.deadline.left:
                break
        yield self.ended("failed", self._budget_error())

    def _attempt(self, number: int, extra: list[Message], streaming: bool) -> Iterator[RemoteStep]:
        """Request the answer once, in the richest dialect that the server accepts for this constraint."""
        name, usual = self.model.known(self.deadline)
        dialect, refused = self.model.dialect_for(self.output.constraint, usual)
        self.account.refused = list(refused)
        length_key, lost = self.model.length_key, 0
        while True:
            part = None if self.output.is_free_text else request_part(dialect, self.output)
            self._check_strength(dialect, part)
            body = self._body(name, dialect, part, number, extra, length_key)
            began = time.perf_counter()
            self.reply, self.text = _Reply(), ""
            try:
                if streaming:
                    yield from self._streamed(body, part is not None and part.wrapped)
                else:
                    self._whole(body)
            except BrokenOff:
                lost += 1
                if (
                    not streaming or lost >= self.model.transport.tries
                ):  # the transport has already retried whole answers
                    raise
                self.deadline.pause(_AFTER_LOSS * 2**lost)
                continue
            except RemoteError as error:
                if length_key == "max_tokens" and wants_completion_tokens(error):
                    length_key = "max_completion_tokens"
                    continue
                dialect = self._weakened(dialect, part, error)
                continue
            # From here on, what the server refused counts, since a request without it has succeeded.
            self.model.length_key = length_key
            if len(self.account.refused) > len(refused):
                self.model.remember(
                    self.output.constraint, dialect, self.account.refused, is_sent=part is not None
                )
            self.verdict = self._judged(part)
            if part is not None and part.enforced and self.verdict.is_misfit:
                if not self.model.weaken:
                    raise self.model.ignored(self.output.constraint, dialect, self.verdict.problem)
                self.is_ignored = True
                self.model.warn_ignored(self.output.constraint, dialect, self.verdict.problem)
            self._note(began, dialect if part is not None else None)
            return

    def _check_strength(self, dialect: Dialect, part: RequestPart | None) -> None:
        """Raise, or warn once, if the server will not enforce the constraint."""
        if self.output.is_free_text or (part is not None and part.enforced):
            return
        if not self.model.weaken:
            raise OptionError(
                f"the server at {self.model.url} cannot be sent {self.output.constraint.describe()} "
                f"in the dialect {dialect.name!r}, and weaken=False was chosen",
                hint="With weaken=True of structgen.connect() answers are checked locally only, and a wrong one "
                "leads to another attempt.",
            )
        self.model.warn_unenforced(dialect)

    def _weakened(self, dialect: Dialect, part: RequestPart | None, error: RemoteError) -> Dialect:
        """Return the next dialect that sends something else; raise `error` if the constraint is not to blame."""
        if part is None or not is_bad_request(error):
            raise error
        cause = cause_of(error)
        if cause == "unknown":
            error.hint = _UNNAMED
        if cause != "constraint" or not self.model.weaken:
            raise error
        next_dialect = weaker(dialect)
        while next_dialect is not None and (other := request_part(next_dialect, self.output)) is not None:
            if other.body != part.body:
                break
            next_dialect = weaker(next_dialect)
        if next_dialect is None:
            raise error
        self.account.refused.append(f"{dialect.name}: {error.message}")
        return next_dialect

    def _body(
        self,
        name: str,
        dialect: Dialect,
        part: RequestPart | None,
        number: int,
        extra: list[Message],
        length_key: str,
    ) -> dict[str, Any]:
        options = self.options
        enforced = part is not None and part.enforced and not self.is_ignored
        body: dict[str, Any] = {
            "model": name,
            "messages": [
                *(self.messages if enforced else with_format_description(self.messages, self.output)),
                *extra,
            ],
            length_key: self.room,
            "temperature": options.effective_temperature,
        }
        body |= self._drawing(dialect)
        if options.seed is not None:
            body["seed"] = _seed(options.seed, number)
        sent = part.body if part is not None else {}
        if both := sorted(sent.keys() & self.model.extra.keys()):
            raise OptionError(
                f"extra_body of structgen.connect() has {both[0]!r}, which carries the constraint",
                hint="Leave it out; or choose dialect='none', and answers are checked locally only.",
            )
        return {**body, **sent, **self.model.extra}

    def _drawing(self, dialect: Dialect) -> dict[str, Any]:
        """Return the fields that change from which distribution tokens are drawn, besides the temperature."""
        options = self.options
        fields: dict[str, Any] = {}
        if options.top_p is not None:
            fields["top_p"] = options.top_p
        for key in ("frequency_penalty", "presence_penalty"):
            if value := getattr(options, key):
                fields[key] = value
        if options.logit_bias:
            fields["logit_bias"] = {str(token): value for token, value in options.logit_bias.items()}
        for key, usual in (("top_k", None), ("min_p", None), ("repetition_penalty", 1)):
            value = getattr(options, key)
            if value == usual:
                continue
            if key not in dialect.options and key not in self.model.extra:
                raise OptionError(
                    f"the server at {self.model.url} is not known to take the sampling option {key!r}",
                    hint=f"Leave it out, or send it anyway with extra_body={{{key!r}: ...}} of structgen.connect().",
                )
            fields[key] = value
        return fields

    def _whole(self, body: dict[str, Any]) -> None:
        data = self.model.transport.post("/chat/completions", body, self.deadline)
        self._count(data)
        text, self.reply.finish, message = content_of(data)
        self.reply.text, self.reply.has_text = text or "", text is not None
        refusal = message.get("refusal")
        self.reply.refusal = refusal if isinstance(refusal, str) else ""

    def _streamed(self, body: dict[str, Any], wrapped: bool) -> Iterator[RemoteStep]:
        body = {**body, "stream": True, "stream_options": {"include_usage": True}}
        beginning = PartialAnswer(self.output)
        most = _MOST_CHARACTERS + _MOST_PER_TOKEN * self.room
        has_choices = False
        for event in self.model.transport.stream("/chat/completions", body, self.deadline):
            if event is None:
                if not has_choices:
                    raise RemoteError("the server's answer contains no message", where=self.model.url)
                return
            has_choices = has_choices or first_choice(event) is not None
            self._count(event)
            piece = self._piece(event)
            if not piece:
                continue
            if self.first is None:
                self.first = time.perf_counter() - self.started
            self.reply.text += piece
            if len(self.reply.text) > most:
                raise RemoteError(
                    f"the answer is longer than {self.room} tokens can be", where=self.model.url
                )
            self.text = self.reply.text
            shown = None if wrapped else beginning(self.text)
            if shown is not None:
                yield RemoteStep(shown)
        if self.reply.finish is None:  # neither a finish reason nor [DONE]: the connection was lost
            raise BrokenOff("the stream ended before the answer did", where=self.model.url)

    def _piece(self, event: Any) -> str:
        """Return the text that an event of a stream adds."""
        if isinstance(event, dict) and event.get("error"):
            raise RemoteError(f"the server stopped with an error: {error_in(event)}", where=self.model.url)
        first = first_choice(event)
        if first is None:
            return ""
        if "message" in first:  # the server does not stream
            text, self.reply.finish, message = content_of(event)
            refusal = message.get("refusal")
        else:
            if isinstance(first.get("finish_reason"), str):
                self.reply.finish = first["finish_reason"]
            delta = first.get("delta")
            if not isinstance(delta, dict):
                return ""
            text, refusal = text_of(delta.get("content")), delta.get("refusal")
        if isinstance(refusal, str):
            self.reply.refusal += refusal
        self.reply.has_text = self.reply.has_text or text is not None
        return text or ""

    def _count(self, data: Any) -> None:
        usage = data.get("usage") if isinstance(data, dict) else None
        if isinstance(usage, dict):
            for name, key in (("prompt_tokens", "prompt_tokens"), ("tokens", "completion_tokens")):
                value = usage.get(key)
                if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
                    setattr(self.reply, name, value)

    def _judged(self, part: RequestPart | None) -> Verdict:
        reply = self.reply
        if reply.refusal:
            problem = f"the model refuses: {reply.refusal[:200]}"
            return Verdict(reply.text, problem, OutputInvalid(problem, text=reply.text))
        if not reply.has_text and reply.finish != "length":
            why = "" if reply.finish is None else f" (finish_reason {reply.finish!r:.40})"
            problem = f"the answer has no text{why}"
            return Verdict("", problem, OutputInvalid(problem, text=""))
        verdict = judge(self.output, reply.text, wrapped=part is not None and part.wrapped)
        # A text that was cut off may still be complete; it is then accepted, like a local one at its last token.
        if reply.finish in _STOPPED and (self.output.is_free_text or not verdict.is_right):
            problem = f"the server stopped the answer (finish_reason {reply.finish!r})"
            return Verdict(reply.text, problem, OutputInvalid(problem, text=reply.text))
        if reply.finish == "length" and not verdict.is_right:
            return self._cut(reply)
        return verdict

    def _cut(self, reply: _Reply) -> Verdict:
        tokens = reply.tokens or self._estimate()
        problem = f"the answer was cut off after {tokens} token{'s' * (tokens != 1)}"
        hint = "Raise max_tokens, or request a shorter answer."
        return Verdict(
            reply.text, problem, Truncated(f"{problem}: {reply.text[-60:]!r}", text=reply.text, hint=hint)
        )

    def _estimate(self) -> int:
        return len(self.reply.text.encode("utf-8", "replace")) // 4 + 1

    def _note(self, began: float, dialect: Dialect | None) -> None:
        self.text = self.verdict.text
        tokens = self.reply.tokens or (self._estimate() if self.reply.text else 0)
        name = "none" if dialect is None else dialect.name
        seconds = time.perf_counter() - began
        self.account.attempts.append(Attempt(self.reply.text, self.verdict.problem, tokens, seconds, name))

    def _room(self) -> int:
        """Return the token budget of the next attempt."""
        tokens = self.model.budget.tokens
        if tokens is None:
            return self.options.max_tokens
        return max(0, min(self.options.max_tokens, tokens - self.account.tokens))

    def _budget_error(self) -> StructgenError:
        """Return the error of the last attempt, with the number of attempts and the budget that is spent."""
        count = len(self.account.attempts)
        spent = (
            "seconds" if not self.deadline.left else "attempts" if count >= self.most_attempts else "tokens"
        )
        verdict = self.verdict
        assert verdict.error is not None
        kind = Truncated if isinstance(verdict.error, Truncated) else OutputInvalid
        if spent == "tokens" and self.model.budget.tokens is None:  # max_tokens=0
            return kind(verdict.error.message, text=verdict.text, hint=verdict.error.hint)
        where = "of this call" if spent == "attempts" and self.options.attempts else "of structgen.connect()"
        raises = f"The budget of {spent} is spent; {spent}= {where} raises it."
        return kind(
            f"no right answer in {count} attempt{'s' * (count != 1)}; the last: {verdict.error.message}",
            text=verdict.text,
            hint=f"{raises} {verdict.error.hint or ''}".rstrip(),
        )

    def ended(self, finish: Finish, error: StructgenError | None = None) -> RemoteStep:
        """Return the last step, with the generation so far; an `error` says why the answer failed."""
        timing = Timing(first_token=self.first, total=time.perf_counter() - self.started)
        generation = Generation(
            text=self.text,
            tokens=[],
            finish=finish,
            logprob=None,
            log_weight=None,
            prompt_tokens=self.reply.prompt_tokens,
            retries=max(0, len(self.account.attempts) - 1),
            error=error,
            timing=timing,
        )
        return RemoteStep(self.text, generation, self.account)


def _seed(seed: Any, attempt: int) -> int:
    """Return the seed for the server: the user's own in the first attempt, a fixed other one in each later attempt."""
    parts = list(seed) if isinstance(seed, (list, tuple)) else [seed]
    if len(parts) == 1 and not attempt and int(parts[0]) < 2**63:
        return int(parts[0])
    return attempt_seed(seed, attempt)
