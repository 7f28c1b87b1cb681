"""Target rollback: requests of serving engines with random drafts, against matchers that read from the start.

    python -m fuzz --target rollback --steps 1000000 --seed 1
    python -m fuzz --target rollback --try '{"seed": 12, "steps": 400}'       (one episode again)

An episode is one request on a new case, or several that take turns. Its seed determines it. A step is one answer that
was compared: a row, a validation, whether a token was accepted or the text has ended.
"""

from __future__ import annotations

import json
import logging
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from unittest.mock import patch

from structgen import _core
from structgen.errors import LimitExceeded, OptionError
from structgen.serving import sequence

from .engines import Request, SequenceRequest, SglangRequest, VllmRequest
from .fresh import Case, cases
from .walking import Broken

__all__ = ["RollbackFigures", "check_rollback", "run_rollback"]

_STEPS = 200
"""The steps of a request."""
_EPISODES = 20
"""The cases of one seed."""
_SAY_EVERY = 60.0
_REQUESTS: tuple[type[Request], ...] = (SequenceRequest, VllmRequest, SglangRequest)


@dataclass
class RollbackFigures:
    """What a run has done."""

    steps: int = 0
    requests: int = 0
    seconds: float = 0.0
    limits_met: int = 0
    """Requests that ended because the core met a limit.

    What a sequence does then is not compared: how much work and time a call takes depends on caches and on the machine,
    so the fresh matcher may stay within a limit that the fast path meets.
    """
    kinds: dict[str, int] = field(default_factory=dict)
    """Steps by engine and kind of constraint."""
    findings: list[str] = field(default_factory=list)


def run_rollback(
    steps: int, seed: int, say: Callable[[str], None] = lambda line: None, seconds: float = float("inf")
) -> RollbackFigures:
    """Run until that many answers were compared, or that long; a finding ends only its episode."""
    figures = RollbackFigures()
    began = said = time.monotonic()
    for number in _seeds(seed):
        if figures.steps >= steps or time.monotonic() - began > seconds:
            break
        try:
            _episode(number, steps - figures.steps, figures)
        except Broken as error:
            figures.findings.append(f'{{"seed": {number}}}: {error}')
            say(f"finding with seed {number}: {error!s:.2000}")
        if (now := time.monotonic()) - said > _SAY_EVERY:
            said = now
            found = len(figures.findings)
            say(f"{now - began:6.0f} s  {figures.steps} steps, {figures.requests} requests, {found} findings")
    figures.seconds = time.monotonic() - began
    return figures


def check_rollback(text: str, stage: Callable[[str], None]) -> None:
    """One input of target rollback: ``{"seed": 12, "steps": 400}``."""
    stage("read")
    try:
        case = json.loads(text)
        seed, steps = int(case["seed"]), int(case.get("steps", 2_000))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError):
        raise OptionError("not an input of target rollback") from None
    stage("drive")
    _episode(seed, min(steps, 100_000), RollbackFigures())


def _seeds(seed: int) -> Iterator[int]:
    rng = random.Random(f"rollback {seed}")
    while True:
        yield rng.randrange(1 << 32)


def _episode(seed: int, steps: int, figures: RollbackFigures) -> None:
    rng = random.Random(seed)
    logging.getLogger("vllm.structgen").setLevel(logging.CRITICAL)  # refused tokens are wanted here
    for _, case in zip(range(_EPISODES), cases(rng), strict=False):
        for make in _REQUESTS:
            done = _request(make(case, rng), case, min(steps, _STEPS), figures)
            steps -= done
            if steps <= 0:
                return


def _request(request: Request, case: Case, steps: int, figures: RollbackFigures) -> int:
    figures.requests += 1
    try:
        with _limits_met() as met:
            while request.steps < steps and not met:
                before = request.steps
                request.step()
                if request.steps == before:
                    request.steps += 1
        figures.limits_met += bool(met)
    except (_core.LimitError, LimitExceeded):
        figures.limits_met += 1
    except Broken:
        if not met:
            raise
        figures.limits_met += 1
    except Exception as error:
        raise Broken(
            f"{request.name}: no error", f"{error!r:.300}; {case}; {'; '.join(request.log[-12:])}"
        ) from error
    finally:
        name = f"{request.name} {case.kind}"
        figures.kinds[name] = figures.kinds.get(name, 0) + request.steps
        figures.steps += request.steps
    return request.steps


@contextmanager
def _limits_met() -> Iterator[list[Exception]]:
    """Collect the limits that sequences meet inside the block: they answer in spite of them."""
    met = list[Exception]()
    bounded = sequence._bounded  # all calls of the core by a sequence are made inside it

    @contextmanager
    def noted() -> Iterator[None]:
        try:
            with bounded():
                yield
        except (_core.LimitError, LimitExceeded) as error:
            met.append(error)
            raise

    with patch.object(sequence, "_bounded", noted):
        yield met
