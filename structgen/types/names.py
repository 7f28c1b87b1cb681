"""Undefined names in annotations, and how to fix each.

Why: under ``from __future__ import annotations`` a type is a text until it is evaluated. Pydantic's "is not fully
defined" does not say which name is missing, or why.

Cost: only for errors; the source of one module is parsed.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import sys
from collections.abc import Callable, Mapping
from typing import Any, ForwardRef

from structgen.errors import did_you_mean

__all__ = ["enclosing_names", "hint_for", "namespace_of", "undefined_field", "undefined_names"]


def undefined_names(annotation: object, namespace: Mapping[str, Any]) -> list[str]:
    """Return the names in the text of an annotation that are neither in `namespace` nor builtins, in order."""
    text = annotation.__forward_arg__ if isinstance(annotation, ForwardRef) else annotation
    if not isinstance(text, str):
        return []
    try:
        tree = ast.parse(text, mode="eval")
    except SyntaxError:
        return [text]
    found: dict[str, None] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id not in namespace and not hasattr(builtins, node.id):
            found[node.id] = None
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value != text:
            found.update(dict.fromkeys(undefined_names(node.value, namespace)))
    return list(found)


def undefined_field(owner: type) -> tuple[str, list[str]] | None:
    """Return the first field of a class with undefined names in its annotation, and these names."""
    namespace = namespace_of(owner)
    for base in owner.__mro__:
        for name, annotation in vars(base).get("__annotations__", {}).items():
            if isinstance(annotation, (str, ForwardRef)) and (
                missing := undefined_names(annotation, namespace)
            ):
                return name, missing
    return None


def namespace_of(owner: object) -> dict[str, Any]:
    """Return the names that annotations of a class can use wherever they are evaluated."""
    module = sys.modules.get(getattr(owner, "__module__", ""))
    return {**(vars(module) if module else {}), getattr(owner, "__name__", ""): owner}


def enclosing_names(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the local names of the running functions around `function`; inner ones take precedence.

    An annotation that is a text does not keep names alive. But while a decorator runs, the enclosing functions are
    running.
    """
    names: dict[str, Any] = {}
    code = getattr(inspect.unwrap(function), "__code__", None)
    frame = sys._getframe(1)
    while code is not None and frame is not None:
        around = f"{frame.f_code.co_qualname}.<locals>."
        if frame.f_code.co_filename == code.co_filename and function.__qualname__.startswith(around):
            names = {**frame.f_locals, **names}
        frame = frame.f_back  # type: ignore[assignment]
    return names


def hint_for(name: str, module_name: str | None, scope: str = "", *, is_class: bool = False) -> str:
    """Return how to fix an undefined name.

    Args:
        name: The name.
        module_name: The module of the annotation.
        scope: The qualified name of the class or function with the annotation.
        is_class: Whether it is a class, such as a dataclass, that does not see the names of the enclosing function.
    """
    module = sys.modules.get(module_name or "")
    if module is not None and name in _for_type_checkers(module):
        return (
            f"{name} is imported under TYPE_CHECKING, for type checkers only. Import it at run time too: "
            "the output type is evaluated then."
        )
    if "<locals>" in scope:
        define = "" if is_class else f"define {name} above the line that uses it, or "
        return (
            f"Inside a function, {define}move the types out of the function: `from __future__ import annotations` "
            "turns annotations into texts, which cannot use a function's names."
        )
    suggestion = did_you_mean(name, vars(module)) if module is not None else None
    return f"{suggestion or ''} Define or import {name} in the module, above the call.".strip()


def _for_type_checkers(module: Any) -> set[str]:
    """Return the names that the module imports under ``if TYPE_CHECKING:``."""
    try:
        tree = ast.parse(inspect.getsource(module))
    except (OSError, TypeError, SyntaxError, ValueError):
        return set()
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            for inner in ast.walk(node):
                if isinstance(inner, (ast.Import, ast.ImportFrom)):
                    names.update((alias.asname or alias.name).partition(".")[0] for alias in inner.names)
    return names
