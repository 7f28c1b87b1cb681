"""A model behind a server, as the typed calls see it: texts that are asked for, checked, and asked for again.

Why: typed code moves from a laptop to a server unchanged. A remote model gives no logits, so it is no
`structgen.models.LanguageModel`; it answers whole prompts (`answers`, `answer_steps`), which `structgen.api` asks for.
Invariant: what a local model can and a remote one cannot is refused by name, never left out in silence.
Cost: a batch is as many requests as it has prompts, `concurrency` at a time.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeVar

from structgen.constraints.base import Constraint
from structgen.errors import OptionError, PromptError, StructgenError, VocabularyError
from structgen.results import Result
from structgen.sampling import SamplingOptions
from structgen.types import OutputType

from .answering import Account, Budget, RemoteStep, Run
from .asking import Message, messages_of
from .detection import ask_models, probe
from .dialects import Dialect
from .transport import Cancelled, Deadline, Transport

__all__ = ["RemoteModel", "RemoteResult"]

T = TypeVar("T")
Cancel = Callable[[], bool]
_REMEMBERED = 256
_ONLY_LOCAL: tuple[tuple[str, Any, str], ...] = (
    ("close_within_budget", False, "Raise max_tokens; an answer that is cut off is asked for again."),
    ("noise", "gumbel", "Leave it out: the server draws by its own random numbers."),
)


@dataclass
class RemoteResult(Result[T]):
    """A `Result` of a server; it has no tokens and no weights."""

    account: Account = field(default_factory=Account)

    def __repr__(self) -> str:
        shown = repr(self.error) if self.error is not None else repr(self.value)
        return f"<Result {self.finish}: {shown}, attempt {len(self.account.attempts)}>"


class RemoteModel:
    """Made by `structgen.connect`. Threads may share it."""

    def __init__(
        self,
        transport: Transport,
        model: str | None,
        dialect: Dialect | None,
        *,
        budget: Budget,
        concurrency: int,
        extra_body: Mapping[str, Any] | None,
    ) -> None:
        self.budget = budget
        self.concurrency = concurrency
        self.transport = transport
        self._model = model
        self._dialect = dialect
        self.extra = dict(extra_body or {})
        self._lock = threading.Lock()
        self._weaker: OrderedDict[Constraint, Dialect] = OrderedDict()
        """What the server took instead of its own dialect, by constraint."""
        self.length_key = "max_tokens"

    @property
    def url(self) -> str:
        """The server's address."""
        return self.transport.url

    @property
    def model(self) -> str:
        """The name of the model; asks the server where none was given."""
        return self.known(Deadline.within(self.budget.seconds))[0]

    @property
    def dialect(self) -> str:
        """The name of the dialect that the server speaks; asks it where none was given."""
        return self.known(Deadline.within(self.budget.seconds))[1].name

    def close(self) -> None:
        """Close the connections; the next call opens new ones."""
        self.transport.close()

    def __enter__(self) -> RemoteModel:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<model {self._model or '(the only one)'} at {self.url}>"

    # What a local model has, and a remote one has not.

    @property
    def vocabulary(self) -> NoReturn:
        """A remote model has none: raises `VocabularyError`."""
        raise VocabularyError(
            "a remote model has no vocabulary: its server gives texts, not tokens and logits",
            hint="Samplers, masks, infilling and processors need a local model: structgen.load(), structgen.wrap().",
        )

    @property
    def context_length(self) -> None:
        """Not known; the server refuses prompts that are too long."""
        return None

    # What `structgen.api` asks.

    def answers(
        self,
        prompts: Sequence[Any],
        output: OutputType,
        options: Sequence[SamplingOptions],
        *,
        cancel: Cancel | None = None,
    ) -> list[Result[Any]]:
        """One result for each prompt, `concurrency` at a time. Raises `OptionError` and `PromptError` only."""
        asked = [(messages_of(prompt), each) for prompt, each in zip(prompts, options, strict=True)]
        for each in options:
            _check_options(each)

        def answer(one: tuple[list[Message], SamplingOptions]) -> Result[Any]:
            (*_, last) = self._steps(*one, output, cancel, streaming=cancel is not None)
            assert last.generation is not None and last.account is not None
            return RemoteResult(output, last.generation, last.account)

        if len(asked) == 1:
            return [answer(asked[0])]
        with ThreadPoolExecutor(max(1, min(self.concurrency, len(asked)))) as pool:
            return list(pool.map(answer, asked))

    def answer_steps(
        self, prompt: Any, output: OutputType, options: SamplingOptions, *, cancel: Cancel | None = None
    ) -> Iterator[RemoteStep]:
        """The answer as it grows; where it has to be asked for again, it begins anew."""
        messages = messages_of(prompt)
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
            yield run.ended("failed", error)

    def known(self, deadline: Deadline) -> tuple[str, Dialect]:
        """The model's name and the server's dialect, found out once."""
        with self._lock:
            if self._model is None or self._dialect is None:
                server = ask_models(self.transport, deadline)
                if self._model is None:
                    self._model = server.only_model(self.url)
                if self._dialect is None:
                    self._dialect = server.dialect(self._model)
                if self._dialect is None:
                    self._dialect = probe(self.transport, self._model, deadline)
            return self._model, self._dialect

    def dialect_for(self, constraint: Constraint, usual: Dialect) -> Dialect:
        with self._lock:
            return self._weaker.get(constraint, usual)

    def remember(self, constraint: Constraint, dialect: Dialect) -> None:
        with self._lock:
            self._weaker[constraint] = dialect
            while len(self._weaker) > _REMEMBERED:
                self._weaker.popitem(last=False)


def _check_options(options: SamplingOptions) -> None:
    for name, usual, hint in _ONLY_LOCAL:
        if getattr(options, name) != usual:
            raise OptionError(f"a remote model cannot keep the sampling option {name!r}", hint=hint)
