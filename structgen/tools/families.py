"""How the common model families write tool calls: one table of texts.

What: a family is a row of data; one that differs little from another says only where. `source` cites where its
format is published. A format of your own is one more `ToolFormat`, and `register_format` adds it.
"""

from __future__ import annotations

from dataclasses import replace

from .format_texts import ToolFormat
from .xml_styles import XmlStyle

__all__ = ["FAMILIES"]

_JSON = '{"name": "$name", "arguments": $arguments}'
_RESPONSE = "<tool_response>\n$result\n</tool_response>"
_DEEPSEEK = (
    "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>", "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>", "<｜tool▁sep｜>",
)  # fmt: skip
_KIMI = (
    "<|tool_calls_section_begin|>",
    "<|tool_calls_section_end|>",
    "<|tool_call_begin|>",
    "<|tool_call_argument_begin|>",
    "<|tool_call_end|>",
)
_COHERE = (
    "<|START_ACTION|>",
    "<|END_ACTION|>",
    "<|START_THINKING|>",
    "<|END_THINKING|>",
    "<|START_RESPONSE|>",
    "<|END_RESPONSE|>",
)
_GLM = ("<tool_call>", "</tool_call>", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>")
_HARMONY = ("<|start|>", "<|channel|>", "<|constrain|>", "<|message|>", "<|call|>", "<|end|>", "<|return|>")

_QWEN_XML = XmlStyle(
    "qwen3_coder",
    "<parameter=$name>\n$value\n</parameter>\n",
    never=("</parameter>", "<parameter=", "</function>", "<function=", "<tool_call>", "</tool_call>"),
)

_GLM_45_STYLE = XmlStyle(
    "glm45",
    "<arg_key>$name</arg_key>\n<arg_value>$value</arg_value>\n",
    never=("</arg_value>", "</tool_call>"),
)
_GLM_47_STYLE = XmlStyle(
    "glm47", "<arg_key>$name</arg_key><arg_value>$value</arg_value>", never=("</arg_value>", "</tool_call>")
)
_MINIMAX = XmlStyle(
    "minimax_m2",
    '<parameter name="$name">$value</parameter>\n',
    never=("</parameter>", "</invoke>", "</minimax:tool_call>"),
)
_NO_STRINGS = ("number", "boolean", "null", "array", "object")
_DSML = XmlStyle(
    "deepseek_v32",
    '<｜DSML｜parameter name="$name" string="$type">$value</｜DSML｜parameter>',
    types={"string": "true", **dict.fromkeys(_NO_STRINGS, "false")},
    never=("</｜DSML｜parameter>", "</｜DSML｜invoke>", "｜DSML｜"),
    between="\n",
)
_KIMI_K3 = XmlStyle(
    "kimi_k3",
    '<|open|>argument key="$name" type="$type"<|sep|>$value<|close|>argument<|sep|>',
    types={kind: kind for kind in ("string", *_NO_STRINGS)},
    escapes={"&": "&amp;", '"': "&quot;"},
    never=("<|open|>", "<|close|>", "<|sep|>"),
)

_HERMES = ToolFormat(
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
)
_MISTRAL = ToolFormat(
    "mistral",
    "Mistral NeMo, Ministral 8B, Mistral Small 3 and 3.1, Pixtral, Mistral Large 2 (tokenizers v3-tekken to v7)",
    call=_JSON,
    marker="[TOOL_CALLS]",
    begin="[TOOL_CALLS][",
    between=", ",
    end="]",
    specials=("[TOOL_CALLS]",),
    think=("[THINK]", "[/THINK]"),
    source="https://huggingface.co/mistralai/Mistral-Small-3.1-24B-Instruct-2503 (chat template); "
    "https://github.com/ggml-org/llama.cpp/blob/master/models/templates/"
    "mistralai-Mistral-Small-3.1-24B-Instruct-2503.jinja",
)
_MISTRAL_ARGS = ToolFormat(
    "mistral_args",
    "Devstral, Magistral, Mistral Medium 3.1 and later (tokenizer v13)",
    call="[TOOL_CALLS]$name[ARGS]$arguments",
    marker="[TOOL_CALLS]",
    between="",
    specials=("[TOOL_CALLS]", "[ARGS]"),
    think=("[THINK]", "[/THINK]"),
    source="https://huggingface.co/mistralai/Devstral-Small-2507 (chat template)",
)
_DEEPSEEK_V3 = ToolFormat(
    "deepseek_v3",
    "DeepSeek V3, R1",
    call="<｜tool▁call▁begin｜>function<｜tool▁sep｜>$name\n```json\n$arguments\n```<｜tool▁call▁end｜>",
    marker="<｜tool▁calls▁begin｜>",
    begin="<｜tool▁calls▁begin｜>",
    between="\n",
    end="<｜tool▁calls▁end｜>",
    specials=_DEEPSEEK,
    source="https://huggingface.co/deepseek-ai/DeepSeek-V3 (chat template)",
)
_GLM_45 = ToolFormat(
    "glm45",
    "GLM 4.5, 4.6",
    call="<tool_call>$name\n$arguments</tool_call>",
    marker="<tool_call>",
    between="\n",
    arguments="xml",
    style=_GLM_45_STYLE,
    specials=(*_GLM, "<think>", "</think>"),
    think=("\n<think>", "</think>"),
    source="https://huggingface.co/zai-org/GLM-4.6 (chat template); "
    "https://github.com/ggml-org/llama.cpp/blob/master/models/templates/GLM-4.6.jinja",
)
_DEEPSEEK_V32 = ToolFormat(
    "deepseek_v32",
    "DeepSeek V3.2",
    call='<｜DSML｜invoke name="$name">\n$arguments\n</｜DSML｜invoke>',
    marker="<｜DSML｜function_calls>",
    begin="<｜DSML｜function_calls>\n",
    between="\n",
    end="\n</｜DSML｜function_calls>",
    arguments="xml",
    style=_DSML,
    specials=("｜DSML｜",),
    source="https://huggingface.co/deepseek-ai/DeepSeek-V3.2 (encoding/encoding_dsv32.py); "
    "https://github.com/ggml-org/llama.cpp/blob/master/models/templates/DeepSeek-V3.2.jinja",
)

_GRANITE_3 = ToolFormat(
    "granite3",
    "Granite 3.0, 3.2, 3.3",
    call=_JSON,
    marker="<|tool_call|>",
    begin="<|tool_call|>[",
    between=", ",
    end="]",
    specials=("<|tool_call|>",),
    source="https://huggingface.co/ibm-granite/granite-3.3-8b-instruct (chat template); "
    "https://github.com/vllm-project/vllm/blob/main/vllm/tool_parsers/granite_tool_parser.py",
)

_LISTED: tuple[ToolFormat, ...] = (
    _HERMES,
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
        "Llama 4, Llama 3.2",
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
    _MISTRAL,
    _MISTRAL_ARGS,
    _DEEPSEEK_V3,
    replace(
        _DEEPSEEK_V3,
        name="deepseek_v31",
        models="DeepSeek V3.1",
        call="<｜tool▁call▁begin｜>$name<｜tool▁sep｜>$arguments<｜tool▁call▁end｜>",
        between="",
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
        "Qwen3-Coder, Qwen 3.5",
        call="<tool_call>\n<function=$name>\n$arguments</function>\n</tool_call>",
        marker="<tool_call>",
        between="\n",
        arguments="xml",
        style=_QWEN_XML,
        specials=("<tool_call>", "</tool_call>"),
        result=_RESPONSE,
        result_role="user",
        source="https://huggingface.co/Qwen/Qwen3-Coder-480B-A35B-Instruct (chat template); "
        "https://huggingface.co/Qwen/Qwen3.5-397B-A17B (chat template)",
    ),
    replace(
        _MISTRAL,
        name="mistral_v3",
        models="Mistral 7B v0.3, Mixtral 8x22B (SentencePiece tokenizer v3)",
        begin="[TOOL_CALLS] [",
        source="https://huggingface.co/mistralai/Mistral-7B-Instruct-v0.3 (chat template)",
    ),
    replace(
        _MISTRAL_ARGS,
        name="mistral_v11",
        models="Mistral models with tokenizer v11",
        call="[TOOL_CALLS]$name[CALL_ID]$id[ARGS]$arguments",
        specials=("[TOOL_CALLS]", "[CALL_ID]", "[ARGS]"),
        source="https://github.com/mistralai/mistral-common/blob/main/src/mistral_common/tokens/tokenizers/instruct.py",
    ),
    _GLM_45,
    replace(
        _GLM_45,
        name="glm47",
        models="GLM 4.7",
        call="<tool_call>$name$arguments</tool_call>",
        between="",
        style=_GLM_47_STYLE,
        specials=_GLM,
        think=("<think>", "</think>"),
        source="https://huggingface.co/zai-org/GLM-4.7 (chat template)",
    ),
    ToolFormat(
        "minimax_m2",
        "MiniMax M2, M2.5",
        call='<invoke name="$name">\n$arguments</invoke>',
        marker="<minimax:tool_call>",
        begin="<minimax:tool_call>\n",
        between="\n",
        end="\n</minimax:tool_call>",
        arguments="xml",
        style=_MINIMAX,
        specials=("<minimax:tool_call>", "</minimax:tool_call>"),
        source="https://github.com/MiniMax-AI/MiniMax-M2.5/blob/main/docs/tool_calling_guide.md; "
        "https://github.com/ggml-org/llama.cpp/blob/master/models/templates/unsloth-MiniMax-M2.jinja",
    ),
    _DEEPSEEK_V32,
    replace(
        _DEEPSEEK_V32,
        name="deepseek_v4",
        models="DeepSeek V4",
        marker="<｜DSML｜tool_calls>",
        begin="<｜DSML｜tool_calls>\n",
        end="\n</｜DSML｜tool_calls>",
        source="https://huggingface.co/deepseek-ai/DeepSeek-V4-Flash (encoding/encoding_dsv4.py); "
        "https://github.com/vllm-project/vllm/blob/main/vllm/tool_parsers/deepseekv4_tool_parser.py",
    ),
    ToolFormat(
        "kimi_k2",
        "Kimi K2",
        call="<|tool_call_begin|>functions.$name:$number<|tool_call_argument_begin|>$arguments<|tool_call_end|>",
        marker="<|tool_calls_section_begin|>",
        begin="<|tool_calls_section_begin|>",
        between="",
        end="<|tool_calls_section_end|>",
        specials=_KIMI,
        source="https://huggingface.co/moonshotai/Kimi-K2-Thinking (chat template, docs/tool_call_guidance.md)",
    ),
    ToolFormat(
        "kimi_k3",
        "Kimi K3, after a prompt that opens the reasoning",
        call='<|open|>call tool="$name" index="$number"<|sep|>$arguments<|close|>call<|sep|>',
        marker="<|open|>tools<|sep|>",
        begin="<|open|>tools<|sep|>",
        between="",
        end="<|close|>tools<|sep|><|close|>message<|sep|>",
        first_number=1,
        arguments="xml",
        style=_KIMI_K3,
        specials=("<|open|>", "<|close|>", "<|sep|>"),
        think=("<|open|>think<|sep|>", "<|close|>think<|sep|>"),
        say=("<|open|>response<|sep|>", "<|close|>response<|sep|>"),
        says_always=True,
        answer=("<|open|>response<|sep|>", "<|close|>response<|sep|><|close|>message<|sep|>"),
        source="https://github.com/ggml-org/llama.cpp/blob/master/models/templates/Kimi-K3.jinja",
    ),
    ToolFormat(
        "cohere_command",
        "Command R7B, Command A, Command A Reasoning",
        call='{"tool_call_id": "$number", "tool_name": "$name", "parameters": $arguments}',
        marker="<|START_ACTION|>",
        begin="<|START_ACTION|>[\n    ",
        between=",\n    ",
        end="\n]<|END_ACTION|>",
        specials=_COHERE,
        think=("<|START_THINKING|>", "<|END_THINKING|>"),
        answer=("<|START_RESPONSE|>", "<|END_RESPONSE|>"),
        source="https://huggingface.co/CohereLabs/c4ai-command-r7b-12-2024 (chat template tool_use); "
        "https://huggingface.co/CohereLabs/command-a-reasoning-08-2025 (chat template)",
    ),
    ToolFormat(
        "exaone4",
        "EXAONE 4.0",
        call=f"<tool_call>{_JSON}</tool_call>",
        marker="<tool_call>",
        between="\n",
        specials=("<tool_call>", "</tool_call>"),
        source="https://huggingface.co/LGAI-EXAONE/EXAONE-4.0-32B (chat template); "
        "https://github.com/ggml-org/llama.cpp/pull/14630",
    ),
    ToolFormat(
        "gemma4",
        "Gemma 4",
        call="<|tool_call>call:$name$arguments<tool_call|>",
        marker="<|tool_call>",
        between="",
        arguments="bare",
        quote='<|"|>',
        specials=("<|tool_call>", "<tool_call|>", '<|"|>', "<|channel>", "<channel|>"),
        think=("<|channel>thought\n", "<channel|>"),
        source="https://github.com/ggml-org/llama.cpp/blob/master/models/templates/google-gemma-4-31B-it-interleaved.jinja",
    ),
    replace(
        _HERMES,
        name="granite4",
        models="Granite 4.0",
        source="https://www.ibm.com/granite/docs/use-cases/prompt-engineering",
    ),
    _GRANITE_3,
    replace(
        _GRANITE_3,
        name="granite31",
        models="Granite 3.1",
        marker="<tool_call>",
        begin="<tool_call>[",
        specials=("<tool_call>",),
        source="https://github.com/vllm-project/vllm/blob/main/vllm/tool_parsers/granite_tool_parser.py",
    ),
    ToolFormat(
        "phi4_mini",
        "Phi-4-mini",
        call=_JSON,
        marker="functools[",
        begin="functools[",
        between=", ",
        end="]",
        specials=("functools[",),
        source="https://github.com/vllm-project/vllm/blob/main/examples/tool_chat_template_phi4_mini.jinja",
    ),
    ToolFormat(
        "hunyuan_a13b",
        "Hunyuan A13B",
        call=_JSON,
        marker="<tool_calls>",
        begin="<tool_calls>[",
        between=", ",
        end="]</tool_calls>",
        specials=("<tool_calls>", "</tool_calls>", "<think>", "</think>", "<answer>", "</answer>"),
        think=("<think>\n", "</think>\n"),
        reply=("<answer>\n", "\n</answer>"),
        result="<tool_response>$result</tool_response>",
        source="https://huggingface.co/tencent/Hunyuan-A13B-Instruct (model card); "
        "https://github.com/vllm-project/vllm/blob/main/examples/tool_chat_template_hunyuan_a13b.jinja; "
        "https://github.com/vllm-project/vllm/blob/main/vllm/reasoning/hunyuan_a13b_reasoning_parser.py; "
        "https://github.com/sgl-project/sglang/pull/7678",
    ),
    ToolFormat(
        "olmo3",
        "Olmo 3",
        call="$name($arguments)",
        marker="<function_calls>",
        begin="<function_calls>",
        between="\n",
        end="</function_calls>",
        margin="\n",
        arguments="keywords",
        specials=("<function_calls>", "</function_calls>"),
        source="https://huggingface.co/allenai/Olmo-3-7B-Instruct (chat template); "
        "https://github.com/vllm-project/vllm/pull/26143 (by the authors of the model); "
        "https://github.com/vllm-project/vllm/blob/main/vllm/tool_parsers/olmo3_tool_parser.py",
    ),
)

_FOUND_BY: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "hermes": (("hermes", "deephermes", "qwen2", "qwen2.5", "qwen3", "qwq"), ("<tool_call>", '"arguments"')),
    "llama3_json": (
        ("llama-3", "llama-3.1", "llama-3.2", "llama-3.3", "llama3", "llama3.1", "llama3.2", "llama3.3"),
        ("<|start_header_id|>", '"parameters"', "ipython"),
    ),
    "pythonic": (("llama-4", "llama4"), ("<|header_start|>", "ipython")),
    "mistral": (
        ("mistral-nemo", "ministral-8b", "mistral-small", "mistral-large", "pixtral", "mathstral"),
        ("[TOOL_CALLS][",),
    ),
    "mistral_v3": (("mistral-7b-instruct-v0.3", "mistral-7b-v0.3", "mixtral-8x22b"), ("[TOOL_CALLS] [",)),
    "mistral_args": (
        ("devstral", "magistral", "ministral-3", "mistral-medium", "mistral-large-3", "mistral-small-4"),
        ("[TOOL_CALLS]", "[ARGS]"),
    ),
    "mistral_v11": (
        ("mistral-small-3.2", "mistral-small-2506"),
        ("[TOOL_CALLS]", "[CALL_ID]", "[ARGS]"),
    ),
    "deepseek_v3": (("deepseek-v3", "deepseek-r1"), ("<｜tool▁calls▁begin｜>", "```json")),
    "deepseek_v31": (("deepseek-v3.1", "deepseek-v3.2-exp"), ("<｜tool▁calls▁begin｜>",)),
    "deepseek_v32": (("deepseek-v3.2",), ("DSML", "function_calls")),
    "deepseek_v4": (("deepseek-v4",), ("DSML", "tool_calls>")),
    "harmony": (("gpt-oss",), ("<|channel|>", "<|message|>", "commentary")),
    "qwen3_coder": (("qwen3-coder", "qwen3.5", "qwen3.6"), ("<tool_call>", "<function=", "<parameter=")),
    "glm45": (("glm-4.5", "glm-4.6", "glm4.5", "glm4.6"), ("<tool_call>", "</arg_key>\n<arg_value>")),
    "glm47": (("glm-4.7", "glm4.7", "glm-5"), ("<tool_call>", "</arg_key><arg_value>")),
    "minimax_m2": (("minimax-m2",), ("minimax:tool_call", "<invoke name=")),
    "kimi_k2": (("kimi-k2",), ("<|tool_calls_section_begin|>",)),
    "kimi_k3": (("kimi-k3",), ("<|open|>", "<|close|>", "<|sep|>")),
    "cohere_command": (("command-r7b", "command-a"), ("<|START_ACTION|>",)),
    "exaone4": (("exaone-4",), ("<tool_call>", "<tool_result>", "[|assistant|]")),
    "gemma4": (("gemma-4",), ("<|tool_call>call:",)),
    "granite4": (("granite-4",), ("<tool_call>", '"arguments"', "<|start_of_role|>")),
    "granite3": (
        ("granite-3", "granite-3.0", "granite-3.2", "granite-3.3"),
        ("<|tool_call|>", "<|start_of_role|>"),
    ),
    "granite31": (("granite-3.1",), ()),
    "phi4_mini": (("phi-4-mini",), ("functools[",)),
    "hunyuan_a13b": (("hunyuan-a13b",), ("<tool_calls>[", "<|extra_0|>")),
    "olmo3": (("olmo-3",), ("<function_calls>",)),
}
"""For each format, parts of the names of its models, and texts that its chat templates contain."""

FAMILIES: tuple[ToolFormat, ...] = tuple(
    replace(listed, names=_FOUND_BY[listed.name][0], template_texts=_FOUND_BY[listed.name][1])
    for listed in _LISTED
)
"""The formats that come with the package."""
