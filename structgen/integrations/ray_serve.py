"""What `ray.serve.llm` calls before it reads an engine's settings: it makes vLLM know the backend `structgen`.

Why: vLLM loads its plugins when engine arguments are made, and Ray checks the settings of structured outputs before
that, so it would refuse the backend by its name.
Use: ``callback_config={"callback_class": "structgen.integrations.ray_serve.Backend"}`` of an `LLMConfig`, structgen
being installed where replicas run. Other processes of the engine find the plugin by its entry point.
Source: the hook `on_before_node_init` of Ray 2.60 (`ray.llm`), which has no public module for it.
"""

from __future__ import annotations

from ray.llm._internal.common.callbacks.base import CallbackBase

from structgen.integrations.vllm import register

__all__ = ["Backend"]


class Backend(CallbackBase):  # type: ignore[misc]  # Ray has no types here
    """Registers the backend in the process of a replica."""

    async def on_before_node_init(self) -> None:
        """Raises what `register` raises: a wrong setting, a version of vLLM that does not fit."""
        register()
