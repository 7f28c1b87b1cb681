"""Convolutions and scans over trees: a node's output and state are those of reading the path to it token by token."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from structgen.models.tree_scan import LevelScan, MaskedScan, TreeShape, tree_convolution  # noqa: E402

PARENTS = [-1, 0, 0, -1, 2, 1, 4]


def random_parents(seed: int, nodes: int) -> list[int]:
    rng = np.random.default_rng(seed)
    return [int(rng.integers(max(-1, node - 4), node)) for node in range(nodes)]


def path_to(parents: list[int], node: int) -> list[int]:
    return [] if node < 0 else [*path_to(parents, parents[node]), node]


def random_tensor(seed: int, *shape: int) -> Any:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def test_the_shape_of_a_tree() -> None:
    shape = TreeShape(PARENTS)
    for node in range(len(PARENTS)):
        assert shape.ancestors[node].nonzero()[:, 0].tolist() == path_to(PARENTS, node)
    assert shape.depths == [0, 1, 1, 0, 2, 2, 3]
    assert [(nodes.tolist(), parents.tolist()) for nodes, parents in shape.levels] == [
        ([0, 3], [-1, -1]),
        ([1, 2], [0, 0]),
        ([4, 5], [2, 1]),
        ([6], [4]),
    ]
    assert shape.windows(3).tolist() == [
        [1, 2, 3],
        [2, 3, 4],
        [2, 3, 5],
        [1, 2, 6],
        [3, 5, 7],
        [3, 4, 8],
        [5, 7, 9],
    ]


@pytest.mark.parametrize("width", [1, 2, 4])
@pytest.mark.parametrize("parents", [PARENTS, random_parents(1, 20), [-1, 0, 1, 2]])
def test_a_convolution_reads_ancestors(parents: list[int], width: int) -> None:
    inputs = random_tensor(0, 1, 6, width + len(parents)).double()
    weight, bias = random_tensor(1, 6, width).double(), random_tensor(2, 6).double()
    found = tree_convolution(TreeShape(parents), inputs, weight, bias, "silu")
    assert found.shape == (1, 6, len(parents))
    for node in range(len(parents)):
        path = [*range(width), *(width + one for one in path_to(parents, node))]
        plain = torch.conv1d(inputs[:, :, path], weight[:, None], bias, groups=6)[0, :, -1]
        torch.testing.assert_close(found[0, :, node], torch.nn.functional.silu(plain), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("decay", [0.1, 1.0, 300.0])
@pytest.mark.parametrize("parents", [PARENTS, random_parents(2, 30), list(range(-1, 12))])
def test_the_masked_scan_equals_steps_along_each_path(parents: list[int], decay: float) -> None:
    from transformers.models.mamba2.modeling_mamba2 import mamba2_selective_state_update

    nodes, heads, size, groups, state = len(parents), 4, 3, 2, 5
    values, dt = random_tensor(0, 1, nodes, heads, size), random_tensor(1, 1, nodes, heads)
    keys, queries = random_tensor(2, 1, nodes, groups, state), random_tensor(3, 1, nodes, groups, state)
    rates, skip, bias = (
        -decay * random_tensor(4, heads).exp(),
        random_tensor(5, heads),
        random_tensor(6, heads),
    )
    initial = random_tensor(7, 1, heads, size, state)
    scan = MaskedScan(TreeShape(parents), initial)
    output, state_of_tree = scan(
        values,
        dt,
        rates,
        keys,
        queries,
        256,
        D=skip,
        dt_bias=bias,
        dt_softplus=True,
        return_final_states=True,
    )
    assert state_of_tree is initial and output.shape == values.shape
    for node in range(nodes):
        held = initial.clone()
        for one in path_to(parents, node):
            step = mamba2_selective_state_update(
                held,
                values[:, one],
                dt[:, one, :, None].expand(-1, -1, size),
                rates[:, None, None].expand(-1, size, state),
                keys[:, one],
                queries[:, one],
                skip[:, None].expand(-1, size),
                dt_bias=bias[:, None].expand(-1, size),
                dt_softplus=True,
            )
        torch.testing.assert_close(output[:, node], step, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(scan.state_after(node), held, rtol=1e-4, atol=1e-4)


def test_limits_of_step_sizes_hold_in_the_masked_scan() -> None:
    dt = torch.tensor([[[-9.0], [9.0]]])
    ones = torch.ones(1, 2, 1, 1)
    scan = MaskedScan(TreeShape([-1, 0]), torch.zeros(1, 1, 1, 1))
    output, _ = scan(ones, dt, -torch.ones(1), ones, ones, dt_limit=(0.5, 2.0))
    expected = [0.5, 0.5 * float(np.exp(-2.0)) + 2.0]
    np.testing.assert_allclose(output.flatten().tolist(), expected, rtol=1e-6)


@pytest.mark.parametrize("parents", [PARENTS, random_parents(3, 30), list(range(-1, 12))])
def test_the_level_scan_equals_steps_along_each_path(parents: list[int]) -> None:
    from transformers.models.jamba.modeling_jamba import mamba_selective_state_update

    nodes, channels, state = len(parents), 6, 4
    values, dt, gate = (random_tensor(seed, 1, channels, nodes) for seed in range(3))
    keys, queries = random_tensor(3, 1, state, nodes), random_tensor(4, 1, state, nodes)
    rates, skip, bias = (
        -random_tensor(5, channels, state).exp(),
        random_tensor(6, channels),
        random_tensor(7, channels),
    )
    initial = random_tensor(8, 1, channels, state)
    scan = LevelScan(TreeShape(parents), initial)
    output, state_of_tree = scan(
        values,
        dt,
        rates,
        keys,
        queries,
        D=skip,
        z=gate,
        delta_bias=bias,
        delta_softplus=True,
        use_mambapy=False,
    )
    assert state_of_tree is initial and output.shape == values.shape
    for node in range(nodes):
        held = initial.clone()
        for one in path_to(parents, node):
            step = mamba_selective_state_update(
                held,
                values[..., one],
                dt[..., one],
                rates,
                keys[..., one],
                queries[..., one],
                skip,
                z=gate[..., one],
                dt_bias=bias,
                dt_softplus=True,
            )
        torch.testing.assert_close(output[..., node], step, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(scan.state_after(node), held, rtol=1e-5, atol=1e-5)
