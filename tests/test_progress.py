"""Progress bars."""

from __future__ import annotations

import io

import pytest

from structgen.progress import ProgressBar


def test_a_bar_shows_the_true_count_after_steps_back() -> None:
    """Past the total it stays full; steps back from there first take away what lies beyond."""
    tqdm = pytest.importorskip("tqdm.auto").tqdm
    shown = []
    with ProgressBar(100, "texts", True) as bar:
        bar._bar = tqdm(total=100, file=io.StringIO(), disable=False)  # the tests' own bars are off
        for count in (130, -20, -30, 5):
            bar.advance(count)
            shown.append(bar._bar.n)
    assert shown == [100, 100, 80, 85]
