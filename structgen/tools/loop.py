"""The loop: ask, read the calls, run them, tell the model what they gave, until it answers.

What: each round is one generation under the constraint of a turn. Arguments are validated against the tool before it is
run. After `max_rounds` rounds with calls a last one without them must answer, so the loop ends.
Invariant: a call that is run is one that its tool takes; what a function raises is told to the model as the result of
the call, and noted. Where calls have an order, each round begins where the calls before it have led, and is told how
many calls later rounds can make: so the conversation never ends against the order, nor comes to where it would have to.
The same seed draws the same conversation, as far as the functions are repeatable.
Cost: a generation a round; a round reads the whole conversation again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from structgen import api
from structgen.brief import short_repr
from structgen.constraints.base import Constraint
from structgen.errors import OptionError, OutputInvalid, PromptError
from structgen.notebook import card, plain, table
from structgen.results import Result
from structgen.sampling.options import make_options

from .definitions import Tool, ToolCall, read_tools
from .formats import ToolFormat, tool_format
from .order import Order, OrderFormulas, formulas_of, order_of
from .prompting import instructions
from .reading import AssistantTurn
from .turn import ReasoningChoice, most_calls, tools

if TYPE_CHECKING:
    from structgen.models.base import LanguageModel, Prompt

__all__ = ["CallResult", "Conversation", "Round", "run_tools"]

Execute = Callable[[ToolCall], Any]


@short_repr
@dataclass(frozen=True)
class CallResult:
    """A call that was run."""

    call: ToolCall
    value: Any = None
    """What the function returned."""
    error: Exception | None = None
    """What it raised."""

    @property
    def content(self) -> str:
        """What the model is told."""
        if self.error is not None:
            return json.dumps({"error": f"{type(self.error).__name__}: {self.error}"}, ensure_ascii=False)
        return (
            self.value
            if isinstance(self.value, str)
            else json.dumps(self.value, ensure_ascii=False, default=str)
        )


@short_repr
@dataclass(frozen=True)
class Round:
    """One turn of the model, and what its calls gave."""

    turn: AssistantTurn
    results: tuple[CallResult, ...]
    generation: Result[str]


@short_repr
@dataclass
class Conversation:
    """What `run_tools` gives back."""

    messages: list[dict[str, Any]]
    """All of it, as the model was shown it; the answer is the last one."""
    rounds: list[Round] = field(default_factory=list)

    def _repr_html_(self) -> str:
        rows = [
            (f"<b>{plain(str(one.get('role', '')))}</b>", plain(str(one.get("content", "")), 600))
            for one in self.messages
        ]
        calls = len(self.results)
        return card("Conversation", f"{len(self.rounds)} rounds, {calls} calls", table(("", ""), rows))

    @property
    def answer(self) -> str:
        """The text of the last turn."""
        return self.rounds[-1].turn.text

    @property
    def results(self) -> list[CallResult]:
        """Every call that was run, in order."""
        return [result for one in self.rounds for result in one.results]


def run_tools(
    model: LanguageModel,
    prompt: Prompt,
    definitions: Sequence[Any],
    *,
    format: str | ToolFormat = "hermes",
    tool_choice: str = "auto",
    parallel: bool | None = None,
    max_calls: int | None = None,
    reasoning: ReasoningChoice = False,
    max_reasoning: int | None = None,
    answer: Constraint | str | None = None,
    max_text: int | None = None,
    order: OrderFormulas | None = None,
    earlier: Sequence[str | ToolCall] = (),
    max_rounds: int = 4,
    describe: bool = True,
    execute: Execute | None = None,
    **options: Any,
) -> Conversation:
    """Let the model call tools until it answers.

    The options before `max_rounds` are those of `structgen.tools`; `tool_choice` is that of the first round, later
    ones are "auto", and the one after `max_rounds` is "none". `order` holds for the calls of all rounds, after those in
    `earlier`, which the prompt tells of: the answer comes only when it does, and if `max_rounds` rounds are too few for
    it, that is an error before anything is generated. A call counts when it is made, whatever its function raises.
    `describe` tells the model of the tools, and of their order, in the system message. `execute` runs calls of tools
    that are definitions without a function. The other options are those of `SamplingOptions`. Raises what
    `structgen.generate` raises where a turn does not come to its end.
    """
    if not isinstance(max_rounds, int) or isinstance(max_rounds, bool) or max_rounds < 0:
        raise OptionError(f"max_rounds is {max_rounds!r:.60}; it must be a whole number of 0 or more")
    api.check_model(model)
    chosen, offered = tool_format(format), read_tools(definitions)
    _check_can_run(offered, execute)
    options.setdefault("exact_weight", False)
    sampling = make_options(options)
    formulas = [] if order is None else formulas_of(order)
    told = instructions(offered, chosen, formulas) if describe else ""
    conversation = Conversation(_messages(prompt, told))
    choice, called = tool_choice, earlier
    most = most_calls(chosen, parallel, max_calls, "auto")
    for number in range(max_rounds + 1):
        max_later = None if order is None else _later(max_rounds - number - 1, most)
        turn = tools(
            offered,
            format=chosen,
            tool_choice=choice if number < max_rounds else "none",
            parallel=parallel,
            max_calls=max_calls,
            reasoning=reasoning,
            max_reasoning=max_reasoning,
            answer=answer,
            max_text=max_text,
            order=order,
            earlier=called,
            max_later=max_later,
        )
        seeded = options if sampling.seed is None else {**options, "seed": _seed(sampling.seed, number)}
        result: Result[str] = api.run(model, list(conversation.messages), turn, **seeded)
        if result.error is not None:
            raise result.error
        text = result.text if api.answers_itself(model) else model.vocabulary.spelled(result.tokens)
        read = turn.read(text)
        if order is not None and read.calls:
            called = [*called, *read.calls]
            _check_order(order_of(order, offered, called, max_later), text)
        results = tuple(_run(call, offered, execute) for call in read.calls)
        conversation.rounds.append(Round(read, results, result))
        conversation.messages.append({"role": "assistant", "content": text})
        conversation.messages += [_told(chosen, result) for result in results]
        if not results:
            break
        choice = "auto"
    return conversation


def _later(rounds: int, most: int | None) -> int | None:
    """How many calls so many rounds can make, of `most` each; None: any number."""
    return 0 if rounds <= 0 else None if most is None else rounds * most


def _check_order(reached: Order | None, text: str) -> None:
    """What reads as calls is not run against the order: an `answer` may be such a text in formats without markers."""
    assert reached is not None
    if reached.is_broken or not reached.may_end(reached.here):
        raise OutputInvalid(
            f"the answer reads as a call that is against the order {reached.shown()}",
            text=text,
            hint="Use a format whose calls have markers, or an `answer` that cannot be a call.",
        )


def _run(call: ToolCall, offered: Sequence[Tool], execute: Execute | None) -> CallResult:
    tool = next(tool for tool in offered if tool.name == call.name)
    ready = tool.validate(call.arguments)
    try:
        if callable(ready):
            return CallResult(call, ready())
        assert execute is not None
        return CallResult(call, execute(call))
    except Exception as error:  # a tool may raise anything; the model is told, and the caller sees it
        return CallResult(call, error=error)


def _told(format: ToolFormat, result: CallResult) -> dict[str, Any]:
    content = format.result.replace("$name", result.call.name).replace("$result", result.content)
    return {"role": format.result_role, "name": result.call.name, "content": content}


def _messages(prompt: Prompt, told: str) -> list[dict[str, Any]]:
    """The prompt as messages; what is told of the tools goes into the system message."""
    if isinstance(prompt, str):
        messages = [{"role": "user", "content": prompt}]
    else:
        messages = [dict(message) for message in prompt if isinstance(message, Mapping)]
        if not messages or len(messages) < len(prompt):
            raise PromptError(
                f"a prompt is a text or a list of messages, not {prompt!r:.60}",
                hint='Messages look like {"role": "user", "content": "..."}.',
            )
    if told and messages[0].get("role") == "system":
        messages[0] = {**messages[0], "content": f"{messages[0].get('content', '')}\n\n{told}"}
    elif told:
        messages.insert(0, {"role": "system", "content": told})
    return messages


def _check_can_run(offered: Sequence[Tool], execute: Execute | None) -> None:
    for tool in offered:
        if tool.function is None and execute is None:
            raise OptionError(
                f"the tool {tool.name} has no function that could be run",
                hint="Give Python functions, or execute=, which is called with each ToolCall.",
            )


def _seed(seed: Any, number: int) -> tuple[int, ...]:
    parts = tuple(seed) if isinstance(seed, (tuple, list)) else (seed,)
    return (*parts, number)
