"""The configuration of speculative decoding, and what it has learned.

What: a `Speculation` has drafters, a verifier and a controller. It keeps what they learn from one request to the next:
acceptance rates, durations of forward passes, texts. `start` makes the drafts of one generation (`generation_drafts`).
"""

from __future__ import annotations

import copy
import pickle
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from structgen.argument_names import checks_names_of_init
from structgen.errors import OptionError, VocabularyMismatch, a_kind

from .checks import check_whole
from .controllers import Controller, Costs, Goodput
from .drafters import Copying, Drafter, ForcedBytes, RowDrafter, Start, TokenLookup
from .generation_drafts import GenerationDrafts
from .growth import Chances, Tallies
from .guarded import DrafterRecord, reads_hidden_states, start_guarded
from .lossy import LossyVerifier, check_is_allowed, is_lossy
from .recycling import SuffixStore
from .verifiers import Match, Verifier

if TYPE_CHECKING:
    from structgen.protocols import LanguageModel

__all__ = ["Speculation"]

_SHOWN_KINDS = 12
"""The largest number of kinds of proposals in a report, and of drafters."""


@checks_names_of_init
class Speculation:
    """How tokens are drafted, verified and counted: a value of the option `speculate`.

    One object serves one vocabulary, and any number of requests and threads. Drafts get better with each request.

    Args:
        drafters: Propose tokens; by default `ForcedBytes`, `Copying`, `TokenLookup` and a `SuffixStore`.
        verifier: Accepts draft tokens. `Match`, the default, draws exactly the tokens that are drawn without drafts.
        controller: Decides how many draft tokens are read. `Goodput`, the default, maximises tokens per second.
        branching: Whether to draft trees instead of chains, if the session reads trees. None: trees if a drafter is a
            learned one (it declares `hidden_layers`), because its second choice is often right, and the verifier is
            `Match` or another one that takes any draft.
        depth: The largest number of tokens of a draft path.
        width: The number of children drawn at a node, if the verifier accepts several.
        allow_lossy: Whether the verifier may change the distribution of the texts (`TypicalAcceptance`, `Judge`). The
            constraint holds. Generations say so (`is_lossy`), and have no log weight.

    Raises:
        OptionError: An argument is not valid.
    """

    def __init__(
        self,
        drafters: Sequence[Drafter] | None = None,
        verifier: Verifier | LossyVerifier | None = None,
        controller: Controller | None = None,
        *,
        branching: bool | None = None,
        depth: int = 20,
        width: int = 3,
        allow_lossy: bool = False,
    ) -> None:
        self.drafters: tuple[Drafter, ...] = _drafters(drafters)
        self.verifier: Verifier | LossyVerifier = Match() if verifier is None else verifier
        self.controller: Controller = Goodput() if controller is None else controller
        self.branching = _prefers_trees(self) if branching is None else branching
        self.depth = depth
        self.width = width
        self.allow_lossy = allow_lossy
        self.costs = Costs()
        self.chances: dict[bool | str, Chances] = {True: Chances(), False: Chances()}
        """By constrained rows (True), free rows (False), and each sampler's name."""
        self.counts: Counter[str] = Counter()
        self.reached: Counter[int] = Counter()
        """How many drafts had a token at each position after the row's end, where all before it were accepted."""
        self.right: Counter[int] = Counter()
        """How many of these tokens were accepted."""
        self.tallies = Tallies()
        self.records = [DrafterRecord.of(drafter) for drafter in self.drafters]
        """What each drafter costs and brings."""
        self.lock = threading.Lock()
        """Guards what is learned, which the generations of several threads share."""
        self._vocabulary: str | None = None
        _check(self)

    def start(self, model: Any, *, warns: bool = True) -> GenerationDrafts:
        """Return the drafts of one generation. `warns`: whether to warn if the session cannot have any."""
        self.check_vocabulary(model)
        check_is_allowed(self.verifier, allow_lossy=self.allow_lossy)  # it may have been replaced
        return GenerationDrafts(self, model, warns=warns)

    def start_row_drafters(self, start: Start, *, with_states: bool = True) -> list[RowDrafter]:
        """Start each drafter on a row. `with_states`: whether the row has hidden states; some drafters need them."""
        return [
            start_guarded(drafter, start, record)
            for drafter, record in zip(self.drafters, self.records, strict=True)
            if with_states or not reads_hidden_states(drafter)
        ]

    def nodes_to_read(
        self,
        reach: Sequence[Sequence[float]],
        pending: Sequence[int],
        costs: Costs,
        leads: Sequence[int] = (),
    ) -> list[int]:
        """Return how many nodes of each tree are read. The controller may be a user's own class."""
        name = type(self.controller).__name__
        try:
            counts = [int(number) for number in self.controller.keep(reach, pending, costs, leads)]
        except Exception as error:
            raise OptionError(
                f"the controller {name} failed: {type(error).__name__}: {error}",
                hint="It has keep(reach, pending, costs, leads), which returns a whole number for each row.",
            ) from error
        if len(counts) != len(reach):
            raise OptionError(f"the controller {name} returned {len(counts)} numbers for {len(reach)} rows")
        return [max(0, min(number, len(chances))) for number, chances in zip(counts, reach, strict=True)]

    @property
    def min_chance(self) -> float | None:
        """The probability below which the controller wants no draft token, if it says so (`least`)."""
        return getattr(self.controller, "least", None)  # the controller may be a user's own class

    @property
    def weighs_drafters(self) -> bool:
        """Whether drafters that cost more than they bring are paused, if the controller says so."""
        return bool(getattr(self.controller, "weighs_drafters", False))

    def check_vocabulary(self, model: LanguageModel) -> None:
        """Raise `VocabularyMismatch` if this object has learned tokens of another vocabulary."""
        fingerprint = model.vocabulary.fingerprint
        if self._vocabulary is None:
            self._vocabulary = fingerprint
        if self._vocabulary != fingerprint:
            raise VocabularyMismatch(
                "this Speculation has learned tokens of another vocabulary",
                hint="Make one for each model: structgen.Speculation().",
            )

    def report(self) -> str:
        """Return a summary of what was drafted and accepted so far; docs/speculation.md explains it."""
        counts = self.counts
        passes, drafted, accepted = counts["passes"], counts["drafted"], counts["accepted"]
        lines = [
            f"{counts['rows']} texts, {counts['tokens']} tokens in {passes} passes; "
            f"{drafted} drafted, {accepted} accepted"
            + (f" ({accepted / drafted:.0%})" if drafted else "")
            + f"; no draft in {counts['without']} of {counts['steps']} steps"
        ]
        if is_lossy(self.verifier):
            name = type(self.verifier).__name__
            lines.append(f"lossy: tokens accepted by {name} do not have the model's distribution")
        if counts["unsupported"]:
            lines.append(f"{counts['unsupported']} generations without drafts: the session cannot be cropped")
        lines += [str(record) for record in self.records if record.seconds or record.failed]
        lines += _listed(
            "proposals by drafter; a token that several proposed counts for each of them:",
            self.tallies.by_drafter,
            "drafters",
        )
        lines += _listed("proposals by kind, in the order of accepted tokens:", self.tallies.known, "kinds")
        for rows, table in sorted(self.costs.known.items()):
            listed = ", ".join(f"{tokens}: {seconds * 1e3:.1f}" for tokens, seconds in sorted(table.items()))
            lines.append(f"milliseconds of a pass by the tokens of a row, {_rows_in_pass(rows)}: {listed}")
        return "\n".join(lines)

    def __getstate__(self) -> bytes:
        """Return all but the lock, pickled under the lock, which belongs to this process."""
        with self.lock:
            return pickle.dumps(self._state())

    def __setstate__(self, state: bytes) -> None:
        self.__dict__.update(pickle.loads(state))
        self.lock = threading.Lock()

    def __deepcopy__(self, memo: dict[int, Any]) -> Speculation:
        copied = object.__new__(type(self))
        with self.lock:
            copied.__dict__.update(copy.deepcopy(self._state(), memo))
        copied.lock = threading.Lock()
        return copied

    def _state(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "lock"}


def _listed(title: str, known: Mapping[str, Sequence[int]], what: str) -> list[str]:
    """Return lines with counts of proposals, in the order of accepted tokens."""
    if not known:
        return []
    ordered = sorted(known.items(), key=lambda item: (-item[1][2], -item[1][0], item[0]))
    lines = [title]
    for name, (guessed, right, accepted) in ordered[:_SHOWN_KINDS]:
        lines.append(f"  {name}: {guessed} proposed, {right / guessed:.0%} right, {accepted} accepted")
    if len(ordered) > _SHOWN_KINDS:
        lines.append(f"  and {len(ordered) - _SHOWN_KINDS} other {what}")
    return lines


def _rows_in_pass(rows: int) -> str:
    return "one text" if rows == 1 else f"{rows} texts in a batch"


def _prefers_trees(speculation: Speculation) -> bool:
    """Return whether a drafter is a learned one, and the verifier takes any tree and reads no hidden states itself."""
    verifier: Any = speculation.verifier
    return (
        getattr(verifier, "drafted", "") == "any"
        and not hasattr(verifier, "hidden_layers")
        and any(hasattr(drafter, "hidden_layers") for drafter in speculation.drafters)
    )


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
            raise OptionError(
                f"a drafter is the class {drafter.__name__}, not an instance", hint=f"{drafter.__name__}()"
            )
        if not hasattr(drafter, "start"):
            raise OptionError(f"a drafter has a method `start`; this is {a_kind(drafter)}")
    for name in ("branching", "allow_lossy"):
        if not isinstance(getattr(speculation, name), bool):
            raise OptionError(f"{name} is {getattr(speculation, name)!r:.40}; it must be True or False")
    for name, value, method in (
        ("verifier", speculation.verifier, "accept" if is_lossy(speculation.verifier) else "outcome"),
        ("controller", speculation.controller, "keep"),
    ):
        if isinstance(value, type):
            raise OptionError(
                f"the {name} is the class {value.__name__}, not an instance", hint=f"{value.__name__}()"
            )
        if not hasattr(value, method):
            raise OptionError(f"a {name} has a method `{method}`; this is {a_kind(value)}")
    if not hasattr(speculation.verifier, "drafted"):
        raise OptionError(
            f"the verifier {type(speculation.verifier).__name__} has no `drafted`",
            hint='State which drafts it is exact for: "any", "one", "distinct", "independent" or "greedy".',
        )
    check_is_allowed(speculation.verifier, allow_lossy=speculation.allow_lossy)
    if is_lossy(speculation.verifier) and speculation.verifier.drafted != "any":
        raise OptionError('a lossy verifier has drafted = "any"')
    if speculation.branching and hasattr(speculation.verifier, "hidden_layers"):
        raise OptionError(
            f"{type(speculation.verifier).__name__} reads the states of sequences, not of nodes of a tree",
            hint="Use branching=False.",
        )
    for name, number in (("depth", speculation.depth), ("width", speculation.width)):
        check_whole(name, number)
    check_whole("the controller's size", getattr(speculation.controller, "size", None))
    tells = any(record.gives_distributions for record in speculation.records)
    if speculation.verifier.drafted != "any" and not tells:
        raise OptionError(
            f"{type(speculation.verifier).__name__} verifies draws from a distribution, and no drafter gives one",
            hint="TriGrams, LogitNGrams, TokenRecycling, DraftModel, LayerSkip, DEL and learned drafters do; Match() "
            "takes any draft.",
        )
