"""What is drafted, how it is verified and how much is read; and what has been learned about it.

What: a `Speculation` says which drafters, verifier and controller there are, and keeps what they learn from one request
to the next: chances, costs, texts. `start` gives the drafts of one generation (`run`).
"""

from __future__ import annotations

import copy
import pickle
import threading
from collections import Counter
from collections.abc import Sequence
from typing import Any

from structgen.argument_names import checks_names_of_init
from structgen.errors import OptionError, VocabularyMismatch, a_kind

from .checks import check_whole
from .controllers import Controller, Costs, Goodput
from .drafters import Copying, Drafter, ForcedBytes, RowDrafter, Start, TokenLookup
from .growth import Chances, Tallies
from .guarded import Account, started
from .recycling import SuffixStore
from .run import Run
from .verifiers import Match, Verifier

__all__ = ["Speculation"]

_SHOWN = 12
"""Of so many kinds of guesses a report tells."""


@checks_names_of_init
class Speculation:
    """How tokens are drafted, and what has been learned about it: for `speculate=`.

    drafters     what proposes tokens; by default `ForcedBytes`, `Copying`, `TokenLookup` and a `SuffixStore`
    verifier     how drafted tokens are taken; `Match`, the default, draws the very tokens that would be drawn without
    controller   how many are read; `Goodput`, the default, reads what pays, and nothing where nothing does
    branching    trees in place of chains, where the model can read them
    depth        the most tokens ahead
    width        how many children are drawn at a node, where the verifier takes several

    One object serves one vocabulary, and any number of requests: the more it has seen, the better it guesses.
    """

    def __init__(
        self,
        drafters: Sequence[Drafter] | None = None,
        verifier: Verifier | None = None,
        controller: Controller | None = None,
        *,
        branching: bool = False,
        depth: int = 20,
        width: int = 3,
    ) -> None:
        self.drafters: tuple[Drafter, ...] = _drafters(drafters)
        self.verifier: Verifier = Match() if verifier is None else verifier
        self.controller: Controller = Goodput() if controller is None else controller
        self.branching = branching
        self.depth = depth
        self.width = width
        self.costs = Costs()
        self.chances: dict[bool | str, Chances] = {True: Chances(), False: Chances()}
        """Of constrained rows and of free ones; and of each sampler, by its name."""
        self.counts: Counter[str] = Counter()
        self.tallies = Tallies()
        self.accounts = [Account(type(drafter).__name__) for drafter in self.drafters]
        """Of each drafter, if it may be slow or fail."""
        self.lock = threading.Lock()
        """What is learned is shared by the generations of several threads."""
        self._vocabulary: str | None = None
        _check(self)

    def start(self, model: Any, *, told: bool = True) -> Run:
        """The drafts of one generation. `told`: whether there is a warning where the model cannot have any."""
        self.check_vocabulary(model)
        return Run(self, model, told=told)

    def readers(self, start: Start) -> list[RowDrafter]:
        """What the drafters read a row with that begins so."""
        return [
            started(drafter, start, account)
            for drafter, account in zip(self.drafters, self.accounts, strict=True)
        ]

    def kept(
        self,
        reach: Sequence[Sequence[float]],
        pending: Sequence[int],
        costs: Costs,
        ahead: Sequence[int] = (),
    ) -> list[int]:
        """How many nodes of each tree are read, by the controller, which may be anybody's."""
        name = type(self.controller).__name__
        try:
            found = [int(number) for number in self.controller.keep(reach, pending, costs, ahead)]
        except Exception as error:
            raise OptionError(
                f"the controller {name} failed: {type(error).__name__}: {error}",
                hint="It has keep(reach, pending, costs, ahead), which gives a whole number for each row.",
            ) from error
        if len(found) != len(reach):
            raise OptionError(f"the controller {name} told {len(found)} numbers for {len(reach)} rows")
        return [max(0, min(number, len(one))) for number, one in zip(found, reach, strict=True)]

    def check_vocabulary(self, model: Any) -> None:
        """It has learned tokens of this model's vocabulary, or none so far."""
        fingerprint = model.vocabulary.fingerprint
        if self._vocabulary is None:
            self._vocabulary = fingerprint
        if self._vocabulary != fingerprint:
            raise VocabularyMismatch(
                "this Speculation has learned tokens of another vocabulary",
                hint="Make one for each model: structgen.Speculation().",
            )

    def report(self) -> str:
        """What was drafted and taken so far, in words; docs/speculation.md says how to read it."""
        counts = self.counts
        passes, drafted, taken = counts["passes"], counts["drafted"], counts["taken"]
        lines = [
            f"{counts['rows']} texts, {counts['tokens']} tokens in {passes} passes; {drafted} drafted, {taken} taken"
            + (f" ({taken / drafted:.0%})" if drafted else "")
            + f"; {counts['without']} of {counts['steps']} times there was no draft"
        ]
        if counts["declined"]:
            lines.append(f"{counts['declined']} generations without: the model cannot take tokens back")
        lines += [str(account) for account in self.accounts if account.seconds or account.failed]
        kinds = sorted(self.tallies.known.items(), key=lambda one: (-one[1][2], -one[1][0], one[0]))
        if kinds:
            lines.append("guesses by kind, those first of which most were taken:")
        for kind, (guessed, right, taken_) in kinds[:_SHOWN]:
            lines.append(f"  {kind}: {guessed} guessed, {right / guessed:.0%} right, {taken_} taken")
        if len(kinds) > _SHOWN:
            lines.append(f"  and {len(kinds) - _SHOWN} other kinds")
        for rows, table in sorted(self.costs.known.items()):
            told = ", ".join(f"{tokens}: {seconds * 1e3:.1f}" for tokens, seconds in sorted(table.items()))
            lines.append(f"milliseconds of a pass by the tokens of a row, {_side_by_side(rows)}: {told}")
        return "\n".join(lines)

    def __getstate__(self) -> bytes:
        """All but the lock, which belongs to this process; pickled while nobody else writes to it."""
        with self.lock:
            return pickle.dumps(self._state())

    def __setstate__(self, state: bytes) -> None:
        self.__dict__.update(pickle.loads(state))
        self.lock = threading.Lock()

    def __deepcopy__(self, memo: dict[int, Any]) -> Speculation:
        found = object.__new__(type(self))
        with self.lock:
            found.__dict__.update(copy.deepcopy(self._state(), memo))
        found.lock = threading.Lock()
        return found

    def _state(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "lock"}


def _side_by_side(rows: int) -> str:
    return "one text" if rows == 1 else f"{rows} texts side by side"


def _drafters(given: Any) -> tuple[Drafter, ...]:
    if given is None:
        return ForcedBytes(), Copying(), TokenLookup(), SuffixStore()
    if hasattr(given, "start") or isinstance(given, str | bytes):
        raise OptionError(f"drafters is {a_kind(given)}", hint="Give a list of drafters: [ForcedBytes()].")
    try:
        return tuple(given)
    except TypeError:
        raise OptionError(
            f"drafters is {a_kind(given)}", hint="Give a list of drafters: [ForcedBytes()]."
        ) from None


def _check(speculation: Speculation) -> None:
    for drafter in speculation.drafters:
        if isinstance(drafter, type):
            raise OptionError(f"a drafter is the class {drafter.__name__}", hint=f"{drafter.__name__}()")
        if not hasattr(drafter, "start"):
            raise OptionError(f"a drafter has `start`; this is {a_kind(drafter)}")
    if not isinstance(speculation.branching, bool):
        raise OptionError(f"branching is {speculation.branching!r:.40}; it must be True or False")
    for name, value, method in (
        ("verifier", speculation.verifier, "outcome"),
        ("controller", speculation.controller, "keep"),
    ):
        if isinstance(value, type):
            raise OptionError(f"the {name} is the class {value.__name__}", hint=f"{value.__name__}()")
        if not hasattr(value, method):
            raise OptionError(f"a {name} has `{method}`; this is {a_kind(value)}")
    if not hasattr(speculation.verifier, "drafted"):
        raise OptionError(
            f"the verifier {type(speculation.verifier).__name__} has no `drafted`",
            hint='It says which drafts it is exact for: "any", "one", "distinct", "independent" or "greedy".',
        )
    for name, number in (("depth", speculation.depth), ("width", speculation.width)):
        check_whole(name, number)
    check_whole("the controller's size", getattr(speculation.controller, "size", None))
    tells = any(getattr(drafter, "tells_laws", False) for drafter in speculation.drafters)
    if speculation.verifier.drafted != "any" and not tells:
        raise OptionError(
            f"{type(speculation.verifier).__name__} verifies draws from a law, and no drafter here has a law",
            hint="TriGrams, LogitNGrams, TokenRecycling, DraftModel and LayerSkip have; Match() takes any draft.",
        )
