"""A language model with logits processors, which is a language model again, for every sampler.

Why: a penalty or a bias is a statement about the model and not about a sampler. Constraints, weights, exact samplers
and beams then refer to the processed distribution.
What: a `Processor` starts one state for each row, which follows the row's tokens after the prompt and changes its
logits. A function ``(tokens, logits) -> logits`` works as well. Processors run in the given order.
Invariant: a row's state has read exactly the row's tokens after its prompt.
Cost: that of the processors, for every distribution.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from structgen.argument_names import checks_names
from structgen.errors import ModelError, OptionError, a_kind
from structgen.protocols import (
    EarlyExit,
    LanguageModel,
    Prompt,
    Session,
    SessionCapabilities,
    capabilities_of,
    is_chat_model,
    layer_count_of,
    rendered_prompt,
    start_rows,
    token_cache_bytes,
)
from structgen.vocabulary import Vocabulary

__all__ = ["ProcessedModel", "Processor", "RowProcessor", "with_processors"]

Logits = NDArray[np.float32]
LogitsFunction = Callable[[Sequence[int], Logits], Logits]


class RowProcessor(Protocol):
    """The state of a processor in one row."""

    def advance(self, tokens: Sequence[int]) -> None:
        """Append tokens."""
        ...

    def rollback(self, n: int) -> None:
        """Remove the last `n` tokens."""
        ...

    def fork(self) -> RowProcessor:
        """Return an independent copy, for a row that continues from here."""
        ...

    def process(self, logits: Logits) -> Logits:
        """Return the logits of the next token, ``[vocabulary.size]``, without writing to the argument."""
        ...


@runtime_checkable
class Processor(Protocol):
    """Changes the distribution of a model, row by row."""

    def start(self, vocabulary: Vocabulary) -> RowProcessor:
        """Return the state of a row after its prompt."""
        ...


@checks_names
def with_processors(model: LanguageModel, *processors: Processor | LogitsFunction) -> ProcessedModel:
    """Return `model` with its distribution changed by processors, one after another.

    Log-probabilities and weights refer to the resulting distribution.

    Args:
        model: The language model.
        processors: Each is `structgen.models.RPG` or another `Processor`, or a function of a row's tokens after the
            prompt and of the logits of the next token.

    Raises:
        OptionError: There is no processor, or an argument is not one.
    """
    parts = []
    for processor in processors:
        if isinstance(processor, type):
            raise OptionError(
                f"a processor is the class {processor.__name__}, not an instance",
                hint=f"Make one: {processor.__name__}(...).",
            )
        if isinstance(processor, Processor):
            parts.append(processor)
        elif callable(processor):
            parts.append(_Function(processor))
        else:
            raise OptionError(
                "a processor is a function (tokens, logits) -> logits or has a method `start`; "
                f"this is {a_kind(processor)}"
            )
    if not parts:
        raise OptionError(
            "with_processors needs a processor", hint="with_processors(model, structgen.models.RPG(grammar))"
        )
    return ProcessedModel(model, parts)


class ProcessedModel:
    """A model with processors, made by `with_processors`."""

    def __init__(self, model: LanguageModel, processors: Sequence[Processor]) -> None:
        self.model = model
        self.processors = tuple(processors)

    @property
    def vocabulary(self) -> Vocabulary:
        """The vocabulary of the model."""
        return self.model.vocabulary

    @property
    def context_length(self) -> int | None:
        """The context length of the model."""
        return self.model.context_length

    @property
    def is_chat(self) -> bool:
        """Whether a prompt that is a text is a user's message for the model."""
        return is_chat_model(self.model)

    @property
    def cache_bytes_per_token(self) -> int:
        """The size of the model's cache of one token of one row, in bytes."""
        return token_cache_bytes(self.model)

    def render_prompt(self, prompt: Prompt, *, template: Mapping[str, Any] | None = None) -> list[str] | None:
        """Return what the model returns."""
        return rendered_prompt(self.model, prompt, template=template)

    def encode(self, prompt: Prompt) -> list[int]:
        """Return what the model returns."""
        return self.model.encode(prompt)

    def decode(self, ids: Sequence[int]) -> str:
        """Return what the model returns."""
        return self.model.decode(ids)

    def start(self, prompts: Sequence[Sequence[int]]) -> _Session:
        """See `LanguageModel.start`."""
        return self._processed(self.model.start(prompts), len(prompts))

    @property
    def layer_count(self) -> int | None:
        """See `HiddenStatesModel.layer_count`."""
        return layer_count_of(self.model)

    def start_with_hidden_states(self, prompts: Sequence[Sequence[int]], layers: Sequence[int]) -> _Session:
        """See `HiddenStatesModel.start_with_hidden_states`. Processors change logits only."""
        return self._processed(start_rows(self.model, prompts, layers), len(prompts))

    def _processed(self, session: Session, rows: int) -> _Session:
        states = [[processor.start(self.vocabulary) for processor in self.processors] for _ in range(rows)]
        return _Session(session, [_Row(each) for each in states])


class _Row:
    def __init__(self, states: list[RowProcessor], length: int = 0) -> None:
        self.states = states
        self.length = length
        """Tokens after the prompt; below 0 after a rollback into the prompt."""

    def advance(self, tokens: Sequence[int]) -> None:
        # subtle: tokens of the prompt that were rolled back come again first.
        new = tokens[max(0, -self.length) :]
        self.length += len(tokens)
        for state in self.states:
            state.advance(new)

    def rollback(self, n: int) -> None:
        held = min(n, max(0, self.length))
        self.length -= n
        if held:
            for state in self.states:
                state.rollback(held)

    def fork(self) -> _Row:
        return _Row([state.fork() for state in self.states], self.length)

    def process(self, logits: Logits) -> Logits:
        for state in self.states:
            made = np.asarray(state.process(logits), dtype=np.float32)
            if made.shape != logits.shape:
                raise ModelError(
                    f"a processor returned logits of shape {made.shape} for logits of {logits.shape}"
                )
            logits = made
        return logits


class _Session(Session):
    def __init__(self, session: Session, rows: list[_Row]) -> None:
        self._session = session
        self._rows = rows
        self._trees: list[Sequence[int]] = []

    @property
    def capabilities(self) -> SessionCapabilities:
        """Those of the model's session, except padding, joins and forks."""
        return replace(capabilities_of(self._session), takes_padding=False, joins=False, forks=False)

    def logits(self) -> Logits:
        given = self._session.logits()
        return np.stack([row.process(scores) for row, scores in zip(self._rows, given, strict=True)])

    def append(self, tokens: Sequence[Sequence[int]]) -> None:
        self._session.append(tokens)
        for row, new in zip(self._rows, tokens, strict=True):
            row.advance(new)

    def select(self, rows: Sequence[int]) -> None:
        self._session.select(rows)
        before, self._rows = self._rows, []
        taken: set[int] = set()
        for kept in rows:
            self._rows.append(before[kept].fork() if kept in taken else before[kept])
            taken.add(kept)

    def rollback(self, row: int, n: int) -> None:
        self._session.rollback(row, n)
        self._rows[row].rollback(n)

    def hidden_states(self, row: int, start: int = 0) -> Any:
        """See `Session.hidden_states`."""
        return self._session.hidden_states(row, start)

    def early_exit(self, row: int, count: int, layers: int) -> EarlyExit:
        """See `Session.early_exit`. Processors change logits only."""
        return self._session.early_exit(row, count, layers)

    def append_trees(
        self, tokens: Sequence[Sequence[int]], trees: Sequence[tuple[Sequence[int], Sequence[int]]]
    ) -> list[Logits]:
        return self._scored(tokens, trees, self._session.append_trees(tokens, trees))

    def append_probed(
        self,
        tokens: Sequence[Sequence[int]],
        trees: Sequence[tuple[Sequence[int], Sequence[int]]],
        embeddings: Any,
        after: Sequence[Sequence[int]],
    ) -> tuple[list[Logits], Sequence[Logits]]:
        """See `Session.append_probed`. Logits after embeddings are not processed: no tokens lead there."""
        given, probed = self._session.append_probed(tokens, trees, embeddings, after)
        return self._scored(tokens, trees, given), probed

    def _scored(
        self,
        tokens: Sequence[Sequence[int]],
        trees: Sequence[tuple[Sequence[int], Sequence[int]]],
        given: Sequence[Logits],
    ) -> list[Logits]:
        """Return the logits of runs and trees, processed."""
        self._trees = [nodes for nodes, _ in trees]
        scored = []
        for row, run, (nodes, parents), distributions in zip(self._rows, tokens, trees, given, strict=True):
            made = [
                self._processed(row, token, distribution)
                for token, distribution in zip(run, distributions, strict=False)
            ]
            branches: list[_Row] = []
            for node, (token, parent) in enumerate(zip(nodes, parents, strict=True)):
                branches.append((branches[parent] if parent >= 0 else row).fork())
                made.append(self._processed(branches[-1], token, distributions[len(run) + node]))
            scored.append(np.stack(made) if made else distributions)
        return scored

    def keep(self, row: int, nodes: Sequence[int]) -> None:
        self._session.keep(row, nodes)
        self._rows[row].advance([self._trees[row][node] for node in nodes])

    def _processed(self, row: _Row, token: int, distribution: Logits) -> Logits:
        row.advance([token])
        return row.process(distribution)

    def append_scored(self, tokens: Sequence[Sequence[int]]) -> list[Logits]:
        given = self._session.append_scored(tokens)
        scored = []
        for row, new, distributions in zip(self._rows, tokens, given, strict=True):
            made = np.empty((len(new), distributions.shape[-1] if len(new) else 0), dtype=np.float32)
            for index, token in enumerate(new):
                row.advance([token])
                made[index] = row.process(distributions[index])
            scored.append(made)
        return scored


class _Function:
    """A function as a processor."""

    def __init__(self, function: LogitsFunction) -> None:
        self._function = function

    def start(self, vocabulary: Vocabulary) -> _FunctionRow:
        return _FunctionRow(self._function, [])


class _FunctionRow:
    def __init__(self, function: LogitsFunction, tokens: list[int]) -> None:
        self._function = function
        self._tokens = tokens

    def advance(self, tokens: Sequence[int]) -> None:
        self._tokens.extend(tokens)

    def rollback(self, n: int) -> None:
        del self._tokens[len(self._tokens) - n :]

    def fork(self) -> _FunctionRow:
        return _FunctionRow(self._function, list(self._tokens))

    def process(self, logits: Logits) -> Logits:
        try:
            return self._function(tuple(self._tokens), logits)
        except Exception as error:
            name = getattr(self._function, "__name__", "function")
            raise ModelError(
                f"the processor {name} failed after {len(self._tokens)} tokens: {type(error).__name__}: {error}",
                hint="It is called as processor(tokens, logits), with the tokens after the prompt.",
            ) from error
