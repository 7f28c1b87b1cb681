"""An engine of vLLM in this process, on one thread: its CPU time can be measured while other work runs."""

from __future__ import annotations

import json
import os
from typing import Any

from .cases import Case

__all__ = ["make_engine", "prompt_of", "sampling_of"]


def make_engine(drafts: int) -> Any:
    """Return an `LLMEngine` over the embedded model, with drafts of the plugin of up to so many tokens."""
    os.environ.update(
        VLLM_ENABLE_V1_MULTIPROCESSING="0",
        VLLM_CPU_OMP_THREADS_BIND="nobind",
        OMP_NUM_THREADS="1",
        VLLM_CPU_KVCACHE_SPACE="1",
        HF_HUB_OFFLINE="1",
        VLLM_NO_USAGE_STATS="1",
        VLLM_LOGGING_LEVEL="WARNING",
    )
    from structgen.integrations.vllm import register
    from structgen.integrations.vllm.drafting import PROPOSER
    from structgen.models.embedded import embedded_directory

    register()
    from vllm import LLM

    return LLM(
        str(embedded_directory()),
        structured_outputs_config={"backend": "structgen"},
        dtype="float32",
        max_model_len=2048,
        enforce_eager=True,
        max_num_seqs=64,
        speculative_config={"method": "custom_class", "model": PROPOSER, "num_speculative_tokens": drafts},
    ).llm_engine


def prompt_of(engine: Any, text: str) -> str:
    """Return the prompt of a chat with one message."""
    messages = [{"role": "user", "content": text}]
    found: str = engine.get_tokenizer().apply_chat_template(
        messages, tokenize=False, add_generation_prompt=True
    )
    return found


def sampling_of(case: Case, *, temperature: float, max_tokens: int) -> Any:
    """Return the sampling parameters of a case that has a constraint."""
    from vllm import SamplingParams
    from vllm.sampling_params import StructuredOutputsParams

    assert case.kind_and_spec is not None
    kind, spec = case.kind_and_spec
    if kind in ("json", "structural_tag"):
        spec = json.dumps(spec)
    elif kind == "json_object":
        spec = True
    return SamplingParams(
        temperature=temperature,
        max_tokens=max_tokens,
        structured_outputs=StructuredOutputsParams(**{kind: spec}),
    )
