"""The driver: asks drafters for a run of tokens, cuts off what the constraint refuses and what does not pay.

Invariant: a draft is a run of tokens that the constraint takes, none of which ends the text; what is drawn does not
depend on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from structgen._core import LimitError
from structgen.errors import StructgenError

from .controllers import Controller, Goodput
from .drafters import Context, Drafter, ForcedBytes, PromptLookup

__all__ = ["Speculation"]

_MOST = 12


class Speculation:
    """Drafts for the rows of one generation."""

    def __init__(
        self,
        vocabulary: Any,
        drafters: Sequence[Drafter] | None = None,
        controller: Controller | None = None,
        most: int = _MOST,
    ) -> None:
        self._vocabulary = vocabulary
        self._drafters = (ForcedBytes(), PromptLookup()) if drafters is None else tuple(drafters)
        self._controller = Goodput() if controller is None else controller
        self._most = most
        self._eos = frozenset(vocabulary.eos_ids)
        self._kinds: dict[int, list[str]] = {}
        """Of each row's draft, by the row's number."""
        self.drafted = self.taken = 0

    def propose(self, row: Any) -> list[int]:
        """See `structgen.sampling.loop.Drafting`."""
        most = min(self._most, row.capacity - len(row.tokens))
        draft: list[int] = []
        kinds: list[str] = []
        context = Context([*row.prompt, *row.tokens], row.matcher, self._vocabulary)
        try:
            while len(draft) < most and self._extend(context, draft, kinds, most):
                pass
        except (LimitError, StructgenError):
            kinds = []  # of a guess nobody has to know
        finally:
            if draft:
                row.matcher.rollback(len(draft))
        kept = self._controller.keep(kinds, len(row.pending))
        self._kinds[row.index] = kinds[:kept]
        return draft[:kept]

    def observe(self, row: Any, draft: Sequence[int], taken: int) -> None:
        """See `structgen.sampling.loop.Drafting`."""
        self.drafted += len(draft)
        self.taken += taken
        self._controller.drawn(self._kinds.get(row.index, ()), taken)

    def passed(self, tokens: int, seconds: float) -> None:
        """See `structgen.sampling.loop.Drafting`."""
        self._controller.passed(tokens, seconds)

    def _extend(self, context: Context, draft: list[int], kinds: list[str], most: int) -> bool:
        for drafter in self._drafters:
            guessed = drafter.propose(context, most - len(draft))
            before = len(draft)
            for token in guessed.tokens:
                if token in self._eos or not context.matcher.advance(token):
                    break
                draft.append(token)
                kinds.append(guessed.kind)
                context.tokens.append(token)
            if len(draft) > before:
                return True
        return False
