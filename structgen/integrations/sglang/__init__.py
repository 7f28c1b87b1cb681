"""The grammar backend `structgen` of SGLang.

    python -m sglang.launch_server --model-path MODEL --grammar-backend structgen

Why: a plugin, so that SGLang finds it in every process that it starts.
What: `register` is the entry point in the group ``sglang.srt.plugins``; the backend is in `backend`.
Nothing here imports SGLang before `register` is called.
"""

from __future__ import annotations

__all__ = ["register"]


def register() -> None:
    """Called by SGLang when it loads its plugins."""
    from structgen.serving.settings import read_settings

    from .backend import register_backend

    read_settings()  # an invalid setting stops the start
    register_backend()
