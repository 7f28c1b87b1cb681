"""Closing within a token budget: a completion that fits is always held.

Why: a text that is cut off is worth nothing to a typed call, and a mask alone does not know the budget.
Invariant: between steps a witness is held: tokens that complete the text from here and fit the remaining budget. A
token is admitted only if it is the witness's next token, or if a witness after it fits. So the held witness can be
followed at any time, and generation never ends truncated.
The distribution stays right: a drawn token that is not admitted is excluded, and the draw is repeated. Drawing until a
token is admitted is drawing from the distribution restricted to admitted tokens, which need not be enumerated. Their
probability is not known then, so such a generation has no `log_weight`.
Cost: one witness search per drawn token that leaves the held witness; none for tokens on it.
"""

from __future__ import annotations

from structgen.errors import LimitExceeded, OptionError
from structgen.protocols import TokenMatcher

__all__ = ["Budget", "check_room", "room_after"]


def room_after(prompt: int, context_length: int | None, max_tokens: int) -> tuple[int, str]:
    """Return the largest number of text tokens after a prompt of `prompt` tokens, and the option that sets it."""
    if prompt == 0:
        raise OptionError("the prompt has no tokens", hint="Give a prompt that is not empty.")
    if context_length is None or prompt + max_tokens <= context_length:
        return max_tokens, "max_tokens"
    if prompt >= context_length:
        raise LimitExceeded(
            f"the prompt has {prompt} tokens, the model's context {context_length}",
            limit="context_length",
            hint="Shorten the prompt.",
        )
    return context_length - prompt, "context_length"


def check_room(least: int | None, room: int, limit: str) -> None:
    """Raise if even the shortest text that was found is longer than the room, before the model is called.

    Args:
        least: The number of tokens of that text; None if it is not known.
        room: The largest number of tokens of a text.
        limit: The option that sets the room.
    """
    if least is None or least <= room:
        return
    if limit == "max_tokens":
        hint = f"Raise max_tokens: that text takes {least}, and models usually write longer ones."
    else:
        hint = "Shorten the prompt, or use a model with a longer context."
    raise LimitExceeded(
        f"the shortest text found that satisfies the constraint takes {least} tokens, and {room} are left for it "
        f"({limit})",
        limit=limit,
        hint=hint,
    )


class Budget:
    """The held witness of one row."""

    def __init__(self, matcher: TokenMatcher, max_tokens: int) -> None:
        self._matcher = matcher
        self._witness = self._search(max_tokens)

    @property
    def next_token(self) -> int | None:
        """The next token of the witness; None if the text may end here."""
        return self._witness[0] if self._witness else None

    def admits(self, token: int, left: int) -> bool:
        """Return whether the text can still be closed after `token`; if so, update the witness.

        Args:
            token: The token by which the matcher has just advanced.
            left: The remaining budget in tokens.
        """
        if self._witness and self._witness[0] == token:
            self._witness = self._witness[1:]
            return True
        completion = self._matcher.witness(left)
        if completion is None:
            return False
        self._witness = list(completion)
        return True

    def restart(self, left: int) -> None:
        """Search for a new witness, after the matcher was rolled back."""
        self._witness = self._search(left)

    def _search(self, left: int) -> list[int]:
        completion = self._matcher.witness(left)
        if completion is not None:
            return list(completion)
        longer = self._matcher.witness()
        if longer is None:
            raise LimitExceeded(
                "no completion of the text was found"
                + (f": {why}" if (why := self._matcher.search_failure) else ""),
                limit="completion_search",
                hint="Allow truncation with close_within_budget=False.",
            )
        raise LimitExceeded(
            f"no text that satisfies the constraint was found within max_tokens={left}: the shortest completion that "
            f"was found takes {len(longer)} tokens",
            limit="max_tokens",
            hint="Raise max_tokens, or allow truncation with close_within_budget=False.",
        )
