"""The structured-output backend `structgen` of vLLM.

    pip install . in structgen's folder, in the environment of vLLM
    vllm serve MODEL --structured-outputs-config.backend structgen

Why: a plugin, so that every way of starting vLLM (`vllm serve`, `LLM(...)`, Ray) finds it in every process.
What: `register` is the entry point in the group ``vllm.general_plugins``. It teaches vLLM the name `structgen`; with
any other backend, vLLM is unchanged. `patches` describes the changes, and detects unsupported versions.
Nothing here imports vLLM before `register` is called.
"""

from __future__ import annotations

__all__ = ["register"]


def register() -> None:
    """Called by vLLM in each of its processes, possibly several times."""
    from structgen.serving.settings import read_settings

    from .patches import patch

    read_settings()  # an invalid setting stops the start
    patch()
