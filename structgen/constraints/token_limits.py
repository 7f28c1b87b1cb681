"""A limit on the tokens of a part of a text.

Why: budgets of reasoning and of free text are stated in tokens. One text has many tokenizations, so no expression
over characters can state them.

What: a token counts if it has a byte of the part, or if it is a special token in it. The part ends at the end of a
token: with ``"complete"`` at the first one, from its `max_tokens`-th token on, at which its text is complete; with
``"cut"`` right after the `max_tokens`-th, complete or not, except that a character is completed. Each occurrence of
the part is counted separately, and a part inside another one counts in both.

Invariant: masks are those of the constraint without its limit until a part has used up its tokens. From then on,
only what follows the part is allowed. A state that has a completion keeps one.

Cost: none for a mask; a check of the open parts for each token.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, get_args

from structgen.argument_names import checks_names
from structgen.errors import LimitExceeded, OptionError

from .algebra import check_tree_size
from .base import IR, CaptureParser, Constraint, Operand, RuleViolation, Stop, as_constraint
from .expressions import RE

__all__ = ["AtLimit", "TokenLimit", "check_token_limit", "limit_tokens"]

AtLimit = Literal["complete", "cut"]

MAX_TOKENS = 2**31 - 1
"""The largest limit, the same as that of XGrammar."""


class TokenLimit(Constraint):
    """A part of a text with a limit of tokens; made by `limit_tokens`."""

    __slots__ = ("at_limit", "enough", "max_tokens", "part")

    part: Constraint
    max_tokens: int
    at_limit: AtLimit
    enough: RE | None
    """Texts that count as complete after the last token, in addition to those of the part."""

    def __init__(
        self, part: Constraint, max_tokens: int, at_limit: AtLimit, enough: RE | None = None
    ) -> None:
        object.__setattr__(self, "enough", enough)
        object.__setattr__(self, "part", part)
        object.__setattr__(self, "max_tokens", max_tokens)
        object.__setattr__(self, "at_limit", at_limit)
        check_tree_size(self.tree_size())

    def lower(self) -> IR:
        """Return the IR of the part, with its limit around it."""
        return self._around(self.part.lower())

    def _around(self, ir: IR) -> IR:
        enough = None if self.enough is None else ("regex", self.enough)
        return ("counted", (ir, self.max_tokens, self.at_limit == "cut", enough))

    def tree_size(self) -> int:
        """Return the number of parts of the limited part, and one for the limit."""
        return 1 + self.part.tree_size()

    def holds_captures(self) -> bool:
        """Return whether rules in the part capture parts of its texts."""
        return self.part.holds_captures()

    def parsed(self, compose: Callable[[Constraint], CaptureParser]) -> CaptureParser:
        """Return how texts of the part are parsed; a limit does not change that."""
        return self.part.parsed(compose)

    @property
    def spells_specials(self) -> bool:
        """Whether the text of a result contains the names of the part's special tokens."""
        return self.part.spells_specials

    def describe(self) -> str:
        """Return the phrase of the part, with its limit."""
        return f"{self.part.describe()}, at most {self.max_tokens} tokens"

    def instructions(self) -> str:
        """Return the instructions of the part."""
        return self.part.instructions()

    def shown(self, names: Sequence[str]) -> list[str]:
        """Return terminals and rules as the part names them."""
        return self.part.shown(names)

    def find_broken_rules(self, stop: Stop, checks: list[Callable[[IR], bool]]) -> list[RuleViolation]:
        """Return the broken rules of the part; a text without tokens meets no limit."""
        return self._broken_parts(stop, checks, [(self.part, self._around)])

    def __repr__(self) -> str:
        cut = ", at_limit='cut'" if self.at_limit == "cut" else ""
        return f"limit_tokens({self.part!r}, {self.max_tokens}{cut})"


@checks_names
def limit_tokens(constraint: Operand, max_tokens: int, *, at_limit: AtLimit = "complete") -> TokenLimit:
    """Return a part of a text that ends after at most `max_tokens` tokens.

    A token counts if it has a byte of the part, even if it also has bytes before or after it. Each occurrence of
    the part is counted from its own first token. A text without tokens, as `Matcher.explain` reads it, is judged by
    its characters and meets no limit.

    Args:
        constraint: The part: a constraint, a type or a string.
        max_tokens: The largest number of tokens. With 0 the part is empty, if it may be empty or is cut.
        at_limit: What happens after the last token. ``"complete"``: the part ends at the first end of a token at
            which its text is complete, so a part that cannot end early may have more tokens. ``"cut"``: the part
            ends there, complete or not, once the last character is complete.

    Raises:
        OptionError: `max_tokens` is not a whole number of 0 or more, or `at_limit` is unknown.
        LimitExceeded: `max_tokens` is larger than is counted.
        TypeNotSupported: `constraint` is neither a constraint nor a string nor a type.

    Example:
        ``"<think>" + sg.limit_tokens(sg.text("</think>"), 200) + "</think>" + sg.json_schema(schema)``
    """
    return TokenLimit(as_constraint(constraint), *check_token_limit(max_tokens, at_limit))


def check_token_limit(max_tokens: int, at_limit: AtLimit) -> tuple[int, AtLimit]:
    """Return both arguments unchanged if they are valid.

    Raises:
        OptionError: `max_tokens` is not a whole number of 0 or more, or `at_limit` is unknown.
        LimitExceeded: `max_tokens` is larger than is counted.
    """
    if not isinstance(max_tokens, int) or isinstance(max_tokens, bool) or max_tokens < 0:
        raise OptionError(f"max_tokens is {max_tokens!r:.60}; it must be a whole number of 0 or more")
    if max_tokens > MAX_TOKENS:
        raise LimitExceeded(
            f"max_tokens is larger than {MAX_TOKENS}",
            limit="part_tokens",
            hint="Omit the limit: no text has that many tokens.",
        )
    if at_limit not in get_args(AtLimit):
        raise OptionError(f"at_limit is {at_limit!r:.40}", hint="Use 'complete' or 'cut'.")
    return max_tokens, at_limit
