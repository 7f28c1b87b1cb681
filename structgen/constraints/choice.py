"""The constraint "exactly one of these texts".

Why: the most common constraint (labels, names, commands); a trie handles tens of thousands of texts.

Invariant: at least one text, no text twice, in the given order.

Cost: linear in the texts.
"""

from __future__ import annotations

from collections.abc import Iterable

from structgen.argument_names import checks_names
from structgen.errors import ConstraintError, EmptyConstraint, LimitExceeded, a_kind, with_kind

from .base import IR, Constraint
from .expressions import MAX_CHARACTERS, MAX_PARTS, RE

__all__ = ["ChoiceConstraint", "choice"]


class ChoiceConstraint(Constraint):
    """Exactly one of several texts; made by `choice`."""

    __slots__ = ("texts",)

    texts: tuple[str, ...]

    def __init__(self, texts: tuple[str, ...]) -> None:
        object.__setattr__(self, "texts", texts)

    def lower(self) -> IR:
        """Return the texts as one regular expression."""
        return ("regex", self.regular())

    def regular(self) -> RE:
        """Return the expression that matches exactly the texts; the core builds a trie of them."""
        return ("literals", self.texts)

    def describe(self) -> str:
        """Return the first four texts, and how many more there are."""
        shown = ", ".join(repr(text) for text in self.texts[:4])
        return f"one of {shown}" + (f" and {len(self.texts) - 4} more" if len(self.texts) > 4 else "")

    def written(self) -> list[tuple[str, str]]:
        """Return all texts, one a line."""
        return [(f"{len(self.texts)} texts", "\n".join(map(repr, self.texts)))]

    def __repr__(self) -> str:
        return f"choice({list(self.texts)!r})"


@checks_names
def choice(texts: Iterable[str]) -> ChoiceConstraint:
    """Return the constraint of exactly one of `texts`.

    Args:
        texts: The texts; a repeated text counts once.

    Raises:
        ConstraintError: `texts` is not a list of strings, or a string has half of a surrogate pair.
        EmptyConstraint: There are no texts.
        LimitExceeded: There are too many texts or characters.

    Example:
        >>> import structgen as sg
        >>> label = sg.choice(["positive", "negative"])
        >>> sg.Matcher(label, sg.Vocabulary.of_bytes()).explain("negative").ok
        True
    """
    if isinstance(texts, (str, bytes)):
        raise ConstraintError(
            f"choice() needs a list of texts, not the single {type(texts).__name__} {texts!r:.60}",
            hint=f"For exactly that text write choice([{texts!r:.60}]).",
        )
    try:
        listed = list(texts)
    except TypeError:
        raise ConstraintError(
            f"choice() needs a list of texts, not {a_kind(texts)}",
            hint='Write, for example, choice(["yes", "no"]).',
        ) from None
    if not listed:
        raise EmptyConstraint(
            "choice() needs at least one text",
            hint="Check the code that makes the list.",
        )
    if len(listed) > MAX_PARTS:
        raise LimitExceeded(
            f"choice() has {len(listed):,} texts, more than {MAX_PARTS:,}",
            limit="choice_texts",
            hint="Describe the texts by a pattern: sg.regex(...).",
        )
    characters = 0
    for index, text in enumerate(listed):
        if not isinstance(text, str):
            raise ConstraintError(
                f"choice() needs texts, not {with_kind(text)}",
                where=f"item {index}",
                hint="Convert it with str(), or use a Literal or Enum type to get other values back.",
            )
        if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
            raise ConstraintError(
                f"{text!r:.60} contains a lone surrogate, which UTF-8 cannot encode",
                where=f"item {index}",
                hint="Decode the text correctly first.",
            )
        characters += len(text)
    if characters > MAX_CHARACTERS:
        raise LimitExceeded(
            f"the texts of choice() have {characters:,} characters, more than {MAX_CHARACTERS:,}",
            limit="choice_characters",
            hint="Use fewer or shorter texts.",
        )
    return ChoiceConstraint(tuple(dict.fromkeys(listed)))
