"""Find the format of a model by its name or its chat template.

Why: people know the name of their model, not that of its format.
What: each format lists parts of model names (`ToolFormat.names`) and the texts that its chat templates contain
(`ToolFormat.template_texts`). Registered formats are found in the same way.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from .format_texts import ToolFormat

__all__ = ["format_of"]

_OTHERS = ("nemotron", "openhermes")
"""Parts of the names of models that write calls in other ways than the models from which they were made."""
_SEPARATORS = re.compile(r"[\s_.-]+")


def format_of(
    formats: Mapping[str, ToolFormat], name: str = "", chat_template: str | None = None
) -> ToolFormat | None:
    """Return the format of a model; None if neither its name nor its template is known.

    Args:
        formats: The known formats.
        name: The name of the model, with or without its organisation, or the path of its folder.
        chat_template: The source of its chat template. It counts if the name is unknown, or if it shows another format
            and not that of the name.
    """
    template = chat_template or ""
    named, shown = _by_name(formats, name), _by_template(formats, template)
    return shown if named is None or (shown is not None and not _is_shown(named, template)) else named


def _by_name(formats: Mapping[str, ToolFormat], name: str) -> ToolFormat | None:
    """Return the format whose part of a name comes first in this one; among equals, the longest part."""
    shown = _plain(re.split(r"[/\\]", name.rstrip("/\\"))[-1])
    if any(part in shown for part in _OTHERS):
        return None
    best: tuple[int, int] | None = None
    found = None
    for format in formats.values():
        for part in map(_plain, format.names):
            # Not followed by another number, such as that of a version or of billions of parameters.
            match = re.search(rf"(?<![a-z0-9]){re.escape(part)}(?![0-9]|b\b)", shown)
            if match is not None and (best is None or (match.start(), -len(part)) < best):
                best, found = (match.start(), -len(part)), format
    return found


def _by_template(formats: Mapping[str, ToolFormat], template: str) -> ToolFormat | None:
    """Return the format with the longest texts among those whose texts this template contains."""
    fitting = [format for format in formats.values() if _is_shown(format, template)]
    return max(fitting, key=lambda format: sum(map(len, format.template_texts)), default=None)


def _is_shown(format: ToolFormat, template: str) -> bool:
    return bool(format.template_texts) and all(text in template for text in format.template_texts)


def _plain(name: str) -> str:
    return _SEPARATORS.sub("-", name.lower())
