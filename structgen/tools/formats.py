"""The formats by name: those that come with the package, and those that users register."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from structgen.argument_names import checks_names
from structgen.errors import OptionError, did_you_mean

from .families import FAMILIES
from .format_texts import ToolFormat
from .model_formats import format_of

__all__ = ["FORMATS", "ToolFormat", "as_spec", "format_of_model", "register_format", "tool_format"]

FORMATS: dict[str, ToolFormat] = {listed.name: listed for listed in FAMILIES}
"""The formats by name. `register_format` adds others."""


def register_format(format: ToolFormat) -> ToolFormat:
    """Make a format known by its name, to `structgen.tools` and to a server of this process.

    Args:
        format: The format. Its name must not be that of a different format.

    Returns:
        The format.

    Raises:
        OptionError: The name belongs to another format.
    """
    if FORMATS.get(format.name, format) != format:
        raise OptionError(
            f"there is another tool format {format.name!r:.60}", hint="Give the new one a name of its own."
        )
    return FORMATS.setdefault(format.name, format)


@checks_names
def format_of_model(name: str = "", chat_template: str | None = None) -> ToolFormat | None:
    """Return the format in which a model writes tool calls.

    Args:
        name: The name of the model, with or without its organisation, or the path of its folder.
        chat_template: The source of its chat template, which counts if the name is unknown.

    Returns:
        The format; None if neither the name nor the template is known.

    Example:
        ``format_of_model("Qwen/Qwen3.5-397B-A17B").name`` is ``"qwen3_coder"``.
    """
    return format_of(FORMATS, name, chat_template)


def tool_format(given: str | ToolFormat | Mapping[str, Any]) -> ToolFormat:
    """Return the format of a name or of JSON data, or the given format. Raises `OptionError`."""
    if isinstance(given, ToolFormat):
        return given
    if isinstance(given, Mapping):
        return ToolFormat.from_data(given)
    if given not in FORMATS:
        near = _meant(given) if isinstance(given, str) else None
        raise OptionError(
            f"there is no tool format {given!r:.60}",
            hint=(f"{near} " if near else "")
            + f"The formats are {', '.join(FORMATS)}. Register another one: "
            "structgen.tools.register_format(structgen.tools.ToolFormat(...)).",
        )
    return FORMATS[given]


def _meant(given: str) -> str | None:
    """Return a sentence about the format that is meant, for a name that is almost right or that of a model."""
    if (format := format_of_model(given)) is not None:
        return f"A model of this name writes {format.name!r}."
    return did_you_mean(given, FORMATS)


def as_spec(format: ToolFormat) -> str | dict[str, Any]:
    """Return what stands for a format in another process: its name if it comes with the package, or its data."""
    return format.name if format in FAMILIES else format.as_data()
