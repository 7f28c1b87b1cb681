"""The model of a server for typed calls: its answers are checked, and requested again if they are wrong.

Why: typed code moves from a laptop to a server unchanged. A remote model returns no logits, so it is not a
`structgen.protocols.LanguageModel`; it answers whole prompts (`answers`, `answer_steps`), which `structgen.api` calls.
Invariant: a feature that only local models have is refused by name, never silently ignored.
Cost: one request per prompt of a batch, `concurrency` at a time.
"""

from __future__ import annotations

import json
import threading
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeVar

from structgen.attempts import Account, Message, messages_of
from structgen.constraints.base import Constraint
from structgen.errors import (
    ConstraintNotSent,
    OptionError,
    PromptError,
    RemoteError,
    StructgenError,
    VocabularyError,
)
from structgen.generation import SamplingOptions
from structgen.results import Result
from structgen.types import OutputType

from .detection import list_models, probe
from .dialects import Dialect
from .retrying import Budget, RemoteStep, Run
from .transport import Cancelled, Deadline, Transport

__all__ = ["RemoteModel", "RemoteResult"]

T = TypeVar("T")
Cancel = Callable[[], bool]
_REMEMBERED = 256
_UNENFORCED = frozenset({"json_object", "none"})
"""Dialects that cannot express a constraint."""
_ONLY_LOCAL: tuple[tuple[str, Any, str], ...] = (
    ("close_within_budget", False, "Raise max_tokens; an answer that is cut off is requested again."),
    ("noise", "gumbel", "Leave it out: the server uses its own random numbers."),
)


@dataclass
class RemoteResult(Result[T]):
    """A `Result` of a server, without tokens and weights."""

    account: Account = field(default_factory=Account)

    def __repr__(self) -> str:
        shown = repr(self.error) if self.error is not None else repr(self.value)
        return f"<Result {self.finish}: {shown}, attempt {len(self.account.attempts)}>"


class RemoteModel:
    """A model of a server; `structgen.connect` returns it. Threads may share it."""

    def __init__(
        self,
        transport: Transport,
        model: str | None,
        dialect: Dialect | None,
        *,
        budget: Budget,
        concurrency: int,
        extra_body: Mapping[str, Any] | None,
        weaken: bool = True,
    ) -> None:
        self.budget = budget
        self.weaken = weaken
        self.concurrency = concurrency
        self.transport = transport
        self._model = model
        self._dialect = dialect
        self.extra = dict(extra_body or {})
        self._lock, self._warning = threading.Lock(), threading.RLock()
        self._weaker: OrderedDict[Constraint, tuple[Dialect, tuple[str, ...]]] = OrderedDict()
        """By constraint: the dialect that the server accepted instead of its usual one, and its refusals."""
        self._ignored: OrderedDict[Constraint, None] = OrderedDict()
        """Constraints that the server ignored."""
        self._was_probed = False
        self._has_warned = False
        self.length_key = "max_tokens"

    @property
    def url(self) -> str:
        """The server's address."""
        return self.transport.url

    @property
    def model(self) -> str:
        """The name of the model; requests it from the server if none was given."""
        return self.known(Deadline.within(self.budget.seconds))[0]

    @property
    def dialect(self) -> str:
        """The name of the server's dialect; detected by requests if none was given."""
        return self.known(Deadline.within(self.budget.seconds))[1].name

    def close(self) -> None:
        """Close the connections; the next call opens new ones."""
        self.transport.close()

    def __enter__(self) -> RemoteModel:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        with self._lock:
            copied = {"_weaker": self._weaker.copy(), "_ignored": self._ignored.copy()}
            return {**self.__dict__, "_lock": None, "_warning": None, **copied}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.Lock(), _warning=threading.RLock())

    def __repr__(self) -> str:
        return f"<model {self._model or '(the only one)'} at {self.url}>"

    # Features of local models that a remote one lacks.

    @property
    def vocabulary(self) -> NoReturn:
        """Raises `VocabularyError`: a remote model has no vocabulary."""
        raise VocabularyError(
            "a remote model has no vocabulary: its server returns texts, not tokens and logits",
            hint="Samplers, masks, infilling and processors need a local model: structgen.load(), structgen.wrap().",
        )

    @property
    def context_length(self) -> None:
        """None: not known. The server refuses prompts that are too long."""
        return None

    # Called by `structgen.api`.

    def answers(
        self,
        prompts: Sequence[Any],
        output: OutputType,
        options: Sequence[SamplingOptions],
        *,
        cancel: Cancel | None = None,
    ) -> list[Result[Any]]:
        """Return one result per prompt, `concurrency` requests at a time.

        Args:
            prompts: Texts or lists of messages.
            output: The type of the answers.
            options: Sampling options, one per prompt.
            cancel: Called repeatedly; True ends all requests.

        Raises:
            OptionError: A remote model does not support an option.
            PromptError: A message is invalid. All other errors are in the results.
        """
        asked = [(_checked_messages(prompt), each) for prompt, each in zip(prompts, options, strict=True)]
        for each in options:
            _check_options(each)

        def answer(request: tuple[list[Message], SamplingOptions]) -> Result[Any]:
            (*_, last) = self._steps(*request, output, cancel, streaming=cancel is not None)
            assert last.generation is not None and last.account is not None
            return RemoteResult(output, last.generation, last.account)

        if len(asked) == 1:
            return [answer(asked[0])]
        with ThreadPoolExecutor(max(1, min(self.concurrency, len(asked)))) as pool:
            return list(pool.map(answer, asked))

    def answer_steps(
        self, prompt: Any, output: OutputType, options: SamplingOptions, *, cancel: Cancel | None = None
    ) -> Iterator[RemoteStep]:
        """Yield the unfinished answer; after a wrong answer it starts again from an empty text."""
        messages = _checked_messages(prompt)
        _check_options(options)
        return self._steps(messages, options, output, cancel, streaming=True)

    # One answer.

    def _steps(
        self,
        messages: list[Message],
        options: SamplingOptions,
        output: OutputType,
        cancel: Cancel | None,
        *,
        streaming: bool,
    ) -> Iterator[RemoteStep]:
        run = Run(self, messages, options, output, Deadline.within(self.budget.seconds, cancel))
        try:
            yield from run.attempts(streaming)
        except Cancelled:
            yield run.ended("cancelled")
        except (OptionError, PromptError):
            raise
        except StructgenError as error:
            error.account = run.account
            yield run.ended("failed", error)

    def known(self, deadline: Deadline) -> tuple[str, Dialect]:
        """Return the model's name and the server's dialect, which are detected once."""
        with self._lock:
            if self._model is None or self._dialect is None:
                server = list_models(self.transport, deadline)
                if self._model is None:
                    self._model = server.only_model(self.url)
                if self._dialect is None:
                    self._dialect = server.dialect(self._model)
                if self._dialect is None:
                    self._dialect, self.length_key = probe(self.transport, self._model, deadline)
                    self._was_probed = True
            return self._model, self._dialect

    def dialect_for(self, constraint: Constraint, usual: Dialect) -> tuple[Dialect, tuple[str, ...]]:
        """Return the dialect for a constraint, and the server's refusals of richer ones."""
        with self._lock:
            return self._weaker.get(constraint, (usual, ()))

    def remember(
        self, constraint: Constraint, dialect: Dialect, refused: Sequence[str], *, is_sent: bool
    ) -> None:
        """Send the constraint in a weaker dialect from now on, and warn once."""
        # subtle: the warning comes first. If warnings are errors, nothing is remembered, so every call raises.
        with self._warning:
            if constraint not in self._weaker:
                now = f"from now on it is sent as {dialect.name}" if is_sent else "it is no longer sent"
                self._warn(
                    f"the server at {self.url} refused {constraint.describe():.200} ({refused[-1]}); {now}. Answers "
                    "are still checked locally. weaken=False of structgen.connect() makes this an error."
                )
            with self._lock:
                self._weaker[constraint] = (dialect, tuple(refused))
                while len(self._weaker) > _REMEMBERED:
                    self._weaker.popitem(last=False)

    def warn_unenforced(self, dialect: Dialect) -> None:
        """Warn once about a server that was found to enforce no constraint."""
        with self._warning:
            if self._has_warned or not self._was_probed:
                return
            if dialect is self._dialect and dialect.name in _UNENFORCED:
                self._warn(
                    f"the server at {self.url} enforces no constraint in any known dialect. The prompt describes the "
                    "format to the model, and answers are checked locally. "
                    f"dialect={dialect.name!r} of structgen.connect() says that this is intended."
                )
                self._has_warned = True

    def has_ignored(self, constraint: Constraint) -> bool:
        """Return whether the server is known to accept this constraint and ignore it."""
        with self._lock:
            return constraint in self._ignored

    def ignored(self, constraint: Constraint, dialect: Dialect, problem: str) -> RemoteError:
        """Return the error of an answer that does not satisfy the constraint that was sent."""
        return RemoteError(_ignored_message(self.url, constraint, dialect, problem), hint=_OTHER_DIALECT)

    def warn_ignored(self, constraint: Constraint, dialect: Dialect, problem: str) -> None:
        """Warn once that the server accepted a constraint and ignored it."""
        with self._warning:
            if constraint in self._ignored:
                return
            said = _ignored_message(self.url, constraint, dialect, problem)
            self._warn(f"{said}. Answers are still checked locally. {_OTHER_DIALECT}")
            with self._lock:
                self._ignored[constraint] = None
                while len(self._ignored) > _REMEMBERED:
                    self._ignored.popitem(last=False)

    def _warn(self, message: str) -> None:
        warnings.warn(message, ConstraintNotSent, stacklevel=2)


_OTHER_DIALECT = "The server may enforce another dialect= of structgen.connect()."


def _ignored_message(url: str, constraint: Constraint, dialect: Dialect, problem: str) -> str:
    return (
        f"the server at {url} was sent {constraint.describe():.200} as {dialect.name}, and answered with a text that "
        f"does not satisfy it ({' '.join(problem.split()):.200})"
    )


def _checked_messages(prompt: Any) -> list[Message]:
    """Return the messages of a prompt. Their contents must be JSON; the server checks the rest."""
    messages = messages_of(prompt)
    for index, message in enumerate(messages):
        role = message.get("role")
        if not isinstance(role, str) or not role:
            problem = "has no role" if role is None else f"has the role {role!r:.60}"
            raise PromptError(
                f"the message {problem}",
                where=f"messages[{index}]",
                hint='Messages look like {"role": "user", "content": "..."}.',
            )
        try:
            json.dumps(message, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise PromptError(
                f"the message cannot be written as JSON: {error}",
                where=f"messages[{index}]",
                hint="Contents are texts or lists of parts. Send images as URLs or as base64 text.",
            ) from None
    return messages


def _check_options(options: SamplingOptions) -> None:
    for name, usual, hint in _ONLY_LOCAL:
        if getattr(options, name) != usual:
            raise OptionError(f"a remote model does not support the sampling option {name!r}", hint=hint)
