"""People find the format of their model by its name, or by its chat template."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from structgen.errors import OptionError
from structgen.tools import FORMATS, ToolFormat, format_of_model, register_format, tools

from .test_formats import OWN
from .walks import weather

MODELS = {
    "Qwen/Qwen3.5-397B-A17B": "qwen3_coder",
    "Qwen/Qwen3-Coder-480B-A35B-Instruct": "qwen3_coder",
    "Qwen/Qwen3-8B": "hermes",
    "Qwen/Qwen2.5-7B-Instruct": "hermes",
    "NousResearch/Hermes-3-Llama-3.1-8B": "hermes",
    "NousResearch/DeepHermes-3-Llama-3-8B-Preview": "hermes",
    "meta-llama/Llama-4-Scout-17B-16E-Instruct": "pythonic",
    "meta-llama/Llama-3.3-70B-Instruct": "llama3_json",
    "mistralai/Mistral-7B-Instruct-v0.3": "mistral_v3",
    "mistralai/Mistral-Small-3.1-24B-Instruct-2503": "mistral",
    "mistralai/Mistral-Small-3.2-24B-Instruct-2506": "mistral_v11",
    "mistralai/Devstral-Small-2507": "mistral_args",
    "deepseek-ai/DeepSeek-R1-0528": "deepseek_v3",
    "deepseek-ai/DeepSeek-V3.1": "deepseek_v31",
    "deepseek-ai/DeepSeek-V3.2-Exp": "deepseek_v31",
    "deepseek-ai/DeepSeek-V3.2": "deepseek_v32",
    "deepseek-ai/DeepSeek-V4-Flash": "deepseek_v4",
    "openai/gpt-oss-20b": "harmony",
    "zai-org/GLM-4.5-Air": "glm45",
    "zai-org/GLM-4.7": "glm47",
    "MiniMaxAI/MiniMax-M2.5": "minimax_m2",
    "moonshotai/Kimi-K2-Thinking": "kimi_k2",
    "moonshotai/Kimi-K3": "kimi_k3",
    "CohereLabs/command-a-reasoning-08-2025": "cohere_command",
    "LGAI-EXAONE/EXAONE-4.0-32B": "exaone4",
    "google/gemma-4-31B-it": "gemma4",
    "ibm-granite/granite-4.0-h-small": "granite4",
    "ibm-granite/granite-3.3-8b-instruct": "granite3",
    "ibm-granite/granite-3.1-8b-instruct": "granite31",
    "microsoft/Phi-4-mini-instruct": "phi4_mini",
    "tencent/Hunyuan-A13B-Instruct": "hunyuan_a13b",
    "allenai/Olmo-3-7B-Instruct": "olmo3",
}


def found(name: str = "", template: str | None = None) -> str | None:
    format = format_of_model(name, template)
    return None if format is None else format.name


@pytest.mark.parametrize("model", MODELS)
def test_models_by_name(model: str) -> None:
    organisation, name = model.split("/")
    for shown in (model, name, name.lower(), name.replace("-", "_"), f"/models/{organisation}/{name}/"):
        assert found(shown) == MODELS[model], shown
    with pytest.raises(OptionError, match="there is no tool format") as caught:
        tools([weather], format=model)
    assert f"A model of this name writes {MODELS[model]!r}." in str(caught.value)


def test_each_format_has_a_model() -> None:
    assert set(MODELS.values()) == FORMATS.keys()
    assert all(format.names for format in FORMATS.values())


@pytest.mark.parametrize(
    "name",
    [
        "",
        "SmolLM2-135M-Instruct",
        "my-qwen",
        "glm-4.55",
        "Llama-40",
        "notgpt-oss",
        "OpenHermes-2.5-Mistral-7B",
        "Mistral-7B-Instruct-v0.1",
        "Llama-3_3-Nemotron-Super-49B-v1_5",
        "granite-3b-code-instruct",
        "open_llama_3b",
        "Ministral-3B-Instruct",
    ],
)
def test_unknown_models(name: str) -> None:
    assert found(name) is None


@pytest.mark.parametrize("name", [name for name, format in FORMATS.items() if format.template_texts])
def test_templates(name: str) -> None:
    """A template has the texts of its format, and perhaps those of a format with fewer of them."""
    texts = FORMATS[name].template_texts
    assert found("", "{{ x }}" + "{% y %}".join(texts)) == name
    assert found("", "") is None and found("unknown", None) is None
    assert found("gemma-4-e4b", "".join(texts)) == name  # the template shows what the model writes
    assert found("gemma-4-e4b", "a template without tools") == "gemma4"


def test_templates_of_other_families_are_not_those_of_hunyuan() -> None:
    """Apriel writes `<tool_calls>[` as well, but no `<answer>`."""
    shown = "return <tool_calls>[{...}]</tool_calls>"
    for name in ("ServiceNow-AI/Apriel-1.5-15b-Thinker", ""):
        assert found(name, "<|assistant|>" + shown) is None
    assert found("", "<|startoftext|>" + shown + "<|extra_0|>") == "hunyuan_a13b"


def test_the_name_decides_between_formats_that_a_template_shows() -> None:
    texts = [*FORMATS["hermes"].template_texts, *FORMATS["granite4"].template_texts]
    assert (
        found("Qwen3-8B", "".join(texts)) == "hermes" and found("granite-4.0", "".join(texts)) == "granite4"
    )


@pytest.mark.parametrize("given", ["ours-7b", ("",), (3,), None, (" ",)])
@pytest.mark.parametrize("field", ["names", "template_texts"])
def test_names_and_texts_are_checked(field: str, given: Any) -> None:
    with pytest.raises(OptionError, match=f"{field} is .*a list of texts, none of them empty"):
        replace(OWN, **{field: given})
    data = {**OWN.as_data(), field: list(given) if isinstance(given, tuple) else given}
    with pytest.raises(OptionError, match=f"{field} is .*a list of texts, none of them empty"):
        ToolFormat.from_data(data)


@pytest.fixture
def own() -> Iterator[ToolFormat]:
    yield register_format(replace(OWN, names=("ours-7b",), template_texts=("<run id=",)))
    del FORMATS["own"]


def test_registered_formats_are_found(own: ToolFormat) -> None:
    assert found("we/Ours-7B-chat") == found("", "a <run id= b") == "own"
