"""The interfaces between constraints, models and the algorithms that combine them.

Why: samplers, speculative decoding and infilling are written once, against these protocols. Matchers may live in this
process or in another one; models may be `transformers` models, models in memory, or wrappers around either.
Invariant: what an implementation can do is declared (`SessionCapabilities`, `TokenMatcher.judge`). No caller tests for
attributes. A user's model and its sessions need only the basic members: `capabilities_of`, `is_chat_model`,
`token_cache_bytes` and `rendered_prompt` supply the defaults of the others, and are the only readers of them.
Cost: none; this module holds declarations only.

A *session* holds a batch of rows (token sequences) and what the model remembers of them: its KV cache. Rows may have
different lengths, receive different numbers of tokens at a time, leave the batch, be duplicated and be cropped.
``logits()`` is a function of each row's tokens alone: how they were appended, cropped, selected or batched does not
change it, up to the rounding of the model's arithmetic.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeGuard, cast

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from structgen.vocabulary import Vocabulary

__all__ = [
    "EarlyExit",
    "HiddenStatesModel",
    "JudgingMatcher",
    "LanguageModel",
    "Message",
    "Prompt",
    "Session",
    "SessionCapabilities",
    "TextMatcher",
    "TokenMatcher",
    "Tree",
    "capabilities_of",
    "hidden_state_bytes",
    "is_chat_model",
    "is_language_model",
    "layer_count_of",
    "rendered_prompt",
    "start_rows",
    "token_cache_bytes",
]

Message = Mapping[str, Any]
"""One turn of a conversation: ``{"role": "system" | "user" | "assistant", "content": ...}``.

The content is a text or a list of content parts. Tool calls and their results have the form of the OpenAI protocol
(see `models.messages`)."""

Prompt = str | Sequence[Message]

Tree = tuple[Sequence[int], Sequence[int]]
"""A draft tree: the token of each node, and the parent of each node (an earlier node, or -1 for the end of the row)."""


@dataclass(frozen=True, slots=True)
class SessionCapabilities:
    """What a session can do in addition to `logits`, `append`, `select` and `rollback`."""

    scores_runs: bool = False
    """Whether `append_scored` returns the logits after every token of a run."""
    reads_trees: bool = False
    """Whether `append_trees` and `keep` read draft trees. Requires `scores_runs`."""
    reads_embeddings: bool = False
    """Whether `append_probed` reads embeddings that are no tokens. Requires `reads_trees`."""
    crops_cheaply: bool = False
    """Whether `rollback` costs next to nothing. Draft tokens are read only in such sessions."""
    takes_padding: bool = False
    """Whether tokens may be appended that are rolled back at once, where a longer forward pass takes less time."""
    hidden_states: bool = False
    """Whether `hidden_states` returns those of the layers with which the session was started."""
    exits: bool = False
    """Whether `early_exit` runs the first layers of the model over draft tokens."""
    joins: bool = False
    """Whether `join` takes in the rows of another session."""
    forks: bool = False
    """Whether `fork` copies rows into a new session."""
    draft_limit: int | None = None
    """The position after which no draft token may be read, because it would change the logits before it; None if there
    is no such position."""


class EarlyExit(Protocol):
    """The first layers of a model over draft tokens of one row, with the row's KV cache; see `Session.early_exit`."""

    def states(self, tokens: Sequence[int]) -> Any:
        """Return the hidden states of the last of these layers after each of `tokens`, ``[tokens, hidden size]``.

        `tokens` are one or more that follow those of the cache. What earlier calls have read is not read again.
        """
        ...

    def unread(self, tokens: Sequence[int]) -> int:
        """Return how many of `tokens` a call of `states` would have to read."""
        ...


class Session(Protocol):
    """A batch of rows and what the model remembers of them.

    `append_scored`, `append_trees`, `keep`, `append_probed`, `hidden_states`, `early_exit`, `join` and `fork` may be
    called only if `capabilities` says so. Classes that inherit from this protocol get those methods, which raise
    `NotImplementedError`. Others may omit them and `capabilities`.
    """

    @property
    def capabilities(self) -> SessionCapabilities:
        """What the session can do beyond the four basic methods."""
        return SessionCapabilities()

    def logits(self) -> NDArray[np.float32]:
        """Return the logits of each row's next token, float32 ``[rows, vocabulary.size]``.

        The array is read-only, and valid until the session changes.
        """
        ...

    def append(self, tokens: Sequence[Sequence[int]]) -> None:
        """Append tokens to each row (none, one or several) in one forward pass."""
        ...

    def select(self, rows: Sequence[int]) -> None:
        """Keep these rows, in this order. A row named twice is duplicated; a row that is not named is evicted."""
        ...

    def rollback(self, row: int, n: int) -> None:
        """Remove the last `n` tokens of a row, tokens of its prompt included."""
        ...

    def append_scored(self, tokens: Sequence[Sequence[int]]) -> Sequence[NDArray[np.float32]]:
        """Append tokens as `append` does.

        Returns:
            For each row the logits after each of its new tokens, ``[new tokens, vocabulary.size]``.
        """
        raise _unsupported("append_scored")

    def append_trees(
        self, tokens: Sequence[Sequence[int]], trees: Sequence[Tree]
    ) -> Sequence[NDArray[np.float32]]:
        """Append tokens to each row, and read a draft tree after them. `keep` must follow, once for each row.

        Returns:
            For each row the logits after each appended token and each node, ``[tokens + nodes, vocabulary.size]``.
        """
        raise _unsupported("append_trees")

    def append_probed(
        self,
        tokens: Sequence[Sequence[int]],
        trees: Sequence[Tree],
        embeddings: Any,
        after: Sequence[Sequence[int]],
    ) -> tuple[Sequence[NDArray[np.float32]], Sequence[NDArray[np.float32]]]:
        """Do what `append_trees` does, and in the same pass read embeddings after some of the nodes, one by one.

        Nothing of the embeddings is kept. `keep` must follow, once for each row.

        Args:
            tokens: The new tokens of each row.
            trees: The tree of each row.
            embeddings: A torch tensor ``[embeddings, hidden size]`` in the precision of the model and on its device, as
                its input embeddings are.
            after: Some nodes of each row. All embeddings are read after each of them; -1 is the end of its tokens.

        Returns:
            What `append_trees` returns, and for each row the logits after each embedding,
            ``[nodes in after, embeddings, vocabulary.size]``.
        """
        raise _unsupported("append_probed")

    def keep(self, row: int, nodes: Sequence[int]) -> None:
        """Keep the tokens of these nodes, a path from the root of the row's tree; roll back the others."""
        raise _unsupported("keep")

    def hidden_states(self, row: int, start: int = 0) -> Any:
        """Return the hidden states after the tokens of a row, those of its prompt included.

        Only in sessions of `HiddenStatesModel.start_with_hidden_states`.

        Args:
            row: The row.
            start: The number of the first token.

        Returns:
            A torch tensor on the model's device, ``[tokens, layers, hidden size]``, in its precision. While a tree of
            the row waits for `keep`, the states after its nodes follow. The tensor is read-only. It is valid until the
            row reads tokens or a tree, or some nodes of its tree are kept.
        """
        raise _unsupported("hidden_states")

    def early_exit(self, row: int, count: int, layers: int) -> EarlyExit:
        """Return the first `layers` layers of the model, to read what may follow the first `count` tokens of a row.

        Only in sessions of `HiddenStatesModel.start_with_hidden_states`. The result is valid until the session changes;
        what it reads is not added to the session.
        """
        raise _unsupported("early_exit")

    def join(self, other: Any) -> None:
        """Append the rows of `other`, a session of the same model, which must not be used afterwards."""
        raise _unsupported("join")

    def fork(self, rows: Sequence[int]) -> Session:
        """Return a new session with copies of these rows."""
        raise _unsupported("fork")


def capabilities_of(session: Session) -> SessionCapabilities:
    """Return the capabilities of a session; those of the four basic methods if its class declares none."""
    declared: SessionCapabilities = getattr(session, "capabilities", _BASIC)
    return declared


_BASIC = SessionCapabilities()


def _unsupported(method: str) -> NotImplementedError:
    return NotImplementedError(f"this session has no {method}(): see its capabilities")


class LanguageModel(Protocol):
    """A model with its tokenizer.

    A class that does not inherit from this protocol may omit `is_chat`, `cache_bytes_per_token` and `render_prompt`.
    """

    @property
    def vocabulary(self) -> Vocabulary:
        """The tokens as bytes; `Vocabulary.size` is the width of the logits."""
        ...

    @property
    def context_length(self) -> int | None:
        """The largest number of tokens of a row, prompt included; None if there is no bound."""
        ...

    @property
    def is_chat(self) -> bool:
        """Whether a prompt that is a text is a user's message; False if the model continues the text itself."""
        return True

    @property
    def cache_bytes_per_token(self) -> int:
        """The size of the KV cache of one token of one row, in bytes; 0 if it is not known."""
        return 0

    def render_prompt(self, prompt: Prompt, *, template: Mapping[str, Any] | None = None) -> list[str] | None:
        """Return the text that `encode` tokenizes, in parts; None if the model has no chat template.

        Args:
            prompt: A text or messages.
            template: Variables of the chat template.
        """
        return None

    def encode(self, prompt: Prompt) -> list[int]:
        """Return the tokens of a prompt, in the form that the model expects of a user's turn."""
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of tokens; bytes that are not UTF-8 become replacement characters."""
        ...

    def start(self, prompts: Sequence[Sequence[int]]) -> Session:
        """Prefill one row per prompt and return the session."""
        ...


class HiddenStatesModel(LanguageModel, Protocol):
    """A model whose sessions can keep hidden states, for learned drafters."""

    @property
    def layer_count(self) -> int:
        """The number of layers whose hidden states sessions can keep."""
        ...

    def start_with_hidden_states(self, prompts: Sequence[Sequence[int]], layers: Sequence[int]) -> Session:
        """Start a session that keeps the hidden states of some layers after every token.

        Args:
            prompts: As for `start`.
            layers: 0 for the embeddings, k for the output of the k-th layer. `layer_count` is what the output layer
                reads, after the final norm.
        """
        ...


def start_rows(model: LanguageModel, prompts: Sequence[Sequence[int]], layers: Sequence[int]) -> Session:
    """Start a session that keeps the hidden states of `layers`, if the model is a `HiddenStatesModel`."""
    if layers and layer_count_of(model) is not None:
        return cast(HiddenStatesModel, model).start_with_hidden_states(prompts, layers)
    return model.start(prompts)


def hidden_state_bytes(model: LanguageModel, layers: int) -> int:
    """Return the size of the hidden states of `layers` layers after one token; 0 if the model does not state it."""
    return layers * int(getattr(model, "hidden_state_bytes", 0))


def layer_count_of(model: LanguageModel) -> int | None:
    """Return `HiddenStatesModel.layer_count`; None for other models."""
    count: int | None = getattr(model, "layer_count", None)
    return count


def is_language_model(given: object) -> TypeGuard[LanguageModel]:
    """Return whether `given`, an argument of a caller, is a language model with logits."""
    return hasattr(given, "start") and hasattr(given, "vocabulary")


def is_chat_model(model: LanguageModel) -> bool:
    """Return `LanguageModel.is_chat`; True if the model's class does not declare it."""
    return bool(getattr(model, "is_chat", True))


def token_cache_bytes(model: LanguageModel) -> int:
    """Return `LanguageModel.cache_bytes_per_token`; 0 if the model's class does not declare it."""
    return int(getattr(model, "cache_bytes_per_token", 0))


def rendered_prompt(
    model: LanguageModel, prompt: Prompt, *, template: Mapping[str, Any] | None = None
) -> list[str] | None:
    """Return `LanguageModel.render_prompt` of a prompt; None if the model's class has no such method."""
    if not hasattr(model, "render_prompt"):
        return None
    return model.render_prompt(prompt, template=template)


class TokenMatcher(Protocol):
    """A constraint on one sequence: masks, tokens, and steps back. `structgen.Matcher` is the usual implementation.

    Invariant: ``mask()`` allows a token iff ``advance`` accepts it, unless `judge` is not None.
    Classes that inherit from this protocol get the defaults of a matcher without special tokens, temperatures, monitors
    and pending answers.
    """

    @property
    def constraint(self) -> Any:
        """The constraint; None without one, or if it lives in another process."""
        return None

    @property
    def draft_key(self) -> Any:
        """What identifies the constraint to drafters, hashable: rows with equal keys may share drafts.

        None without a constraint. The default is the constraint itself.
        """
        return self.constraint

    @property
    def can_draft(self) -> bool:
        """Whether steps and roll-backs are cheap enough for draft tokens."""
        return not self.is_waiting

    @property
    def spells_specials(self) -> bool:
        """Whether the text of a result contains the names of special tokens, because the constraint reads them."""
        return False

    @property
    def sets_temperature(self) -> bool:
        """Whether `temperature` may differ from None somewhere in a text."""
        return False

    @property
    def temperature(self) -> float | None:
        """The temperature that the constraint sets for the next token; None if it sets none."""
        return None

    @property
    def unproven(self) -> int:
        """The number of states that count as live because their liveness search met its limit."""
        return 0

    @property
    def is_waiting(self) -> bool:
        """Whether the mask depends on an answer that has not arrived yet."""
        return False

    @property
    def judge(self) -> JudgingMatcher | None:
        """This matcher, if monitors may refuse tokens that its mask allows or find faults in finished texts."""
        return None

    @property
    def must_stop(self) -> bool:
        """Whether the text is complete and no token can follow."""
        ...

    @property
    def search_failure(self) -> str | None:
        """Why the last `witness` found no completion, as the end of a sentence; None if it found one."""
        return None

    def mask(self) -> NDArray[np.int32]:
        """Return the mask of the next token: int32 ``[vocabulary.words]``, least significant bit first; read-only."""
        ...

    def allowed_count(self) -> int:
        """Return the number of tokens that the mask allows."""
        ...

    def advance(self, token_id: int) -> bool:
        """Append a token. Return False, and change nothing, if it is not allowed."""
        ...

    def rollback(self, n: int) -> None:
        """Remove the last `n` tokens."""
        ...

    def fork(self) -> TokenMatcher | None:
        """Return an independent matcher in the same state; None if it cannot be copied."""
        return None

    def forced(self) -> list[int]:
        """Return the run of tokens that are the only choice, from here on."""
        ...

    def forced_bytes(self, most: int = ...) -> bytes:
        """Return the bytes that every continuation starts with, at most `most` of them."""
        ...

    def is_complete(self) -> bool:
        """Return whether the text may end here."""
        ...

    def witness(self, max_tokens: int | None = None) -> list[int] | None:
        """Return a short completion of at most `max_tokens` tokens; None if none was found."""
        ...

    def witness_text(self, after: bytes = b"") -> bytes | None:
        """Return a short completion of the text so far followed by `after`, as bytes; None if none is known."""
        return None

    def least_tokens(self, room: int) -> int | None:
        """Return the number of tokens of a short text of the constraint; None if it is not known.

        The search stops at the first text of at most `room` tokens.
        """
        ...

    def on_disconnect(self) -> None:
        """Called, from any thread, when no one needs the text any more."""
        return


class TextMatcher(TokenMatcher, Protocol):
    """A matcher in this process, whose text can be read and whose state can be copied."""

    @property
    def vocabulary(self) -> Vocabulary:
        """The vocabulary that its tokens are numbers of."""
        ...

    @property
    def tokens(self) -> list[int]:
        """The tokens so far."""
        ...

    @property
    def text(self) -> bytes:
        """The bytes of the text so far."""
        ...

    @property
    def is_finished(self) -> bool:
        """Whether an end-of-sequence token was read."""
        ...

    @property
    def names_text_tokens(self) -> bool:
        """Whether the constraint names tokens of text, so that a text alone does not decide whether it is satisfied."""
        ...

    @property
    def native(self) -> Any:
        """The matcher of the core. Its mask may allow more than `mask` does; see `mask_is_native`."""
        ...

    @property
    def mask_is_native(self) -> bool:
        """Whether `native` computes the same masks."""
        ...

    def fork(self) -> TextMatcher:
        """Return an independent matcher in the same state."""
        ...

    def fill(self, out: NDArray[np.int32], row: int = 0) -> None:
        """Write the mask into row `row` of `out`, int32 ``[rows, words]``."""
        ...

    def accepts(self, token_ids: Sequence[int]) -> int:
        """Return how many of these tokens can follow, in order, without advancing."""
        ...


class JudgingMatcher(TextMatcher, Protocol):
    """A matcher whose monitors may refuse a token that the mask allows, and judge finished texts."""

    @property
    def refused(self) -> Set[int]:
        """The tokens that were refused at this position, even if the mask allows them."""
        ...

    @property
    def report(self) -> Any:
        """What the monitors did so far (`structgen.monitors.MonitorReport`)."""
        ...

    def is_right(self) -> bool:
        """Return whether no monitor finds a fault in the text, if it ends here."""
        ...

    def first_fault(self) -> int | None:
        """Return the index of the token in which the first fault of the finished text begins.

        None if there is no fault, or if as many faults were repaired as the constraint allows.
        """
        ...

    def on_repair(self) -> None:
        """Called before the text is rolled back to the fault that `first_fault` returned."""
        ...
