"""Closing within a token budget: a completion that fits is always at hand.

Why: a text that is cut off is worth nothing to a typed call, and a mask alone does not know the budget.
Invariant: between steps a witness is held, tokens that complete the text from here and fit what is left. A
token is admitted only if it is the witness's next one or a witness after it fits; so the held witness can be
followed at any time, and generation never ends truncated.
How the law stays right: a drawn token that is not admitted is excluded and the rest is drawn again. Drawing
until the first admitted token is drawing from the law restricted to the admitted ones, whose set never has to
be enumerated. Its mass is not known then, so such a generation has no `log_weight`.
Cost: one witness search per drawn token that leaves the held witness; none for tokens on it.
"""

from __future__ import annotations

from typing import Protocol

from structgen.errors import LimitExceeded, OptionError

__all__ = ["Budget", "Witnessing", "check_room", "room_after"]


def room_after(prompt: int, context_length: int | None, max_tokens: int) -> tuple[int, str]:
    """How many tokens a text may have after a prompt of `prompt` tokens, and the option that says so."""
    if prompt == 0:
        raise OptionError("a prompt has no tokens", hint="Give a prompt that is not empty.")
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
    """Raise where even the shortest text that was found, of `least` tokens, is longer than the `room` there is.

    The model is not called for a text that could only be cut off. `limit` is the option that the room comes from.
    """
    if least is None or least <= room:
        return
    if limit == "max_tokens":
        hint = f"Raise max_tokens: {least} hold that text, and what a model writes is most often longer."
    else:
        hint = "Shorten the prompt, or take a model with a longer context."
    raise LimitExceeded(
        f"the shortest text found that satisfies the constraint takes {least} tokens, and {room} are left for it "
        f"({limit})",
        limit=limit,
        hint=hint,
    )


class Witnessing(Protocol):
    """The part of `Matcher` that is needed here."""

    def witness(self, max_tokens: int | None = None) -> list[int] | None:
        """Tokens of a completion, of at most `max_tokens`; None if none was found."""
        ...

    @property
    def search_failure(self) -> str | None:
        """Why the last search found none of any length."""
        ...


class Budget:
    """The held witness of one row."""

    def __init__(self, matcher: Witnessing, max_tokens: int) -> None:
        self._matcher = matcher
        self._witness = self._search(max_tokens)

    @property
    def next_token(self) -> int | None:
        """The witness's next token; None if the text may end here."""
        return self._witness[0] if self._witness else None

    def admits(self, token: int, left: int) -> bool:
        """Whether the text can still be closed after `token`, to which the matcher has just advanced, with
        `left` tokens more. If so the witness is moved; if not nothing changes."""
        if self._witness and self._witness[0] == token:
            self._witness = self._witness[1:]
            return True
        found = self._matcher.witness(left)
        if found is None:
            return False
        self._witness = list(found)
        return True

    def restart(self, left: int) -> None:
        """Find a witness anew, after the matcher was rolled back."""
        self._witness = self._search(left)

    def _search(self, left: int) -> list[int]:
        found = self._matcher.witness(left)
        if found is not None:
            return list(found)
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
