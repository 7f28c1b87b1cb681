"""The process that meets the inputs: one JSON line in, lines about it out, until there are no more.

    python -m fuzz.worker TARGET [--oracle]      (started by `process`)

In: ``{"text": ...}``. Out: ``{"stage": name}`` where a stage begins, then ``{"done": ..., "features": [...]}`` with
"fine", "refused" or "finding". Features tell inputs apart: which error, from which lines, which calls led to which.
Invariant: it keeps nothing of an input but caches of the library. What kills it, or hangs, is seen by the parent;
on SIGUSR1 the stack of Python is written to standard error.
"""

from __future__ import annotations

import ctypes
import faulthandler
import json
import os
import signal
import sys
import traceback
import warnings
from types import CodeType, FrameType
from typing import Any

from structgen.errors import StructgenError

from .checking import TARGETS
from .walking import Broken

__all__ = ["main"]

_PR_SET_PDEATHSIG = 1
_ROOT = f"{os.sep}structgen{os.sep}"


class _Calls:
    """Which function of the library called which: a cheap measure of where an input went."""

    def __init__(self) -> None:
        self.seen: set[tuple[CodeType, CodeType | None]] = set()
        self._ours: dict[CodeType, bool] = {}

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        ours = self._ours.get(code)
        if ours is None:
            ours = self._ours[code] = _ROOT in code.co_filename
        if ours:
            self.seen.add((code, frame.f_back.f_code if frame.f_back else None))

    def features(self) -> list[str]:
        return [f"{_name(code)}<{_name(caller) if caller else ''}" for code, caller in self.seen]


def _name(code: CodeType) -> str:
    return f"{code.co_filename.rpartition(_ROOT)[2]}:{code.co_firstlineno}"


def _of_error(error: BaseException) -> tuple[str, str]:
    """Identify an error independently of the input: return its type, and the type with the lines that raised it."""
    every = traceback.extract_tb(error.__traceback__)
    frames = [frame for frame in every if _ROOT in frame.filename] or every
    lines = " ".join(f"{frame.filename.rpartition(_ROOT)[2]}:{frame.lineno}" for frame in frames[-3:])
    return type(error).__name__, f"{type(error).__name__} {lines}"


def _met(target: str, text: str, answer: Any) -> dict[str, Any]:
    calls = _Calls()
    result: dict[str, Any] = {"done": "fine"}
    features: list[str] = []
    sys.setprofile(None)
    sys.settrace(calls)  # only calls are traced: the function answers None
    try:
        TARGETS[target](text, lambda stage: answer({"stage": stage}))
    except StructgenError as error:
        sys.settrace(None)
        str(error)  # showing it must not fail either
        result, features = {"done": "refused"}, list(_of_error(error))
    except Broken as error:
        sys.settrace(None)
        result = {"done": "finding", "kind": f"invariant: {error.invariant}", "detail": str(error)[:2000]}
    except BaseException as error:
        sys.settrace(None)
        kind, lines = _of_error(error)
        detail = "".join(traceback.format_exception(error))
        result = {
            "done": "finding",
            "kind": f"{type(error).__name__} at {lines.rpartition(' ')[2]}",
            "detail": detail[-3000:],
        }
        features = [kind]
    finally:
        sys.settrace(None)
    return {**result, "features": features + calls.features()}


def main() -> None:
    """Serves until standard input ends."""
    target = sys.argv[1]
    if sys.platform == "linux":  # an input that hangs must not outlive a campaign that was killed
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    warnings.simplefilter("ignore")
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # printed output does not mix with the answers

    def answer(line: dict[str, Any]) -> None:
        out.write(json.dumps(line) + "\n")
        out.flush()

    answer({"ready": target})
    for line in sys.stdin:
        answer(_met(target, json.loads(line)["text"], answer))


if __name__ == "__main__":
    main()
