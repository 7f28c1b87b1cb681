"""Arithmetic: the expressions in the source of scientific packages, one text each; judged by Python's `ast`."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator

from bench.corpora import pypi, sample, texts

NAME = "arithmetic"

_WHEELS = (
    "sympy==1.13.3",
    "scikit-learn==1.5.2",
    "statsmodels==0.14.4",
    "lifelines==0.30.0",
    "chemicals==1.3.2",
)
_OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow, ast.UAdd, ast.USub)
_NODES = (*_OPERATORS, ast.BinOp, ast.UnaryOp, ast.Call, ast.Name, ast.Attribute, ast.Constant, ast.Load)
_LEFT_OUT = re.compile(r"[^\t -~]|[#\\]|\b0[xXbBoO]|(?<![\w.])[0-9][0-9.]*_")


def files(limit: int | None = None) -> Iterator[tuple[str, str]]:
    """Arithmetic within one line of the Python files of these packages, each once, the largest there is."""
    names: dict[str, str] = {}
    for name, source in texts(map(pypi, _WHEELS), ".py"):
        for line, text in _expressions(source):
            if is_valid(text):
                names.setdefault(text, f"{name}:{line}")
    yield from sample(((name, text) for text, name in names.items()), limit)


def is_valid(text: str) -> bool:
    """Return whether Python parses the text as decimal numbers, names, calls and arithmetic only."""
    if _LEFT_OUT.search(text):
        return False
    text = text.lstrip(" \t")
    tree = _parsed(text, "eval")
    if tree is None or not _is_arithmetic(tree.body):  # type: ignore[attr-defined]
        return False
    heads = (node for node in ast.walk(tree) if isinstance(node, ast.Attribute | ast.Call))
    return not any(
        _is_bare_number(node.value if isinstance(node, ast.Attribute) else node.func, text) for node in heads
    )


def _is_bare_number(node: ast.expr, text: str) -> bool:
    """Return whether it is a number without parentheses, which only Python could call or take an attribute of."""
    return isinstance(node, ast.Constant) and not text[node.end_col_offset :].lstrip(" \t").startswith(")")


def _expressions(source: str) -> Iterator[tuple[int, str]]:
    """Lines and texts of operations that are arithmetic all through; none within another."""
    tree = _parsed(source, "exec")
    lines = source.encode().splitlines()
    waiting = [] if tree is None else [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.BinOp) and node.lineno == node.end_lineno and _is_arithmetic(node):
            yield (
                node.lineno,
                lines[node.lineno - 1][node.col_offset : node.end_col_offset].decode(errors="replace"),
            )
        else:
            waiting.extend(ast.iter_child_nodes(node))


def _is_arithmetic(expression: ast.AST) -> bool:
    for node in ast.walk(expression):
        if not isinstance(node, _NODES) or isinstance(node, ast.Call) and node.keywords:
            return False
        if isinstance(node, ast.Constant) and type(node.value) not in (int, float):
            return False
    return True


def _parsed(text: str, mode: str) -> ast.AST | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)
        try:
            return ast.parse(text, mode=mode)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None
