"""Packages that not every use needs: the extras of the distribution, and one error for all that are missing.

Invariant: a missing package is a `PackageMissing` with the command that installs it, never a bare `ImportError`.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import metadata

from structgen.errors import PackageMissing

__all__ = ["install_command", "needed", "require"]

_DISTRIBUTION = "structgen-lm"
_OPTIONAL = re.compile(r"""([^;]+?)\s*;.*\bextra\s*==\s*['"]([^'"]+)['"]""")
_INNER = re.compile(rf"{_DISTRIBUTION}\[([^\]]*)\]")


@contextmanager
def needed(purpose: str, extra: str) -> Iterator[None]:
    """Turn an `ImportError` of the block into a `PackageMissing`.

    Args:
        purpose: What needs the package, as the subject of a sentence.
        extra: The extra of the distribution that installs it.
    """
    try:
        yield
    except PackageMissing:
        raise
    except ImportError as error:
        package = (error.name or "").partition(".")[0]
        if package == "structgen":  # a fault of our own
            raise
        if isinstance(error, ModuleNotFoundError) and package:
            raise _missing(purpose, extra, package) from error
        raise PackageMissing(
            f"{purpose} needs a package that cannot be imported: {error}", hint=_install(extra)
        ) from error


def require(purpose: str, extra: str, *packages: str) -> None:
    """Raise `PackageMissing` for the first of `packages` that is not installed, without importing any."""
    for package in packages:
        try:
            is_there = importlib.util.find_spec(package) is not None
        except (ImportError, ValueError):
            is_there = False
        if not is_there:
            raise _missing(purpose, extra, package)


def _missing(purpose: str, extra: str, package: str) -> PackageMissing:
    return PackageMissing(
        f"{purpose} needs the package {package}, which is not installed", hint=_install(extra)
    )


def _install(extra: str) -> str:
    return f"Install it with: {install_command(extra)}"


@cache
def install_command(extra: str) -> str:
    """Return the command that installs what an extra of the installed distribution needs.

    It names the packages themselves, so that it works wherever structgen came from: an index, a wheel or a folder.
    """
    packages = _packages(extra)
    return (
        f"pip install {' '.join(map(_quoted, packages))}"
        if packages
        else f"pip install '{_DISTRIBUTION}[{extra}]'"
    )


def _packages(extra: str) -> list[str]:
    try:
        declared = metadata.requires(_DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        return []
    packages: list[str] = []
    for requirement, name in (part.groups() for part in map(_OPTIONAL.match, declared) if part):
        if name != extra:
            continue
        inner = _INNER.match(requirement)
        packages += (
            [package for nested in inner[1].split(",") for package in _packages(nested)]
            if inner
            else [requirement]
        )
    return list(dict.fromkeys(packages))


def _quoted(requirement: str) -> str:
    return f"'{requirement}'" if re.search(r"[<>=!~\[]", requirement) else requirement
