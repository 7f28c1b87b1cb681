"""Check that no answer may begin as a call does, for constraints of answers that are not regular.

Why: a regular answer is intersected with the texts that contain no marker of the format. A grammar cannot be, so an
answer of one that may begin with a call's beginning is refused: the parser would read it as a call.
Cost: one compilation of the answer's constraint, and a few texts of the length of a call's beginning.
"""

from __future__ import annotations

from structgen.constraints.base import Constraint
from structgen.errors import OptionError
from structgen.matcher import Matcher
from structgen.vocabulary import Vocabulary

from .format_texts import ToolFormat
from .partial_turn import MOST_LINES

__all__ = ["check_beginnings"]


def check_beginnings(
    answer: Constraint, format: ToolFormat, *, reasons: bool, optional: bool, is_opened: bool = False
) -> None:
    """Raise `OptionError` if a text of the answer may begin as calls or the reasoning of the turn do.

    Args:
        answer: The constraint of the answer.
        format: How calls are written.
        reasons: Reasoning may come before the answer. The line ends after it may belong to either.
        optional: The reasoning may be missing.
        is_opened: The prompt has opened the answer, or the text before calls.
    """
    if format.is_framed and not (format.says_always or is_opened):
        return  # the answer is after a marker of its own
    has_lines = reasons and not format.marks_answers
    lines = ["\n" * count for count in range(MOST_LINES + 1 if has_lines else 1)]
    # With `at_start` the parser waits for the end of the turn: a text that is no whole call is an answer.
    begins = [] if format.at_start else [line + format.opening for line in lines]
    if format.is_framed:  # an empty text before calls has the same marker as the answer
        begins = [format.say[1] + format.opening] if format.say[0] == format.answer[0] else []
    elif optional and format.think[0] and not format.reply[0]:
        begins.append(format.think[0])
    if not begins:
        return
    matcher = Matcher(answer, Vocabulary.of_bytes())
    for begin in begins:
        data = list(begin.encode())
        if matcher.accepts(data) == len(data):
            raise OptionError(
                f"the answer may begin with {begin!r:.80}, as a call or the reasoning in the format {format.name} does",
                hint="Change the grammar of the answer so that none of its texts begins so, or use another format.",
            )
