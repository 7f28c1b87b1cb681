"""How the common model families write tool calls: one table of texts.

What: a family is a row of data. `source` cites where its format is published. A format of your own is one more
`ToolFormat`, and `register_format` adds it.
"""

from __future__ import annotations

from .format_texts import ToolFormat
from .xml_styles import XmlStyle

__all__ = ["FAMILIES"]

_JSON = '{"name": "$name", "arguments": $arguments}'
_RESPONSE = "<tool_response>\n$result\n</tool_response>"
_DEEPSEEK = (
    "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>", "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>", "<｜tool▁sep｜>",
)  # fmt: skip
_HARMONY = ("<|start|>", "<|channel|>", "<|constrain|>", "<|message|>", "<|call|>", "<|end|>", "<|return|>")

_QWEN_XML = XmlStyle(
    "qwen3_coder",
    "<parameter=$name>\n$value\n</parameter>\n",
    never=("</parameter>", "<parameter=", "</function>", "<function=", "<tool_call>", "</tool_call>"),
)

FAMILIES: tuple[ToolFormat, ...] = (
    ToolFormat(
        "hermes",
        "Hermes 2 Pro, Hermes 3, Qwen 2.5, Qwen 3, and a good choice for models that were trained for none",
        call=f"<tool_call>\n{_JSON}\n</tool_call>",
        marker="<tool_call>",
        between="\n",
        specials=("<tool_call>", "</tool_call>"),
        result=_RESPONSE,
        result_role="user",
        source="https://huggingface.co/NousResearch/Hermes-2-Pro-Llama-3-8B (model card); "
        "https://huggingface.co/Qwen/Qwen3-8B (chat template)",
    ),
    ToolFormat(
        "llama3_json",
        "Llama 3.1, 3.2, 3.3",
        call='{"name": "$name", "parameters": $arguments}',
        marker="{",
        at_start=True,
        result_role="ipython",
        source="https://huggingface.co/meta-llama/Llama-3.1-8B-Instruct (chat template)",
    ),
    ToolFormat(
        "pythonic",
        "Llama 3.2, 4",
        call="$name($arguments)",
        marker="[",
        begin="[",
        between=", ",
        end="]",
        at_start=True,
        arguments="python",
        result_role="ipython",
        source="https://huggingface.co/meta-llama/Llama-4-Scout-17B-16E-Instruct (model card and chat template)",
    ),
    ToolFormat(
        "mistral",
        "Mistral 7B v0.3 to Mistral Small 3.1 (tokenizers v3 to v7)",
        call=_JSON,
        marker="[TOOL_CALLS]",
        begin="[TOOL_CALLS][",
        between=", ",
        end="]",
        specials=("[TOOL_CALLS]",),
        think=("[THINK]", "[/THINK]"),
        source="https://huggingface.co/mistralai/Mistral-7B-Instruct-v0.3 (chat template)",
    ),
    ToolFormat(
        "mistral_args",
        "Devstral, Magistral, Mistral Medium 3.1 and later (tokenizer v13)",
        call="[TOOL_CALLS]$name[ARGS]$arguments",
        marker="[TOOL_CALLS]",
        between="",
        specials=("[TOOL_CALLS]", "[ARGS]"),
        think=("[THINK]", "[/THINK]"),
        source="https://huggingface.co/mistralai/Devstral-Small-2507 (chat template)",
    ),
    ToolFormat(
        "deepseek_v3",
        "DeepSeek V3, R1",
        call="<｜tool▁call▁begin｜>function<｜tool▁sep｜>$name\n```json\n$arguments\n```<｜tool▁call▁end｜>",
        marker="<｜tool▁calls▁begin｜>",
        begin="<｜tool▁calls▁begin｜>",
        between="\n",
        end="<｜tool▁calls▁end｜>",
        specials=_DEEPSEEK,
        source="https://huggingface.co/deepseek-ai/DeepSeek-V3 (chat template)",
    ),
    ToolFormat(
        "deepseek_v31",
        "DeepSeek V3.1",
        call="<｜tool▁call▁begin｜>$name<｜tool▁sep｜>$arguments<｜tool▁call▁end｜>",
        marker="<｜tool▁calls▁begin｜>",
        begin="<｜tool▁calls▁begin｜>",
        between="",
        end="<｜tool▁calls▁end｜>",
        specials=_DEEPSEEK,
        source="https://huggingface.co/deepseek-ai/DeepSeek-V3.1 (chat template and model card)",
    ),
    ToolFormat(
        "harmony",
        "gpt-oss",
        call="<|channel|>commentary to=functions.$name <|constrain|>json<|message|>$arguments<|call|>",
        marker="<|channel|>",
        whitespace="compact",
        specials=_HARMONY,
        think=("<|channel|>analysis<|message|>", "<|end|><|start|>assistant"),
        say=("<|channel|>commentary<|message|>", "<|end|><|start|>assistant"),
        answer=("<|channel|>final<|message|>", ""),
        source="https://cookbook.openai.com/articles/openai-harmony",
    ),
    ToolFormat(
        "qwen3_coder",
        "Qwen3-Coder",
        call="<tool_call>\n<function=$name>\n$arguments</function>\n</tool_call>",
        marker="<tool_call>",
        between="\n",
        arguments="xml",
        style=_QWEN_XML,
        specials=("<tool_call>", "</tool_call>"),
        result=_RESPONSE,
        result_role="user",
        source="https://huggingface.co/Qwen/Qwen3-Coder-480B-A35B-Instruct (chat template)",
    ),
)
"""The formats that come with the package."""
