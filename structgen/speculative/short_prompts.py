"""Shortening of a long prompt for a draft model: its beginning, its end, and the chunks that match the end best.

What: the tokens between the beginning and the end are split into chunks. Each gets its BM25 score for the tokens of the
end, which usually holds the question. The best chunks stay, in the order of the text.
Why: a pass of a draft model over a long KV cache takes as long as one of the target. On a short context even a model as
large as the target drafts faster, and drafts only have to be likely: verification reads the whole prompt.
Cost: one pass over the prompt for each row.
Source: Chen et al. 2025 (RAPID); Robertson and Zaragoza 2009 (BM25).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

__all__ = ["bm25_scores", "shorten_prompt"]

_SATURATION, _LENGTH_SHARE = 1.2, 0.75
"""The usual parameters k1 and b of BM25."""
_HEAD_SHARE, _TAIL_SHARE = 8, 4
"""The beginning gets one eighth of the tokens, and the end a quarter."""


def shorten_prompt(tokens: Sequence[int], most: int, chunk: int = 64) -> list[int]:
    """Return at most `most` tokens of a prompt, in order.

    Args:
        tokens: The tokens of the prompt.
        most: The largest number of tokens; at least 16.
        chunk: The number of tokens of a chunk; fewer if `most` is small.
    """
    if len(tokens) <= most:
        return list(tokens)
    head, tail = most // _HEAD_SHARE, most // _TAIL_SHARE
    chunk = min(chunk, (most - head - tail) // 2)
    count = (most - head - tail) // chunk
    tail = most - head - count * chunk
    end = len(tokens) - tail
    chunks = [tokens[start : min(start + chunk, end)] for start in range(head, end, chunk)]
    scores = bm25_scores(chunks, tokens[end:])
    best = sorted(range(len(chunks)), key=lambda index: (-scores[index], -index))[:count]
    middle = [token for index in sorted(best) for token in chunks[index]]
    return [*tokens[:head], *middle, *tokens[end:]]


def bm25_scores(chunks: Sequence[Sequence[int]], query: Sequence[int]) -> list[float]:
    """Return the BM25 score of each chunk for the distinct tokens of a query."""
    counts = [Counter(chunk) for chunk in chunks]
    wanted = set(query)
    holding = Counter(token for count in counts for token in wanted & count.keys())
    weights = {
        token: math.log(1 + (len(chunks) - number + 0.5) / (number + 0.5))
        for token, number in holding.items()
    }
    mean = sum(map(len, chunks)) / max(1, len(chunks))
    scores = []
    for chunk, count in zip(chunks, counts, strict=True):
        norm = _SATURATION * (1 - _LENGTH_SHARE + _LENGTH_SHARE * len(chunk) / mean)
        scores.append(
            sum(
                weights[token] * count[token] * (_SATURATION + 1) / (count[token] + norm)
                for token in sorted(wanted & count.keys())
            )
        )
    return scores
