"""What is drafted, how it is verified and how much is read; and what has been learned about it.

What: a `Speculation` says which drafters, verifier and controller there are, and keeps what they learn from one request
to the next: chances, costs, texts. `start` gives the drafts of one generation (`run`).
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from typing import Any

from structgen.errors import OptionError, VocabularyMismatch, a_kind

from .controllers import Controller, Costs, Goodput
from .drafters import Copying, Drafter, ForcedBytes, TokenLookup
from .growth import Chances
from .recycling import SuffixStore
from .run import Run
from .verifiers import Match, Verifier

__all__ = ["Speculation"]


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
        self.drafters: tuple[Drafter, ...] = (
            (ForcedBytes(), Copying(), TokenLookup(), SuffixStore()) if drafters is None else tuple(drafters)
        )
        self.verifier: Verifier = Match() if verifier is None else verifier
        self.controller: Controller = Goodput() if controller is None else controller
        self.branching = branching
        self.depth = depth
        self.width = width
        self.costs = Costs()
        self.chances: dict[bool | str, Chances] = {True: Chances(), False: Chances()}
        """Of constrained rows and of free ones; and of each sampler, by its name."""
        self.counts: Counter[str] = Counter()
        self.lock = threading.Lock()
        """What is learned is shared by the generations of several threads."""
        self._vocabulary: str | None = None
        _check(self)

    def start(self, model: Any, *, told: bool = True) -> Run:
        """The drafts of one generation. `told`: whether there is a warning where the model cannot have any."""
        self.check_vocabulary(model)
        return Run(self, model, told=told)

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
        """What was drafted and taken so far, in words."""
        counts = self.counts
        passes, drafted, taken = counts["passes"], counts["drafted"], counts["taken"]
        lines = [
            f"{counts['tokens']} tokens in {passes} passes of {counts['rows']} rows; {drafted} drafted, {taken} taken"
            + (f" ({taken / drafted:.0%})" if drafted else "")
            + f"; {counts['without']} passes had no draft"
        ]
        if counts["declined"]:
            lines.append(f"{counts['declined']} generations without: the model cannot take tokens back")
        for rows, table in sorted(self.costs.known.items()):
            told = ", ".join(f"{tokens}: {seconds * 1e3:.1f}" for tokens, seconds in sorted(table.items()))
            lines.append(f"milliseconds of a pass by tokens, {rows} row{'s' * (rows > 1)}: {told}")
        return "\n".join(lines)

    def __getstate__(self) -> dict[str, Any]:
        """All but the lock, which belongs to this process."""
        return {name: value for name, value in self.__dict__.items() if name != "lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.lock = threading.Lock()


def _check(speculation: Speculation) -> None:
    for drafter in speculation.drafters:
        if isinstance(drafter, type) or not hasattr(drafter, "start"):
            raise OptionError(f"a drafter has `start`; this is {a_kind(drafter)}")
    for name, value, method in (
        ("verifier", speculation.verifier, "outcome"),
        ("controller", speculation.controller, "keep"),
    ):
        if isinstance(value, type) or not hasattr(value, method):
            raise OptionError(f"a {name} has `{method}`; this is {a_kind(value)}")
    for name, number in (("depth", speculation.depth), ("width", speculation.width)):
        if not isinstance(number, int) or isinstance(number, bool) or not 1 <= number <= 256:
            raise OptionError(f"{name} is {number!r:.40}; it must be a whole number from 1 to 256")
    tells = any(getattr(drafter, "tells_laws", False) for drafter in speculation.drafters)
    if speculation.verifier.drafted != "any" and not tells:
        raise OptionError(
            f"{type(speculation.verifier).__name__} verifies draws from a law, and no drafter here has a law",
            hint="TriGrams, LogitNGrams, TokenRecycling, DraftModel and LayerSkip have; Match() takes any draft.",
        )
