"""The paths of the application, wherever it is mounted."""

from __future__ import annotations

from typing import Any

__all__ = ["ENDPOINTS", "OPEN_PATHS", "path_in_app"]

OPEN_PATHS = ("/health", "/metrics")
"""What needs no key, and is answered where there are too many connections."""
ENDPOINTS = ("/v1/chat/completions", "/v1/completions", "/v1/models", *OPEN_PATHS)


def path_in_app(scope: Any) -> str:
    """The path below the place where the application is mounted, as its routes see it."""
    path: str = scope["path"]
    root: str = scope.get("root_path", "")
    return path[len(root) :] if root and f"{path}/".startswith(f"{root}/") else path
