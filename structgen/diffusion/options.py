"""The options of filling a canvas."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from structgen.errors import OptionError, did_you_mean

from .schedules import SCHEDULES, ScheduleName

__all__ = ["DecodingOptions"]


@dataclass(frozen=True)
class DecodingOptions:
    """Options of `structgen.diffusion.fill`.

    Attributes:
        tokens_per_step: The number of cells that are filled after each forward pass.
        threshold: Fill all cells whose token has at least this probability, and at least `tokens_per_step` (Fast-dLLM,
            arXiv 2505.22618).
        schedule: Which cells come first: "confidence" (of the token), "margin", "entropy", "random", "left-to-right".
        temperature: 0 takes the most probable allowed token; otherwise tokens are drawn.
        block: Fill blocks of this many cells one after the other (semi-autoregressive).
        joint: Take the tokens of the most probable completion of all open cells, not those of each cell alone (DINGO,
            arXiv 2505.23061). Requires temperature 0.
        draft: The number of commits that are drafted from one forward pass and verified by the next, in which all
            drafts are one batch (FreeDave, arXiv 2510.00294). The output is the same as without drafts.
        early: Finish at once with the most probable completion when the gap between the two largest logits, averaged
            over the open cells, exceeds these numbers, for the first, second and last third of the text (Prophet,
            arXiv 2508.19982).
        remask: Fraction of the filled cells, those with the least confidence, that are opened again after each step
            except the last ones; each cell at most once.
        seed: The seed of all draws.

    Raises:
        OptionError: An option is not valid; the message names it.
    """

    tokens_per_step: int = 1
    threshold: float | None = None
    schedule: ScheduleName = "confidence"
    temperature: float = 0.0
    block: int | None = None
    joint: bool = False
    draft: int = 0
    early: tuple[float, float, float] | None = None
    remask: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        _check("tokens_per_step", self.tokens_per_step, int, 1)
        _check("draft", self.draft, int, 0)
        _check("seed", self.seed, int, 0)
        _check("temperature", self.temperature, float, 0)
        if self.block is not None:
            _check("block", self.block, int, 1)
        if self.threshold is not None:
            _check("threshold", self.threshold, float, 0, 1)
        _check("remask", self.remask, float, 0, 1)
        if self.schedule not in SCHEDULES:
            raise OptionError(f"schedule is {self.schedule!r:.40}; use one of {', '.join(SCHEDULES)}")
        if self.early is not None and (
            not isinstance(self.early, tuple | list)
            or len(self.early) != 3
            or any(isinstance(number, bool) or not isinstance(number, int | float) for number in self.early)
        ):
            raise OptionError(
                f"early is {self.early!r:.60}; it must be three numbers, such as (7.5, 5.0, 2.5)"
            )
        if self.joint and self.temperature:
            raise OptionError("joint takes the most probable completion, so temperature must be 0")
        if self.draft and (self.threshold is not None or self.remask or self.tokens_per_step > 1):
            raise OptionError(
                "draft verifies single commits, so it excludes threshold, remask and tokens_per_step"
            )

    @classmethod
    def of(cls, given: dict[str, Any]) -> DecodingOptions:
        """Return the options of keyword arguments; an unknown name is an `OptionError`."""
        names = [field.name for field in fields(cls)]
        for name in given:
            if name not in names:
                suggestion = did_you_mean(name, names)
                raise OptionError(
                    f"there is no option {name!r:.40}",
                    hint=suggestion or f"The options are {', '.join(names)}.",
                )
        return cls(**given)


def _check(name: str, value: object, kind: type, least: float, most: float = float("inf")) -> None:
    kinds = int if kind is int else int | float
    if isinstance(value, bool) or not isinstance(value, kinds) or not least <= value <= most:
        what = "a whole number" if kind is int else "a number"
        up_to = "" if most == float("inf") else f", {most} at most"
        raise OptionError(f"{name} is {value!r:.40}; it must be {what} of {least} or more{up_to}")
