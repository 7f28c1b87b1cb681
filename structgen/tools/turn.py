"""The constraint of one turn of an assistant that may call tools, and the reader of a finished turn.

What: a turn is reasoning, if the options allow it, then an answer or calls. Without a constraint for the answer it is
free text, and free text may also precede calls, if the format has that.
Invariant: `ToolTurn.read` reads each text of the constraint as exactly one turn, and the tools' schemas accept the
arguments of its calls. One exception: with `at_start` and an answer that is not regular, an answer that is also written
as a call is read as that call. Free text never contains the beginning of calls. With an `order`, `Order` decides
which tools may be called, and whether the turn may be an answer.
Cost: one grammar symbol per tool; a schema's automaton is built when it is first reached.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from structgen.argument_names import checks_names
from structgen.constraints.base import IR, Operand, RuleViolation, Stop, as_constraint
from structgen.constraints.composition import Composition
from structgen.errors import OptionError, OutputInvalid, UnsatisfiableFormula
from structgen.ir.grammar import Body, Rule
from structgen.matcher import Matcher
from structgen.vocabulary import Vocabulary

from .bodies import sequence_of
from .definitions import Tool, ToolCall, names_of, read_tools
from .events import AssistantTurn
from .format_texts import ToolFormat
from .formats import tool_format
from .forms import Forms
from .order import Order, OrderFormulas, order_of
from .partial_turn import PartialTurn
from .prompting import in_order
from .rendering import render_turn
from .turn_parser import TurnParser
from .turn_parts import ReasoningChoice, TurnParts

__all__ = ["ReasoningChoice", "ToolTurn", "most_calls", "tools"]


class ToolTurn(Composition):
    """The constraint of a turn; `tools` returns it."""

    __slots__ = ("format", "forms", "options", "reasoning", "tools")

    tools: tuple[Tool, ...]
    format: ToolFormat
    reasoning: ReasoningChoice
    options: Mapping[str, Any]
    """The options of `tools`."""
    forms: Forms
    """How values of parameters are written, for `read`."""

    def __init__(
        self,
        body: Body,
        tools: tuple[Tool, ...],
        format: ToolFormat,
        reasoning: ReasoningChoice,
        rules: Sequence[Rule],
        options: Mapping[str, Any],
        forms: Forms,
    ) -> None:
        object.__setattr__(self, "tools", tools)
        object.__setattr__(self, "format", format)
        object.__setattr__(self, "reasoning", reasoning)
        object.__setattr__(self, "options", options)
        object.__setattr__(self, "forms", forms)
        super().__init__(body, f"a turn with the tools {names_of(tools)} as {format.name} writes them", rules)

    def read(self, text: str) -> AssistantTurn:
        """Read a finished turn: its reasoning, its text and its calls.

        Args:
            text: The text with its special tokens by name, as `Vocabulary.spelled` returns it.

        Raises:
            OutputInvalid: The text is not a complete turn.
        """
        reader = self._reader()
        reader.feed(text, ends=True)
        return reader.whole()

    def parser(self) -> TurnParser:
        """Return a parser of one turn, which reads it while it is written and reports events."""
        return TurnParser(self._reader())

    def _reader(self) -> PartialTurn:
        begin, end = self.format.think
        return PartialTurn(
            self.format,
            self.tools,
            self.forms,
            think=None
            if self.reasoning in (False, "skipped")
            else ("" if self.reasoning == "opened" else begin, end),
            optional=self.reasoning == "optional",
            answers=self.options["answer"] is not None,
            is_opened=self.reasoning == "skipped",
        )

    def render(self, turn: AssistantTurn) -> str:
        """Write a turn as the model would, with special tokens by their names.

        Args:
            turn: The reasoning, the text and the calls. Arguments are written in the order that they have.

        Raises:
            OutputInvalid: The constraint does not allow the turn, or it would read back as another one. Examples
                are arguments that do not satisfy their schema, text before calls in a format without it, and a
                string without quotes that contains the end of its element.
        """
        text = render_turn(
            self.format,
            turn,
            self.forms,
            is_opened=self.reasoning == "opened",
            is_answer_opened=self.reasoning == "skipped",
        )
        data = list(text.encode())
        matcher = Matcher(self, Vocabulary.of_bytes())
        length = matcher.accepts(data)
        is_allowed = length == len(data) and all(map(matcher.advance, data)) and matcher.is_complete()
        if not is_allowed or self.read(text) != turn:
            raise OutputInvalid(
                f"the format {self.format.name} cannot write this turn, from byte {length}: "
                f"{text.encode()[length : length + 40]!r}",
                text=text,
                hint="Change the turn, or use a format whose arguments are JSON. structgen.Matcher(turn, "
                "vocabulary).explain(text) says why.",
            )
        return text

    def instructions(self) -> str:
        """Return the text that tells a model in which order tools must be called; empty without an order."""
        order = self.options["order"]
        return f"Answer with {self.describe()}. {in_order(order)}" if order else ""

    def find_broken_rules(self, stop: Stop, checks: list[Callable[[IR], bool]]) -> list[RuleViolation]:
        """Return the formulas of the order that forbid a text to continue, if the order is the reason."""
        given = self.options["order"]
        free = {**self.options, "order": None, "earlier": (), "max_later": None}
        if given is None or not checks[-1](tools(self.tools, **free).lower()):
            return super().find_broken_rules(stop, checks)
        alone = [str(formula) for formula in given if not self._can_continue(formula, checks[-1])]
        return [
            RuleViolation(
                "", "order", formula, message=f"must satisfy {formula}", subject="the order of calls"
            )
            for formula in alone or ["; ".join(map(str, given))]
        ]

    def _can_continue(self, formula: Any, question: Callable[[IR], bool]) -> bool:
        try:
            return question(tools(self.tools, **{**self.options, "order": formula}).lower())
        except (OptionError, UnsatisfiableFormula):  # no turn satisfies this formula
            return False


@checks_names
def tools(
    definitions: Sequence[Any],
    *,
    format: str | ToolFormat = "hermes",
    tool_choice: str = "auto",
    parallel: bool | None = None,
    max_calls: int | None = None,
    reasoning: ReasoningChoice = False,
    max_reasoning: int | None = None,
    max_reasoning_tokens: int | None = None,
    answer: Operand | None = None,
    max_text: int | None = None,
    order: OrderFormulas | None = None,
    earlier: Sequence[str | ToolCall] = (),
    max_later: int | None = None,
) -> ToolTurn:
    """Return the constraint of an assistant's turn that may call tools.

    Args:
        definitions: Tool definitions of OpenAI's API, or Python functions.
        format: The format of the model that writes the turn: a name of `structgen.tools.FORMATS`, or a `ToolFormat`.
            The default "hermes" is also Qwen's.
        tool_choice: "auto", "required" (calls at once), "none" (no calls), or the name of the one tool to call.
        parallel: Allow several calls in one turn; None allows them if the format does.
        max_calls: The most calls of the turn.
        reasoning: True if the turn starts with reasoning; "optional"; "opened" if the prompt has opened it already;
            "skipped" if the prompt has opened the answer, in a format that begins text before calls as it does answers.
        max_reasoning: The most characters of reasoning.
        max_reasoning_tokens: The most tokens of reasoning. Its markers do not count.
        answer: The type or constraint of the final answer; a turn is then this, or calls. None is free text.
        max_text: The most characters of free text; a turn with `answer` has none.
        order: What all calls of the conversation must satisfy: a formula of temporal logic on finite traces, or
        several.
            Atoms are the names of tools; each position of the trace is a call. A turn with calls leaves the formula
            satisfiable by later calls. A turn without calls, which ends the conversation, is possible only if it holds.
        earlier: The calls before this turn, or their names.
        max_later: The most calls that later turns can make. None is any number; 0 means that this turn alone must
            satisfy `order`.

    Returns:
        The constraint, which also reads finished turns.

    Raises:
        ConstraintError: A definition is invalid.
        OptionError: An option is invalid, two options conflict, or an answer with a grammar may begin as calls do.
        UnsatisfiableFormula: No calls satisfy the order. It names a smallest set of formulas in conflict.
    """
    options: dict[str, Any] = {
        "format": format,
        "tool_choice": tool_choice,
        "parallel": parallel,
        "max_calls": max_calls,
        "reasoning": reasoning,
        "max_reasoning": max_reasoning,
        "max_reasoning_tokens": max_reasoning_tokens,
        "answer": answer,
        "max_text": max_text,
        "max_later": max_later,
    }
    chosen, offered = tool_format(format), read_tools(definitions)
    _check_options(options)
    if reasoning == "skipped" and not (chosen.is_framed and chosen.say[0] == chosen.answer[0]):
        raise OptionError(
            f"no prompt can open the answer in the format {chosen.name}",
            hint="Only in formats such as kimi_k3 text before calls begins as an answer does.",
        )
    most = most_calls(chosen, parallel, max_calls, tool_choice)
    called = _called(offered, tool_choice)
    ordered = order_of(order, offered, earlier, max_later)
    options["order"] = None if ordered is None else ordered.formulas
    options["earlier"] = () if ordered is None else ordered.earlier
    if ordered is not None:
        ordered.check(most if called else 0)
    turn = TurnParts(chosen, reasoning, max_text)
    calls, rules = turn.calls(called, most) if ordered is None else turn.in_order(ordered, called, most)
    parts = _parts(turn, calls, ordered, options)
    body = sequence_of((turn.thought(max_reasoning, max_reasoning_tokens), turn.reply(parts)))
    return ToolTurn(body, offered, chosen, reasoning, rules, options, turn.forms)


def _parts(
    turn: TurnParts,
    calls: Body | None,
    ordered: Order | None,
    options: Mapping[str, Any],
) -> list[Body]:
    """Return the alternatives after the reasoning: an answer, and calls with or without text before them."""
    choice, answer = options["tool_choice"], options["answer"]
    parts: list[Body] = []
    if choice in ("auto", "none") and (ordered is None or ordered.holds):
        parts.append(turn.answer(None if answer is None else as_constraint(answer)))
    if calls is not None:
        has_text = choice == "auto" and answer is None
        parts.append(turn.preamble(calls) if has_text else turn.without_text(calls))
    if not parts:
        assert ordered is not None
        raise ordered.refused(choice)
    return parts


def _called(offered: tuple[Tool, ...], choice: str) -> tuple[Tool, ...]:
    if choice in ("auto", "required"):
        return offered
    if choice == "none":
        return ()
    named = tuple(tool for tool in offered if tool.name == choice)
    if not named:
        inner = choice.get("function") if isinstance(choice, Mapping) else None  # the form of OpenAI's API
        meant = inner.get("name") if isinstance(inner, Mapping) else None
        hint = f"It is 'auto', 'required', 'none', or one of {names_of(offered)}."
        raise OptionError(
            f"tool_choice is {choice!r:.60}, which is not a tool",
            hint=f"Write tool_choice={meant!r:.60}." if isinstance(meant, str) else hint,
        )
    return named


def most_calls(format: ToolFormat, parallel: bool | None, max_calls: int | None, choice: str) -> int | None:
    """Return the most calls of one turn; None allows any number."""
    several = format.between is not None
    if not several and (parallel or (max_calls or 1) > 1):
        raise OptionError(
            f"a turn of the format {format.name} has at most one call",
            hint="Leave out parallel and max_calls, or use another format.",
        )
    if parallel is False and (max_calls or 1) > 1:
        raise OptionError(f"max_calls is {max_calls} without parallel calls", hint="Give one of the two.")
    one = (
        not several or parallel is False or (parallel is None and max_calls is None and choice not in _MODES)
    )
    return 1 if one else max_calls


_MODES = ("auto", "required", "none")


def _check_options(options: Mapping[str, Any]) -> None:
    """Raise `OptionError` for options of a wrong type, and for bounds on parts that no turn has under the others."""
    parallel, reasoning, max_text = options["parallel"], options["reasoning"], options["max_text"]
    if parallel is not None and not isinstance(parallel, bool):
        raise OptionError(f"parallel is {parallel!r:.60}; it is True, False or None")
    if not isinstance(reasoning, bool) and reasoning not in ("optional", "opened", "skipped"):
        raise OptionError(
            f"reasoning is {reasoning!r:.60}; it is True, False, 'optional', 'opened' or 'skipped'"
        )
    for name in ("max_reasoning", "max_reasoning_tokens", "max_text", "max_calls"):
        value, least = options[name], 1 if name == "max_calls" else 0
        if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < least):
            raise OptionError(f"{name} is {value!r:.60}; it must be a whole number of {least} or more")
    for name in ("max_reasoning", "max_reasoning_tokens"):
        if options[name] is not None and reasoning in (False, "skipped"):
            raise OptionError(
                f"{name} is {options[name]} without reasoning",
                hint=f"Give reasoning=True, 'optional' or 'opened', too, or leave out {name}.",
            )
    if max_text is not None and options["answer"] is not None:
        raise OptionError(
            f"max_text is {max_text}, but with answer= there is no free text",
            hint="Bound the answer in its own constraint, and leave out max_text.",
        )
