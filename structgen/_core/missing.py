"""Why the native core cannot be imported, and what to do about it."""

from __future__ import annotations

import sys
from pathlib import Path

from structgen.errors import CoreMissing

__all__ = ["core_missing"]


def core_missing(error: ImportError, folder: Path = Path(__file__).parent) -> CoreMissing:
    """Return the error to raise where the core in `folder` cannot be imported."""
    package = folder.parent
    version = f"Python {sys.version_info.major}.{sys.version_info.minor}"
    built = sorted(file.name for file in folder.glob("_native.*") if file.suffix in (".so", ".pyd", ".dylib"))
    if not built and (package.parent / "CMakeLists.txt").exists():
        return CoreMissing(
            f"you are in the source folder: Python imports structgen from {package}, which has no built core",
            hint="If structgen is installed, change to another folder, or run `structgen` or `python -P -m structgen`. "
            "If it is not, install it: pip install .",
        )
    if not built:
        return CoreMissing(
            f"the installation in {package} has no native core",
            hint="Install structgen again, in its source folder: pip install --force-reinstall .",
        )
    if error.name is not None and error.name.endswith("._native"):
        return CoreMissing(
            f"the native core was built for another Python than {version}: {', '.join(built)}",
            hint="Install structgen again, in its source folder: python -m pip install --force-reinstall .",
        )
    return CoreMissing(
        f"the native core cannot be loaded: {error}",
        hint="Install structgen again on this machine, in its source folder: python -m pip install --force-reinstall .",
    )
