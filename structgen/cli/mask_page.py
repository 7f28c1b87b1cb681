"""The page of ``structgen mask --html``: every token, coloured, in one file that needs nothing else.

Why: a mask of fifty thousand bits can only be judged by looking at it.
What: the template ``mask_page.html`` in this folder, with one JSON document put into it.
Invariant: tokens and prefix are shown as text and never read as markup.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from structgen.matcher import Matcher

__all__ = ["mask_page", "page_data"]

_PLACE = "/*DATA*/null"


def mask_page(matcher: Matcher, prefix: list[int], constraint: str) -> str:
    """Return the page for `matcher`, which has read `prefix`."""
    template = Path(__file__).with_name("mask_page.html").read_text("utf-8")
    text = json.dumps(page_data(matcher, prefix, constraint), ensure_ascii=False, separators=(",", ":"))
    # Inside <script> only "</" and "<!--" mean something; both are written differently.
    return template.replace(_PLACE, text.replace("<", "\\u003c"))


def page_data(matcher: Matcher, prefix: list[int], constraint: str) -> dict[str, Any]:
    """Return what the page shows. Tokens that are no text are null; bytes that are no character read ``\\xNN``."""
    vocabulary = matcher.vocabulary
    mask = matcher.mask()
    return {
        "constraint": constraint,
        "prefix": [_text(vocabulary.token_bytes(token)) for token in prefix],
        "complete": matcher.is_complete(),
        "forced": _text(matcher.forced_bytes()) or "",
        "allowed": matcher.allowed_count(),
        "eos": list(vocabulary.eos_ids),
        "tokens": [_text(vocabulary.token_bytes(token)) for token in range(vocabulary.size)],
        "mask": base64.b64encode(mask.tobytes()).decode("ascii"),
    }


def _text(token: bytes | None) -> str | None:
    return token.decode("utf-8", "backslashreplace") if token else None
