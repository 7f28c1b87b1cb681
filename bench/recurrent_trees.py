"""Time draft trees of recurrent models: one packed pass over the nodes compared with a batch of its paths.

    python -m bench.recurrent_trees [--models mamba2 bamba jamba lfm2] [--rounds 40] [--hidden 64] [--layers 2]

The models have random weights. Two sessions of each read the same texts and trees and keep the same paths, in turn, so
each ratio is of two passes that ran one after the other. A step is one tree after one new token, and what follows: the
state after the kept path. The tokens of a batch of paths include the accepted tokens that it reads again, and padding.
Times are CPU times of one thread, which depend less on what else the machine does. docs/speculation.md has the figures.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from bench.command import argument_parser

from .recurrent import tiny_config

__all__ = ["main"]

_SIZE, _PROMPT, _WARM_UP = 1000, 64, 3
_TREES = {
    "a sequence of 6": [-1, 0, 1, 2, 3, 4],
    "12 nodes, 4 paths": [-1, 0, 1, 1, 2, 2, 3, 3, 4, 5, 6, 7],
    "24 nodes, 8 paths": [-1, 0, 0, 1, 1, 2, 2, *range(3, 7), *range(3, 7), *range(7, 15), 15],
}


class _Side:
    """A session of one row that counts what its model reads."""

    def __init__(self, model: Any, prompt: Sequence[int], *, packs_trees: bool) -> None:
        from structgen.models.recurrent_session import RecurrentSession

        self._session = RecurrentSession(model, _SIZE, [prompt], packs_trees=packs_trees)
        self._model = model
        self.passes = self.tokens = 0
        self.seconds: list[float] = []

    def step(self, token: int, nodes: Sequence[int], parents: Sequence[int], path: Sequence[int]) -> Any:
        """Read a token and a tree, keep a path, and return the logits of the nodes."""
        hook = self._model.register_forward_pre_hook(self._count, with_kwargs=True)
        begin = time.process_time()
        (scores,) = self._session.append_trees([[token]], [(nodes, parents)])
        self._session.keep(0, path)
        self.seconds.append(time.process_time() - begin)
        hook.remove()
        return scores

    def _count(self, _module: object, _arguments: object, named: dict[str, Any]) -> None:
        self.passes += 1
        self.tokens += named["input_ids"].numel()


def _random_path(rng: np.random.Generator, parents: Sequence[int]) -> list[int]:
    """Return a path on which each further node is accepted with probability 0.7."""
    path: list[int] = []
    while rng.random() < 0.7:
        below = [node for node, parent in enumerate(parents) if parent == (path[-1] if path else -1)]
        if not below:
            break
        path.append(int(rng.choice(below)))
    return path


def _compare(name: str, model: Any, tree: str, rounds: int) -> None:
    rng = np.random.default_rng(0)
    parents = _TREES[tree]

    def tokens(count: int) -> list[int]:
        return [int(token) for token in rng.integers(1, _SIZE, size=count)]

    prompt = tokens(_PROMPT)
    packed, paths = _Side(model, prompt, packs_trees=True), _Side(model, prompt, packs_trees=False)
    error = 0.0
    for step in range(_WARM_UP + rounds):
        arguments = (tokens(1)[0], tokens(len(parents)), parents, _random_path(rng, parents))
        sides = [packed, paths] if step % 2 else [paths, packed]
        first, second = (side.step(*arguments) for side in sides)
        error = max(error, float(np.abs(first - second).max() / np.abs(first).max()))
    one, other = (np.array(side.seconds[_WARM_UP:]) for side in (packed, paths))
    low, middle, high = np.percentile(other / one, [25, 50, 75])
    print(
        f"{name}, {tree}: {packed.passes} and {paths.passes} passes, {packed.tokens} and {paths.tokens} tokens, "
        f"{1e3 * np.median(one):.1f} and {1e3 * np.median(other):.1f} ms a step; packed is {middle:.2f} times as fast "
        f"({low:.2f} to {high:.2f}); logits differ by {error:.0e} of the largest",
        flush=True,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    import torch
    from transformers import AutoModelForCausalLM

    parser = argument_parser("bench.recurrent_trees", __doc__)
    parser.add_argument("--models", nargs="+", default=["mamba2", "bamba", "jamba", "lfm2"])
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--layers", type=int, default=2)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    for name in options.models:
        torch.manual_seed(0)
        config = tiny_config(name, _SIZE, options.hidden, options.layers)
        model = AutoModelForCausalLM.from_config(config).eval()
        for tree in _TREES:
            _compare(name, model, tree, options.rounds)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
