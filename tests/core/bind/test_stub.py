"""The stub of the native module declares exactly the names that the module has."""

from __future__ import annotations

import ast
from pathlib import Path

from structgen import _core
from structgen._core import _native

# What every Python object and every nanobind class has.
_COMMON = set(dir(object)) | {"__module__", "__doc__", "__nb_signature__"}


def _declared() -> dict[str, set[str]]:
    """Name to members (of classes), as the stub has them."""
    tree = ast.parse(Path(_core.__file__).with_name("_native.pyi").read_text("utf-8"))
    found: dict[str, set[str]] = {}
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            found[node.name] = {
                part.name if isinstance(part, ast.FunctionDef) else part.target.id  # type: ignore[union-attr]
                for part in node.body
                if isinstance(part, (ast.FunctionDef, ast.AnnAssign))
            }
        elif isinstance(node, ast.FunctionDef):
            found[node.name] = set()
    return found


def test_the_stub_declares_what_the_module_has() -> None:
    present = {name for name in dir(_native) if not name.startswith("_")}
    declared = _declared()
    assert set(declared) == present
    for name, members in declared.items():
        value = getattr(_native, name)
        if isinstance(value, type) and not issubclass(value, Exception):
            has = {member for member in dir(value) if member not in _COMMON or member in members}
            assert members - {"__init__"} == has - {"__init__"}, name
