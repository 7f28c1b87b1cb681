"""Read a tree of tokens in one pass: what convolutions and state-space scans compute for a node from its ancestors.

Why: a recurrent layer's state has room for one text. A draft tree could be read as one text for each path, but then
nodes near the root are computed once for each path through them.
What: `TreeShape` knows the ancestors of each node. `tree_convolution` reads them in place of the tokens just before.
`MaskedScan` is Mamba-2's scan as attention: decays along a path multiply, so the share of an ancestor in a node's
output is a number, and other branches are masked. `LevelScan` is Mamba-1's, whose decays differ by channel and state:
it steps down the tree, all nodes of one depth at once. Both return the state after any node from what they computed.
Invariant: a node's output is what a scan over the path from the root to it returns, up to rounding.
Cost: `MaskedScan` takes ``nodes² * heads`` numbers, `LevelScan` ``nodes * channels * state`` and a step for each depth.
Source: Wu et al. 2025 (STree); Dao and Gu 2024 (Mamba-2) for the form with a mask. docs/speculation.md has the formula.
"""

# ruff: noqa: N803  (the scans have the arguments of those in transformers)
from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import torch
from torch.nn import functional
from transformers.activations import ACT2FN

__all__ = ["LevelScan", "MaskedScan", "TreeShape", "tree_convolution"]


class TreeShape:
    """The ancestors of the nodes of a tree.

    Args:
        parents: The parent of each node, which comes before it; -1 for a node that follows the text before the tree.
        device: Where the tensors are made.
    """

    def __init__(self, parents: Sequence[int], device: torch.device | str = "cpu") -> None:
        self.parents = list(parents)
        self._device = device

    def __len__(self) -> int:
        return len(self.parents)

    @cached_property
    def ancestors(self) -> torch.Tensor:
        """Which nodes lie on the path to a node, itself included, bool ``[nodes, nodes]``."""
        on_path = torch.eye(len(self), dtype=torch.bool)
        for node, parent in enumerate(self.parents):
            if parent >= 0:
                on_path[node] |= on_path[parent]
        return on_path.to(self._device)

    @cached_property
    def depths(self) -> list[int]:
        """The number of nodes above each node."""
        depths: list[int] = []
        for parent in self.parents:
            depths.append(depths[parent] + 1 if parent >= 0 else 0)
        return depths

    @cached_property
    def levels(self) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """The nodes of each depth, and their parents."""
        found = []
        for depth in range(max(self.depths, default=-1) + 1):
            nodes = [node for node, its in enumerate(self.depths) if its == depth]
            pair = torch.tensor([nodes, [self.parents[node] for node in nodes]], device=self._device)
            found.append((pair[0], pair[1]))
        return found

    def windows(self, width: int) -> torch.Tensor:
        """Return where the last `width` inputs of each node are: in `width` inputs before the tree, then its nodes."""
        windows: list[list[int]] = []
        for node, parent in enumerate(self.parents):
            above = windows[parent] if parent >= 0 else range(width)
            windows.append([*above[1:], width + node])
        return torch.tensor(windows, device=self._device)


def tree_convolution(
    shape: TreeShape,
    inputs: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    activation: str | None = None,
    **_: object,
) -> torch.Tensor:
    """Return a causal convolution over the path to each node.

    Args:
        shape: The tree.
        inputs: The last `width` inputs before the tree, then those of its nodes, ``[1, channels, width + nodes]``.
        weight: The kernel of each channel, ``[channels, width]``.
        bias: A number for each channel.
        activation: The name of an activation function in `transformers`.

    Returns:
        A tensor ``[1, channels, nodes]`` of the type of `inputs`.
    """
    read = inputs.to(weight.dtype)[:, :, shape.windows(weight.shape[-1])]
    output = (read * weight[:, None, :]).sum(dim=-1)
    if bias is not None:
        output = output + bias[:, None]
    if activation is not None:
        output = ACT2FN[activation](output)
    return output.to(inputs.dtype)


class MaskedScan:
    """Mamba-2's scan over a tree, for one row: the outputs, then the state after any node.

    Args:
        shape: The tree.
        initial: The state before the tree, ``[1, heads, size, state]``.
    """

    def __init__(self, shape: TreeShape, initial: torch.Tensor) -> None:
        self._shape, self._initial = shape, initial
        self._inputs = self._keys = self._decays = self._decays_from_root = initial

    def __call__(
        self,
        hidden_states: torch.Tensor,
        dt: torch.Tensor,
        A: torch.Tensor,
        B: torch.Tensor,
        C: torch.Tensor,
        *_: object,
        D: torch.Tensor | None = None,
        dt_bias: torch.Tensor | None = None,
        dt_softplus: bool = False,
        dt_limit: tuple[float, float] = (0.0, float("inf")),
        **__: object,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the outputs ``[1, nodes, heads, size]`` and the state, which is still the one before the tree.

        The arguments are those of `mamba2_chunk_scan` in `transformers`.
        """
        step = _step_sizes(dt[0], dt_bias, dt_softplus).clamp(*dt_limit).float()
        values, keys, queries = hidden_states[0].float(), B[0].float(), C[0].float()
        heads_per_group = values.shape[1] // keys.shape[1]
        on_path = self._shape.ancestors.float()
        above = on_path - torch.eye(len(on_path), device=on_path.device)
        log_decays = (A.float() * step).T  # [heads, nodes]
        # subtle: the sum over the nodes between, not a difference of sums from the root, which would lose digits.
        between = (on_path * log_decays[:, None, :]) @ above
        self._decays = between.exp() * on_path
        self._decays_from_root = (log_decays @ on_path.T).exp()
        self._inputs = (values * step[..., None]).transpose(0, 1)  # [heads, nodes, size]
        self._keys = keys.transpose(0, 1).repeat_interleave(heads_per_group, dim=0)  # [heads, nodes, state]
        queries = queries.transpose(0, 1).repeat_interleave(heads_per_group, dim=0)
        output = (self._decays * (queries @ self._keys.mT)) @ self._inputs
        before = queries @ self._initial[0].float().mT
        output = (output + self._decays_from_root[..., None] * before).transpose(0, 1)
        if D is not None:
            output = output + D[..., None] * values
        return output[None].contiguous(), self._initial

    def state_after(self, node: int) -> torch.Tensor:
        """Return the state after the path to a node, as a new tensor."""
        inputs = self._decays[:, node, :, None] * self._inputs
        before = self._decays_from_root[:, node, None, None] * self._initial[0].float()
        return (before + inputs.mT @ self._keys)[None].to(self._initial.dtype)


class LevelScan:
    """Mamba-1's scan over a tree, for one row: the outputs, then the state after any node.

    Args:
        shape: The tree.
        initial: The state before the tree, ``[1, channels, state]``.
    """

    def __init__(self, shape: TreeShape, initial: torch.Tensor) -> None:
        self._shape, self._initial = shape, initial
        self._states = initial

    def __call__(
        self,
        hidden_states: torch.Tensor,
        dt: torch.Tensor,
        A: torch.Tensor,
        B: torch.Tensor,
        C: torch.Tensor,
        D: torch.Tensor | None = None,
        z: torch.Tensor | None = None,
        delta_bias: torch.Tensor | None = None,
        delta_softplus: bool = False,
        **_: object,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the outputs ``[1, channels, nodes]`` and the state, which is still the one before the tree.

        The arguments are those of `mamba_selective_scan` in `transformers`.
        """
        step = _step_sizes(dt[0].T, delta_bias, delta_softplus).float()[..., None]  # [nodes, channels, 1]
        values, keys, queries = hidden_states[0].T, B[0].T.float(), C[0].T
        decays = (A * step).exp()
        inputs = step * keys[:, None, :] * values.float()[..., None]
        states = torch.empty_like(inputs)
        for nodes, parents in self._shape.levels:
            before = states[parents] if parents[0] >= 0 else self._initial.float()
            states[nodes] = decays[nodes] * before + inputs[nodes]
        self._states = states
        output = (states.to(queries.dtype) @ queries[..., None])[..., 0]
        if D is not None:
            output = output + values * D
        output = output.T[None]
        return output * functional.silu(z) if z is not None else output, self._initial

    def state_after(self, node: int) -> torch.Tensor:
        """Return the state after the path to a node, as a new tensor."""
        return self._states[node : node + 1].to(self._initial.dtype, copy=True)


def _step_sizes(dt: torch.Tensor, bias: torch.Tensor | None, softplus: bool) -> torch.Tensor:
    step = dt if bias is None else dt + bias.to(dt.dtype)
    return functional.softplus(step) if softplus else step
