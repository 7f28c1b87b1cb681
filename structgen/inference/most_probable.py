"""`beam`: the most probable texts under a constraint, by beam search."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from structgen.api import check_model
from structgen.argument_names import checks_names
from structgen.brief import brief, short_repr
from structgen.errors import DeadEnd, LimitExceeded, OptionError, OutputInvalid
from structgen.generation.options import SamplingOptions
from structgen.generation.potentials import Condition, Potential, Product
from structgen.inference.beam_search import Beam, beam_search
from structgen.inference.drawing import Task
from structgen.inference.prefixes import PrefixBatch
from structgen.inference.requests import (
    is_number,
    limits_of,
    open_request,
    output_text,
    unknown_option,
    whole_number,
)
from structgen.notebook import card, plain, table
from structgen.progress import ProgressBar
from structgen.types import OutputType, output_type

if TYPE_CHECKING:
    from structgen.protocols import LanguageModel, Prompt

__all__ = ["Found", "FoundTexts", "beam"]


@short_repr
@dataclass(frozen=True)
class Found:
    """A text that beam search found."""

    text: str
    value: Any
    """The parsed value; None if the output type's own validators reject the text."""
    log_prob: float
    """log P of the text, summed over all tokenizations and ends that the search found."""
    score: float
    """log_prob / (number of tokens, end included) ** length penalty."""
    group: int


class FoundTexts(list[Found]):
    """The texts that beam search found, the best first."""

    stopped: str | None = None
    """The limit that ended the search, if one did: there may be better texts then."""

    def __repr__(self) -> str:
        best = f", best {brief(self[0].text)} with log probability {self[0].log_prob:.2f}" if self else ""
        return f"<{len(self)} texts{best}{self._ended()}>"

    def _repr_html_(self, rows: int = 20) -> str:
        cells = [
            (f"{found.log_prob:.2f}", f"{found.score:.2f}", str(found.group), plain(found.text, 300))
            for found in self
        ]
        more = [f"<i>{len(self) - rows:,} more texts</i>"] if len(self) > rows else []
        about = f"{len(self)} texts, best first{self._ended()}"
        return card("Beams", about, table(("log p", "score", "group", "text"), cells[:rows]), *more)

    def _ended(self) -> str:
        return f", stopped by {self.stopped}" if self.stopped else ""


# The signature and the checks of its options make this function long.
@checks_names
def beam(
    model: LanguageModel,
    prompt: Prompt,
    output: Any = str,
    *,
    width: int = 8,
    groups: int = 1,
    diversity: float = 0.5,
    length_penalty: float = 0.0,
    max_tokens: int = 512,
    describe: bool = False,
    max_seconds: float | None = None,
    max_calls: int | None = None,
    cancel: Callable[[], bool] | None = None,
    progress: bool = False,
    **refused: Any,
) -> FoundTexts:
    """Find the most probable texts of `output` by beam search.

    Args:
        model: The language model.
        prompt: A text or messages.
        output: A constraint or a type, as in `generate`.
        width: The number of texts that grow in parallel, and the largest number of results.
        groups: The number of groups that search for themselves.
        diversity: The cost, in log probability, of a token for each earlier group that chose it in the same step.
        length_penalty: A text's score is its log probability over its length to this power.
        max_tokens: The largest number of tokens of a text.
        describe: Whether to describe the type in the prompt.
        max_seconds: A limit of time; the search ends with what was found.
        max_calls: A limit of next-token distributions; likewise.
        cancel: Called at each step; True ends the search, likewise.
        progress: Whether to show a bar (tqdm).

    Returns:
        The best texts found, the best first.

    Raises:
        DeadEnd: No text ends within `max_tokens`.
        LimitExceeded: A limit was met before a text was found.
        OptionError: An argument is not valid.
    """
    check_model(model, "beam()")
    if refused:
        raise unknown_option(next(iter(refused)), beam)
    width, groups = whole_number("width", width, 1), whole_number("groups", groups, 1)
    if groups > width:
        raise OptionError(
            f"groups={groups} is more than width={width}", hint="Each group needs at least one text."
        )
    for name, value in (("diversity", diversity), ("length_penalty", length_penalty)):
        if not is_number(value) or not 0 <= value < 1e6:
            raise OptionError(f"{name} is {value!r:.40}; it must be a number of 0 or more")
    limits = limits_of(max_seconds, max_calls, None, cancel)
    options = SamplingOptions(max_tokens=max_tokens)
    if isinstance(output, Potential | Product):
        raise OptionError("beam search takes no potentials", hint="structgen.sample(...) does.")
    kind = output_type(output)
    ids, matcher, room = open_request(model, prompt, kind, describe=describe, max_tokens=options.max_tokens)
    task = Task(model, ids, matcher, Condition(), 1.0, room, (0,), limits)
    if task.limit_reached():
        raise _stopped(task)
    batch = PrefixBatch(model, ids)
    with ProgressBar(room, "beam", progress) as bar:

        def limit_reached() -> bool:
            task.account.calls, task.account.passes = batch.calls, batch.passes
            bar.advance()
            return task.limit_reached()

        beams = beam_search(
            batch,
            matcher,
            width=width,
            groups=groups,
            diversity=diversity if groups > 1 else 0.0,
            length_penalty=length_penalty,
            max_tokens=room,
            stops=limit_reached,
        )
    if not beams and task.account.stopped is not None:
        raise _stopped(task)
    if not beams:
        raise DeadEnd(
            f"beam search found no text of at most {room} tokens", text="", hint="Raise max_tokens, or width."
        )
    texts = FoundTexts(_found(model, kind, ended) for ended in beams)
    texts.stopped = task.account.stopped
    return texts


def _stopped(task: Task) -> LimitExceeded:
    account = task.account
    error = LimitExceeded(
        f"beam search found no text within {account.stopped}: {account.calls} model calls, {account.seconds:.1f} s",
        limit=account.stopped or "",
        hint=None if account.stopped == "cancel" else "Raise it.",
    )
    error.account = account
    return error


def _found(model: LanguageModel, kind: OutputType, beam: Beam) -> Found:
    text = output_text(model, kind, beam.tokens)
    try:
        value = kind.validate(text)
    except OutputInvalid:
        value = None
    return Found(text, value, beam.log_prob, beam.score, beam.group)
