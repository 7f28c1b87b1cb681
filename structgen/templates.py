"""Templates of prompt functions: Jinja2 over the parameters, with errors that show the correct form.

Invariant: when the function is decorated, an unknown name in the template is an error, and a parameter that no template
uses is a warning. Arguments are data: they are not templates themselves.
"""

from __future__ import annotations

import inspect
import re
import warnings
from typing import Any

import jinja2
import jinja2.meta
import jinja2.nodes

from structgen.errors import PromptError, StructgenError, did_you_mean

__all__ = ["PromptWarning", "compile_template", "render_template", "warn_of_unused"]

_INSTANCE = "_structgen_instance"
"""The name of `self` in templates of methods, since Jinja reserves `self`."""
_LIKE_JSON = re.compile(r"""\{\{\s*(["'][^"'\n]*["']\s*:|\w+\s*:|\}\})""")
_FRAMES = 4
"""Stack levels from the warning to the line that decorates the function."""


class PromptWarning(UserWarning):
    """A prompt function has a parameter that never reaches the model."""


def compile_template(source: str, names: frozenset[str], where: str) -> tuple[jinja2.Template, set[str]]:
    """Return the template and the parameters that it uses.

    Raises:
        PromptError: The text is not a valid template, or it uses a name that is not a parameter.
    """
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    try:
        tree = environment.parse(source)
        for name in tree.find_all(jinja2.nodes.Name):
            if name.name == "self" and "self" in names:
                name.name = _INSTANCE
        used = jinja2.meta.find_undeclared_variables(tree)
        template = environment.from_string(tree)
    except jinja2.TemplateSyntaxError as error:
        raise _malformed(source, error, where) from error
    unknown = sorted(used - names - {_INSTANCE} - environment.globals.keys())
    if unknown:
        near = did_you_mean(unknown[0], sorted(names))
        listed = f"The parameters are {', '.join(sorted(names)) or 'none'}."
        raise PromptError(
            f"the template names {', '.join(unknown)}, which is not a parameter",
            where=where,
            hint=f"{near} {listed}" if near else listed,
        )
    return template, {"self" if name == _INSTANCE else name for name in used}


def _malformed(source: str, error: jinja2.TemplateSyntaxError, where: str) -> PromptError:
    lines = source.splitlines()
    line = lines[error.lineno - 1].strip() if 0 < error.lineno <= len(lines) else ""
    if _LIKE_JSON.search(source):
        hint = (
            '{{ ... }} is replaced by the value of a parameter. Write JSON with single braces, {"a": 1}; '
            "for literal double braces: {% raw %}{{ ... }}{% endraw %}."
        )
    else:
        hint = "Templates are written in Jinja2: {{ parameter }}, {% for x in xs %}...{% endfor %}."
    return PromptError(
        f"the template cannot be read: {error.message}: {line:.80}",
        where=f"{where}, line {error.lineno}",
        hint=hint,
    )


def render_template(template: jinja2.Template, values: dict[str, Any], name: str) -> str:
    """Return the text for these values of the parameters. Raises `PromptError`."""
    try:
        return template.render({_INSTANCE if key == "self" else key: value for key, value in values.items()})
    except StructgenError:
        raise
    except Exception as error:
        # A template calls methods of its arguments, which may raise anything.
        raise PromptError(f"the prompt of {name} cannot be rendered: {error}") from error


def warn_of_unused(function: str, signature: inspect.Signature, used: set[str], text: str) -> None:
    """Warn about parameters that no template uses: their values would never reach the model."""
    for name in signature.parameters:
        if name in used or name.startswith("_") or name in ("self", "cls"):
            continue
        written = re.search(rf"\{{\s*{re.escape(name)}\b[^{{}}\n]*\}}", text)
        said = (
            f"{written[0]} in the prompt of {function} is sent unchanged: templates use double braces. "
            if written
            else f"the prompt of {function} does not use its parameter {name}, so the model never sees it. "
        )
        warnings.warn(f"{said}Write {{{{ {name} }}}}.", PromptWarning, stacklevel=_FRAMES)
