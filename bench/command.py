"""The command line that the benchmarks share."""

from __future__ import annotations

import argparse

__all__ = ["argument_parser"]


def argument_parser(module: str, description: str | None) -> argparse.ArgumentParser:
    """Return the parser of ``python -m MODULE``, whose help shows the description with its own line breaks."""
    return argparse.ArgumentParser(
        prog=f"python -m {module}",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
