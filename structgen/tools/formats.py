"""How the common model families write tool calls: one table, nothing but texts.

Why: the constraint of a turn, the reader of a finished one and the prompt all follow the same few texts, so a format
is a row here and no code. A format of your own is one more `ToolFormat`.
What: ``$name`` and ``$arguments`` in `call` stand for what they say. A text of `specials` is a special token where the
tokenizer has it as one, and plain text elsewhere; free text never holds one of them.
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
    """Who writes it."""
    call: str
    """One call, with ``$name`` and ``$arguments``."""
    marker: str
    """What calls begin with: free text does not hold it, or (`at_start`) not begin with it."""
    begin: str = ""
    """Before the first call."""
    between: str | None = None
    """Between two calls; None: a turn has one call at most."""
    end: str = ""
    """After the last call."""
    at_start: bool = False
    """A turn is text or calls: no text stands before a call."""
    arguments: Notation = "json"
    """``json``: an object. ``python``: keyword arguments. ``xml``: one element for each parameter."""
    whitespace: WhitespaceName = "json.dumps"
    """Of JSON."""
    specials: tuple[str, ...] = ()
    think: tuple[str, str] = ("<think>", "</think>")
    """Around the reasoning."""
    say: tuple[str, str] = ("", "")
    """Around text that comes before calls."""
    answer: tuple[str, str] = ("", "")
    """Around text that is the answer."""
    result: str = "$result"
    """How `run_tools` shows what a call gave, in a message of the role `result_role`; ``$name`` and ``$result``."""
    result_role: str = "tool"

    @property
    def is_framed(self) -> bool:
        """Whether every text has a frame of its own, so that line ends between them are no one's."""
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

FORMATS: dict[str, ToolFormat] = {one.name: one for one in _LISTED}
"""By name."""


def tool_format(given: str | ToolFormat) -> ToolFormat:
    """The format of this name, or the one that is given."""
    if isinstance(given, ToolFormat):
        return given
    if given not in FORMATS:
        raise OptionError(
            f"there is no tool format {given!r:.60}",
            hint=f"The formats are {', '.join(FORMATS)}; another one is a structgen.tools.ToolFormat.",
        )
    return FORMATS[given]
