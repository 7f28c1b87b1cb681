"""Characters that no grammar may contain, in any notation."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["check_characters"]


def check_characters(source: str, error: Callable[..., Exception]) -> None:
    """Refuse a grammar that contains half of a surrogate pair, which has no UTF-8 form.

    Args:
        source: The text of the grammar.
        error: Makes the error from a message, an offset in `source` and ``hint=``.

    Raises:
        Exception: What `error` makes, for the first lone surrogate.
    """
    try:
        source.encode()
    except UnicodeEncodeError as found:
        hint = "Something decoded the text wrongly: read it as UTF-8."
        raise error("a lone surrogate is not a character", found.start, hint=hint) from None
