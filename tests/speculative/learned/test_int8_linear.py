"""Linear layers with int8 weights give the products of those that they replace. Where torch differs, they stay out."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from structgen.speculative.learned.int8_linear import Int8Linear, with_int8  # noqa: E402


def network(bias: bool) -> Any:
    torch.manual_seed(1)
    made = nn.Sequential(nn.Linear(96, 64, bias=bias), nn.Sequential(nn.SiLU(), nn.Linear(64, 32, bias=bias)))
    return made.to(torch.bfloat16).eval().requires_grad_(False)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("rows", [0, 1, 3, 4, 40])
def test_products_are_those_of_the_layers(rows: int, bias: bool) -> None:
    plain, replaced = network(bias), network(bias)
    with_int8(replaced)
    inputs = torch.randn(2, rows, 96) if rows > 3 else torch.randn(rows, 96)
    with torch.inference_mode():
        wanted = plain(inputs.to(torch.bfloat16)).float()
        found = replaced(inputs.to(torch.bfloat16)).float()
    assert found.shape == wanted.shape
    assert torch.allclose(found, wanted, atol=0.05, rtol=0.05)
    if rows > 3:
        assert torch.equal(found, wanted)  # by the layer itself


@pytest.mark.parametrize("width", [1, 15, 16, 33, 40, 48, 72, 100])
def test_layers_of_other_widths_stay(width: int) -> None:
    torch.manual_seed(2)
    made = nn.Sequential(nn.Linear(64, width), nn.Linear(width, 64)).to(torch.bfloat16).eval()
    inputs = torch.randn(2, 64).to(torch.bfloat16)
    with torch.inference_mode():
        wanted = made(inputs).float()
        with_int8(made)
        found = made(inputs).float()
    assert type(made[1]) is nn.Linear
    assert torch.allclose(found, wanted, atol=0.05, rtol=0.05)


def test_all_linear_layers_are_replaced_where_torch_gives_the_product(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    replaced = network(True)
    with_int8(replaced)
    kinds = [type(module) for module in replaced.modules()]
    assert kinds.count(Int8Linear) in (0, 2)  # none where this torch has no such operator
    monkeypatch.setattr(torch, "_weight_int8pack_mm", lambda rows, weight, factors: rows @ weight.T.to(rows))
    with_int8(other := network(True))
    assert Int8Linear not in [type(module) for module in other.modules()]
