"""Reasoning before an answer, and the variables of the chat template that control it.

What: `ChatTemplate` finds out how the model's template treats reasoning, from what it writes at the end of a prompt.
Some templates open the reasoning, some close an empty one, and with others the model decides. Families such as gpt-oss
also write the answer between markers (`ToolFormat.marks_answers`): their turns have these in any case.

    chat_template_kwargs   variables of the template; only those that it reads
    reasoning_effort       the variable of that name; "none" also switches off what the template can switch off
    structgen.reasoning, structgen.max_reasoning, structgen.max_reasoning_tokens
                           override the template for one request

Invariant: no variable can forge a turn: text values are a few words without the characters of markers.
"""

from __future__ import annotations

import difflib
import json
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import jinja2
import jinja2.meta

from structgen.errors import StructgenError
from structgen.protocols import rendered_prompt
from structgen.tools import FORMATS, ToolFormat
from structgen.tools.answer_turn import answer_turn_reader
from structgen.tools.formats import as_spec, format_of_model
from structgen.tools.partial_turn import PartialTurn
from structgen.tools.turn import ReasoningChoice

from .errors import bad_request
from .fields import Fields

__all__ = [
    "ChatTemplate",
    "ReasoningFormat",
    "read_effort",
    "read_reasoning",
    "read_template_variables",
    "read_variables",
]

_MARKERS = (("<think>", "</think>"), ("[THINK]", "[/THINK]"), ("<|channel>thought\n", "<channel|>"))
_SWITCHES = ("enable_thinking", "thinking", "reasoning")
"""Variables that switch reasoning on and off, in the templates of different families."""
_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
_KIMI_EFFORTS = {"minimal": "low", "xhigh": "max"}
"""Values that Kimi's variable `thinking_effort` does not have, and the nearest one that it has."""
_RESERVED = frozenset(
    {
        "messages", "tools", "documents", "add_generation_prompt", "continue_final_message", "tokenize",
        "chat_template", "conversation", "padding", "truncation", "max_length", "return_tensors", "return_dict",
        "return_assistant_tokens_mask", "tokenizer_kwargs", "bos_token", "eos_token", "unk_token", "sep_token",
        "pad_token", "cls_token", "mask_token", "additional_special_tokens", "raise_exception", "strftime_now",
    }
)  # fmt: skip
_PLAIN = re.compile(r"[\w .,:+/-]{0,100}")
_MOST_VARIABLES = 16
_PROBE = ({"role": "user", "content": "x"},)


@dataclass(frozen=True)
class ReasoningFormat:
    """How reasoning is written before an answer."""

    open: str
    """The opening marker; empty if the prompt ends with it."""
    close: str
    optional: bool = False
    most: int | None = None
    """Upper bound of its characters."""
    most_tokens: int | None = None
    """Upper bound of its tokens."""
    frame: ToolFormat | None = None
    """The format of a family that writes the answer between markers of its own."""
    is_off: bool = False
    """The turn has no reasoning, only an answer in its `frame`."""
    is_answer_opened: bool = False
    """The prompt has opened the answer of the `frame`."""

    @property
    def choice(self) -> ReasoningChoice:
        """The value of the option `reasoning` of `structgen.tools`."""
        if self.is_off:
            return "skipped" if self.is_answer_opened else False
        return "optional" if self.optional else True if self.open else "opened"

    def options(self) -> dict[str, Any]:
        """Return the options for `structgen.reasoning`."""
        return {
            "open": self.open or None,
            "close": self.close,
            "max_chars": self.most,
            "max_tokens": self.most_tokens,
            "optional": self.optional,
        }

    def turn_options(self) -> dict[str, Any] | None:
        """Return the options for `structgen.tools.answer_turn`, as JSON; None without a `frame`."""
        if self.frame is None:
            return None
        return {
            "format": as_spec(self.frame),
            "reasoning": self.choice,
            "max_reasoning": self.most,
            "max_reasoning_tokens": self.most_tokens,
        }

    def reader(self) -> PartialTurn:
        """Return a reader of an answer without tools."""
        if self.frame is not None:
            return answer_turn_reader(self.frame, reasoning=self.choice)
        return PartialTurn(None, think=(self.open, self.close), optional=self.optional)


class ChatTemplate:
    """The chat template of the model. Safe to use from any thread.

    Args:
        model: The model.
        tool_format: The format that the server's operator chose (`ServerSettings.tool_format`).
    """

    def __init__(self, model: Any, tool_format: str = "auto") -> None:
        self._model = model
        self._chosen = None if tool_format == "auto" else FORMATS[tool_format]
        template = getattr(getattr(model, "tokenizer", None), "chat_template", None)
        self.source = template if isinstance(template, str) else json.dumps(template or "")
        self._variables = _variables_of(template)
        self._known: dict[str, ReasoningFormat | None] = {}
        self._lock = threading.Lock()

    def tool_format(self, model_name: str) -> ToolFormat:
        """Return the chosen format of tool calls, or that of the model's names or its template, or the default.

        Args:
            model_name: The name that clients send.
        """
        found = self._named_format() or format_of_model(model_name, self.source)
        return FORMATS["hermes"] if found is None else found

    def _named_format(self) -> ToolFormat | None:
        """Return the chosen format, or that of the model's own name or template; None if neither is known."""
        if self._chosen is not None:
            return self._chosen
        config = getattr(getattr(self._model, "model", None), "config", None)
        return format_of_model(str(getattr(config, "name_or_path", "") or ""), self.source)

    def reads(self, name: str) -> bool:
        """Return whether the template has a variable of this name."""
        if self._variables is not None:
            return name in self._variables
        return re.search(rf"\b{re.escape(name)}\b", self.source) is not None

    def reasoning_format(self, variables: Mapping[str, Any]) -> ReasoningFormat | None:
        """Return how the model reasons after a prompt with these variables; None if it does not."""
        key = json.dumps(variables, sort_keys=True)
        with self._lock:
            if key not in self._known:
                if len(self._known) > 256:
                    self._known.clear()
                self._known[key] = self._probe(variables)
            return self._known[key]

    def _probe(self, variables: Mapping[str, Any]) -> ReasoningFormat | None:
        markers = next((pair for pair in _MARKERS if any(mark in self.source for mark in pair)), None)
        frames = [
            format for format in FORMATS.values() if format.is_framed and _mentions(self.source, format)
        ]
        named = self._named_format()
        if named is not None and named.reply[0]:
            frames.append(named)  # templates leave the markers of `reply` out of earlier turns
        if markers is None and not frames:
            return None
        try:
            parts = rendered_prompt(self._model, _PROBE, template=variables)
        except (StructgenError, TypeError):
            return None
        if parts is None:
            return None
        prompt = "".join(parts).rstrip()
        for format in frames:
            if (found := _in_frame(format, prompt, self.source)) is not None:
                return found
        if markers is None:
            return None
        begin, end = markers
        if prompt.endswith(begin.rstrip()):
            return ReasoningFormat("", end)
        if prompt.endswith(end):
            return None
        line = "\n" if self._writes("".join(parts) + "\n" + begin, variables) else ""
        return ReasoningFormat(line + begin, end, optional=True)

    def _writes(self, beginning: str, variables: Mapping[str, Any]) -> bool:
        """Return whether a turn with reasoning after the prompt of `_probe` begins so, with that prompt."""
        turn = {"role": "assistant", "content": "x", "reasoning_content": "x"}
        try:
            parts = rendered_prompt(self._model, [*_PROBE, turn], template=variables)
        except (StructgenError, TypeError):
            return False
        return parts is not None and "".join(parts).startswith(beginning)


def _mentions(source: str, format: ToolFormat) -> bool:
    """Return whether a template may be of this format: it contains the special tokens of the answer's markers."""
    marks = [mark for mark in format.specials if mark in format.answer[0] + format.think[0]]
    return bool(marks) and all(mark in source for mark in marks)


def _in_frame(format: ToolFormat, prompt: str, source: str) -> ReasoningFormat | None:
    """Return how a turn after this prompt reasons and answers; None if the template is not of this format."""
    (begin, end), answer = format.think, format.answer[0]
    off = ReasoningFormat(begin, end, frame=format, is_off=True)
    if answer and prompt.endswith(answer.rstrip()):
        return replace(off, is_answer_opened=True)
    if begin and prompt.endswith(begin.rstrip()):
        return ReasoningFormat("", end, frame=format)
    if re.search(rf"{re.escape(begin.rstrip())}\s*{re.escape(end.rstrip())}\Z", prompt):
        return off
    if format.reply[0] or (begin in source and answer in source):
        return ReasoningFormat(begin, end, optional=True, frame=format)
    return None


def _variables_of(template: Any) -> frozenset[str] | None:
    """Return the variables that a template reads; None if it is not one plain Jinja template."""
    if not isinstance(template, str):
        return None
    environment = jinja2.Environment(extensions=["jinja2.ext.loopcontrols", "jinja2.ext.do"])
    try:
        return frozenset(jinja2.meta.find_undeclared_variables(environment.parse(template)))
    except (jinja2.TemplateError, RecursionError):
        return None


def read_variables(fields: Fields, template: ChatTemplate) -> dict[str, Any]:
    """Return the variables of the chat template that a request sets. Raises `ApiError`."""
    _, found = read_effort(fields, "reasoning_effort", template)
    return read_template_variables(fields, template, found, "reasoning_effort")


def read_effort(fields: Fields, key: str, template: ChatTemplate) -> tuple[str | None, dict[str, Any]]:
    """Return the effort that a request wants, and the variables of the chat template that it sets.

    Args:
        fields: Some fields of the request.
        key: The one for the effort.
        template: The model's chat template.

    Raises:
        ApiError: There is no such effort.
    """
    effort = fields.text(key)
    found: dict[str, Any] = {}
    if effort is not None:
        if effort not in _EFFORTS:
            where = fields.name(key)
            raise bad_request(where, f"{where} is {effort!r:.40}; it is one of {', '.join(_EFFORTS)}")
        if template.reads("reasoning_effort") and effort != "none":
            found["reasoning_effort"] = effort
        if template.reads("thinking_effort") and effort != "none":
            found["thinking_effort"] = _KIMI_EFFORTS.get(effort, effort)
        found.update({name: effort != "none" for name in _SWITCHES if template.reads(name)})
    return effort, found


def read_template_variables(
    fields: Fields, template: ChatTemplate, set_already: Mapping[str, Any], by: str
) -> dict[str, Any]:
    """Return the variables that the field `chat_template_kwargs` sets, with those that another field sets.

    Args:
        fields: The fields of the request.
        template: The model's chat template.
        set_already: The variables that the other field sets.
        by: The name of that field.

    Raises:
        ApiError: A variable is unknown or invalid, or the two fields contradict each other.
    """
    found = dict(set_already)
    given = fields.object("chat_template_kwargs")
    if given is None:
        return found
    variables = given.rest()
    if len(variables) > _MOST_VARIABLES:
        raise bad_request("chat_template_kwargs", f"at most {_MOST_VARIABLES} variables")
    for name, value in variables.items():
        where = given.name(name)
        if value is None:
            continue
        if name in _RESERVED or not (template.reads(name) or name in _SWITCHES):
            near = difflib.get_close_matches(
                name, [switch for switch in _SWITCHES if template.reads(switch)], 1
            )
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise bad_request(where, f"the model's chat template has no variable {name!r:.60}.{hint}")
        if (
            isinstance(value, str)
            and not _PLAIN.fullmatch(value)
            or not isinstance(value, str | bool | int | float)
        ):
            raise bad_request(
                where, f"{where} is {value!r:.60}; it is true, false, a number or a text of a few words"
            )
        if name in set_already and set_already[name] != value:
            shown = json.dumps(set_already[name])
            raise bad_request(where, f"{where} is {json.dumps(value)}, but {by} sets {name} to {shown}")
        if template.reads(name):
            found[name] = value  # a model that never reasons has nothing to switch
    return found


def read_reasoning(
    own: Fields | None, template: ChatTemplate, variables: Mapping[str, Any], *, is_on: bool
) -> ReasoningFormat | None:
    """Return how the answer reasons: as the template says, unless ``structgen.reasoning`` overrides it."""
    reasoning = template.reasoning_format(variables) if is_on else None
    if own is None:
        return reasoning
    wanted, most = own.take("reasoning"), own.number("max_reasoning", 0, 1_000_000, whole=True)
    most_tokens = own.number("max_reasoning_tokens", 0, 1_000_000, whole=True)
    if not isinstance(wanted, bool | None) and wanted != "optional":
        raise bad_request(
            "structgen.reasoning", f'structgen.reasoning is {wanted!r:.40}; it is true, false or "optional"'
        )
    if reasoning is not None and reasoning.frame is not None:
        reasoning = _wanted_in_frame(reasoning, wanted)
    elif wanted is False:
        reasoning = None
    elif wanted is not None:
        begin, end = (reasoning.open, reasoning.close) if reasoning is not None else _MARKERS[0]
        reasoning = ReasoningFormat(begin, end, optional=wanted == "optional" and bool(begin))
    for name, given in (("max_reasoning", most), ("max_reasoning_tokens", most_tokens)):
        if given is not None and (reasoning is None or reasoning.is_off or wanted is False):
            raise bad_request(f"structgen.{name}", f"structgen.{name} is given without reasoning")
    if reasoning is None or most is most_tokens is None:
        return reasoning
    return replace(reasoning, most=most, most_tokens=most_tokens)


def _wanted_in_frame(reasoning: ReasoningFormat, wanted: bool | str | None) -> ReasoningFormat:
    """Return how a turn with markers around the answer reasons. Raises `ApiError`."""
    if wanted is None:
        return reasoning
    if reasoning.is_answer_opened and wanted is True:
        raise bad_request(
            "structgen.reasoning",
            "the chat template has started the answer, so no reasoning can come before it. Set a variable of the "
            "template instead (chat_template_kwargs)",
        )
    if wanted is False and not reasoning.open and not reasoning.is_off:
        return replace(reasoning, most=0)  # the prompt has opened it, so it must be closed
    if reasoning.is_off and (wanted is False or reasoning.is_answer_opened):
        return reasoning
    return replace(reasoning, is_off=wanted is False, optional=wanted == "optional" and bool(reasoning.open))
