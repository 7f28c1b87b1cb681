"""A callback for `ray.serve.llm` that registers the backend `structgen` in vLLM before Ray reads engine settings.

Why: vLLM loads its plugins when engine arguments are created. Ray checks the settings of structured outputs before, and
would refuse the unknown backend.
Use: ``callback_config={"callback_class": "structgen.integrations.ray_serve.Backend"}`` of an `LLMConfig`. structgen
must be installed where replicas run. Other processes of the engine find the plugin by its entry point.
Source: the hook `on_before_node_init` of Ray 2.60 (`ray.llm`), which has no public module for it.
"""

from __future__ import annotations

from ray.llm._internal.common.callbacks.base import CallbackBase

from structgen.integrations.vllm import register

__all__ = ["Backend"]


class Backend(CallbackBase):  # type: ignore[misc]  # Ray has no types here
    """Registers the backend in the process of a replica."""

    async def on_before_node_init(self) -> None:
        """Register the backend. Raises what `register` raises: an invalid setting, an unsupported version of vLLM."""
        register()
