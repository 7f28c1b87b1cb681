"""How the common model families write tool calls: one table of texts.

Why: the constraint of a turn, the reader of a finished one and the prompt all use the same few texts. So a format is a
row of data, without code. A format of your own is one more `ToolFormat`.
What: ``$name`` and ``$arguments`` in `call` are placeholders. A text of `specials` is a special token if the tokenizer
has one of that name, and plain text otherwise; free text never contains one of them.
Sources: the chat templates and model cards of the families (Hermes 2 Pro, Qwen 2.5 and 3, Qwen3-Coder, Llama 3.1 to
4, Mistral v3 to v13, DeepSeek V3, R1 and V3.1), OpenAI's description of harmony.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from structgen.brief import short_repr
from structgen.constraints.json_schema.whitespace import WhitespaceName
from structgen.errors import OptionError

__all__ = ["FORMATS", "ToolFormat", "tool_format"]

Notation = Literal["json", "python", "xml"]


@short_repr
@dataclass(frozen=True)
class ToolFormat:
    """The texts of one format."""

    name: str
    models: str
    """The model families that use it."""
    call: str
    """One call, with ``$name`` and ``$arguments``."""
    marker: str
    """The beginning of calls. Free text does not contain it, or (`at_start`) does not begin with it."""
    begin: str = ""
    """The text before the first call."""
    between: str | None = None
    """The text between two calls; None if a turn has at most one call."""
    end: str = ""
    """The text after the last call."""
    at_start: bool = False
    """A turn is text or calls, without text before a call."""
    arguments: Notation = "json"
    """``json``: an object. ``python``: keyword arguments. ``xml``: one element per parameter."""
    whitespace: WhitespaceName = "json.dumps"
    """White space in JSON."""
    specials: tuple[str, ...] = ()
    think: tuple[str, str] = ("<think>", "</think>")
    """The texts around the reasoning."""
    say: tuple[str, str] = ("", "")
    """The texts around text before calls."""
    answer: tuple[str, str] = ("", "")
    """The texts around the answer."""
    result: str = "$result"
    """How `run_tools` shows the result of a call, with ``$name`` and ``$result``, in a message of `result_role`."""
    result_role: str = "tool"

    @property
    def is_framed(self) -> bool:
        """Whether every text has markers of its own."""
        return bool(self.answer[0])


_JSON = '{"name": "$name", "arguments": $arguments}'
_RESPONSE = "<tool_response>\n$result\n</tool_response>"
_DEEPSEEK = (
    "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>", "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>", "<｜tool▁sep｜>",
)  # fmt: skip
_HARMONY = ("<|start|>", "<|channel|>", "<|constrain|>", "<|message|>", "<|call|>", "<|end|>", "<|return|>")

_LISTED = (
    ToolFormat(
        "hermes",
        "Hermes 2 Pro, Hermes 3, Qwen 2.5, Qwen 3, and a good choice for models that were trained for none",
        call=f"<tool_call>\n{_JSON}\n</tool_call>",
        marker="<tool_call>",
        between="\n",
        specials=("<tool_call>", "</tool_call>"),
        result=_RESPONSE,
        result_role="user",
    ),
    ToolFormat(
        "llama3_json",
        "Llama 3.1, 3.2, 3.3",
        call='{"name": "$name", "parameters": $arguments}',
        marker="{",
        at_start=True,
        result_role="ipython",
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
    ),
    ToolFormat(
        "mistral_args",
        "Devstral, Magistral, Mistral Medium 3.1 and later (tokenizer v13)",
        call="[TOOL_CALLS]$name[ARGS]$arguments",
        marker="[TOOL_CALLS]",
        between="",
        specials=("[TOOL_CALLS]", "[ARGS]"),
        think=("[THINK]", "[/THINK]"),
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
    ),
    ToolFormat(
        "qwen3_coder",
        "Qwen3-Coder",
        call="<tool_call>\n<function=$name>\n$arguments</function>\n</tool_call>",
        marker="<tool_call>",
        between="\n",
        arguments="xml",
        specials=("<tool_call>", "</tool_call>"),
        result=_RESPONSE,
        result_role="user",
    ),
)

FORMATS: dict[str, ToolFormat] = {listed.name: listed for listed in _LISTED}
"""The formats by name."""


def tool_format(given: str | ToolFormat) -> ToolFormat:
    """Return the format of a name, or the given format. Raises `OptionError`."""
    if isinstance(given, ToolFormat):
        return given
    if given not in FORMATS:
        raise OptionError(
            f"there is no tool format {given!r:.60}",
            hint=f"The formats are {', '.join(FORMATS)}; another one is a structgen.tools.ToolFormat.",
        )
    return FORMATS[given]
