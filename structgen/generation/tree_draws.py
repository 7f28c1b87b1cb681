"""Drawing the tokens of a row along the draft tree that the model has read.

What: a row draws position after position, as without drafts, as long as the drawn token is a node of the tree. The
logits after each node are known, so these draws need no forward pass.
Invariant: the tokens are those that the row would draw without drafts from the same logits, or have their distribution.
A lossy verifier (`Drafting.is_lossy`) gives them another one.
"""

from __future__ import annotations

import time
from typing import Any

from .drafting import ROOT, DraftedTokens, Drafting
from .results import Timing
from .row import Choice, Row

__all__ = ["accepted_nodes", "draw_along"]


def draw_along(row: Row, scores: Any, tree: DraftedTokens, drafting: Drafting | None, timing: Timing) -> None:
    """Draw tokens, one or as many as follow the tree.

    Args:
        row: The row, whose session has read all pending tokens.
        scores: The logits after the row's last token and after each node, ``[1 + nodes, vocabulary.size]``.
        tree: The draft tokens that were read after the row.
        drafting: Whose hooks are called; None without drafts.
        timing: The times of masks, draws and hooks are added here.
    """
    clock = time.perf_counter
    node = ROOT
    while True:
        before = clock()
        allowed = row.allowed()
        masked = noted = clock()
        if drafting is not None and drafting.wants_masks and row.is_constrained and row.options.speculate:
            assert allowed is not None
            drafting.on_mask(row, allowed)
            noted = clock()
        held = len(row.tokens)
        choose = None
        if drafting is not None and drafting.replaces_draws and row.options.speculate:
            choose = _choice(drafting, row, node)
            row.is_lossy = row.is_lossy or drafting.is_lossy
        row.draw(scores[node + 1], allowed, choose)
        drawn = clock()
        timing.constraint += masked - before
        timing.drawing += drawn - noted
        if drafting is not None:
            token = row.tokens[held] if held < len(row.tokens) else row.end_token
            if token is not None:
                drafting.on_token(row, node, token)
            timing.drafting += noted - masked + clock() - drawn
        if not len(tree):
            return
        before = clock()
        row.advance_without_draw(can_score=True)
        timing.constraint += clock() - before
        if row.excess:
            return  # the row stepped back to before the tokens of this pass
        path = tree.path(row.pending)
        for offset in range(min(len(path) + 1, len(row.pending))):
            row.score_pending(offset, scores[path[offset - 1] + 1 if offset else 0])
        if row.finish is not None or len(path) < len(row.pending):
            return
        node = path[-1]


def accepted_nodes(row: Row, tree: DraftedTokens, drafting: Drafting | None) -> list[int]:
    """Return the nodes of the tree that the row has drawn, count them, and call `Drafting.on_step`."""
    path = [] if row.excess else tree.path(row.pending)
    guesses = len(tree) - tree.padding
    drafted = guesses + sum(node >= guesses for node in path)
    row.drafted_tokens += drafted
    row.accepted_tokens += len(path)
    if drafting is not None:
        drafting.on_step(row, drafted, len(path))
    return path


def _choice(drafting: Drafting, row: Row, node: int) -> Choice:
    return lambda distribution, uniform: drafting.draw(row, node, distribution, uniform)
