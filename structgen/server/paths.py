"""The paths of the application, relative to its mount point."""

from __future__ import annotations

from typing import Any

__all__ = ["ENDPOINTS", "OPEN_PATHS", "path_in_app"]

OPEN_PATHS = ("/health", "/metrics")
"""Paths that need no key, and that answer even if too many connections are open."""
ENDPOINTS = ("/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/models", *OPEN_PATHS)


def path_in_app(scope: Any) -> str:
    """Return the path below the mount point of the application, as its routes see it."""
    path: str = scope["path"]
    root: str = scope.get("root_path", "")
    return path[len(root) :] if root and f"{path}/".startswith(f"{root}/") else path
