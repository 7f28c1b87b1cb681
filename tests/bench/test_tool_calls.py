"""The measuring of tool calls, with a model that draws any byte: even its calls are ones that the tools take."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import numpy as np
import pytest

from bench.tool_calls import _run
from structgen.tools import FORMATS
from tests.oracles.scripted_model import ScriptedModel


class Random(ScriptedModel):
    """Any readable byte is as probable as any other; quotes and braces, which close things, more so."""

    def __init__(self) -> None:
        super().__init__("")
        distribution = np.full(257, 1e-6)
        distribution[32:127] = 1.0
        distribution[list(b'"}])\n')] = 20.0
        distribution[256] = 500.0
        self._constant = np.log(distribution / distribution.sum())

    def _logits(self, tokens: Any, prompt: int) -> Any:
        return self._constant


@pytest.mark.parametrize("run", range(len(FORMATS)))
def test_a_conversation_is_counted(run: int) -> None:
    count: Counter[str] = Counter()
    seconds: dict[str, list[float]] = defaultdict(list)
    _run(Random(), run, count, seconds, beside=True)
    assert count["invalid"] == 0
    assert count["conversations"] + count["cut off"] == 1
    assert count["calls"] >= count["conversations"] and count["unconstrained turns"] == 1
    assert len(seconds["constraint"]) == 1
