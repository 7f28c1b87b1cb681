"""Packed linear layers: the same numbers, and what a module is used for beside."""

from __future__ import annotations

import copy
import gc
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from torch import nn  # noqa: E402

import structgen as sg  # noqa: E402
from structgen.errors import ModelError, OptionError  # noqa: E402
from structgen.models.packed import PackedLinear, _drop_pages, _mapped_files, can_pack, pack_linear, unmap  # noqa: E402

from .tiny import SIZE, tiny_model, tiny_tokenizer  # noqa: E402


def linear(dtype: Any = torch.float32, bias: bool = True) -> nn.Linear:
    torch.manual_seed(3)
    return nn.Linear(40, 24, bias=bias, dtype=dtype)


def packed(dtype: Any = torch.float32, bias: bool = True) -> PackedLinear:
    if not can_pack(dtype):
        pytest.skip(f"torch cannot pack {dtype} on this CPU: layers stay as they are, as other tests show")
    holder = nn.Sequential(linear(dtype, bias))
    assert pack_linear(holder) == 1
    found = holder[0]
    assert isinstance(found, PackedLinear)
    return found


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(40,), (1, 40), (7, 40), (2, 3, 40), (0, 40), (300, 40)])
def test_equals_the_layer_it_was_made_of(shape: tuple[int, ...], bias: bool, dtype: Any) -> None:
    rows = torch.randn(shape, generator=torch.Generator().manual_seed(5)).to(dtype)
    with torch.no_grad():
        found, wanted = packed(dtype, bias)(rows), linear(dtype, bias)(rows)
    assert found.shape == wanted.shape and found.dtype == dtype
    tolerance = 1e-5 if dtype == torch.float32 else 0.02
    assert torch.allclose(found.float(), wanted.float(), atol=tolerance, rtol=tolerance)


def test_rows_may_lie_in_any_order() -> None:
    rows = torch.randn(40, 6, generator=torch.Generator().manual_seed(5)).t()
    with torch.no_grad():
        assert torch.allclose(packed()(rows), linear()(rows), atol=1e-5)


def test_the_weight_is_there_for_who_asks() -> None:
    found = packed()
    assert torch.equal(found.weight, linear().weight) and found.weight is found.weight
    assert "in_features=40, out_features=24, bias=True" in repr(found)
    state = found.state_dict()
    assert set(state) == {"weight", "bias"}
    linear().load_state_dict(state)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_copies(copied: Any) -> None:
    found = packed()
    rows = torch.ones(3, 40)
    assert torch.equal(copied(found)(rows), found(rows))


def test_it_does_not_move() -> None:
    found = packed()
    assert found.to("cpu") is found and found.float() is found
    with pytest.raises(ModelError, match=r"packed for the CPU in float32.*bfloat16(.|\n)*pack=False"):
        found.to(torch.bfloat16)
    with pytest.raises(ModelError, match="meta"):
        found.to("meta")


def test_a_model_that_cannot_move_has_not_moved_in_part() -> None:
    model = tiny_model("llama")
    pack_linear(model)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    for refused in (lambda: model.to(torch.bfloat16), model.double, lambda: model.to("meta")):
        with pytest.raises(ModelError, match="packed for the CPU in float32"):
            refused()
    after = model.state_dict()
    assert all(
        after[name].dtype == value.dtype and torch.equal(after[name], value) for name, value in before.items()
    )
    assert model.to("cpu") is model and model.float() is model
    assert copy.deepcopy(model)(torch.tensor([[3, 4]])).logits.shape == (1, 2, SIZE)


def test_other_weights_can_be_loaded_and_set() -> None:
    one, other = tiny_model("llama"), tiny_model("llama")
    with torch.no_grad():
        for value in other.parameters():
            value.mul_(1.5)
    ids = torch.tensor([[3, 9, 4]])
    wanted = other(ids).logits
    pack_linear(one)
    one.load_state_dict(other.state_dict())
    torch.testing.assert_close(one(ids).logits, wanted, atol=1e-4, rtol=1e-4)
    again = tiny_model("llama")
    pack_linear(again)
    again.load_state_dict(one.state_dict())
    torch.testing.assert_close(again(ids).logits, wanted, atol=1e-4, rtol=1e-4)
    again.lm_head.weight = nn.Parameter(torch.zeros(SIZE, 32))
    assert not again(ids).logits.any()
    with pytest.raises(ModelError, match=r"a weight of shape \(3, 32\)"):
        again.lm_head.weight = torch.zeros(3, 32)
    with pytest.raises(RuntimeError, match="Missing key.*lm_head.weight|size mismatch for lm_head.weight"):
        again.load_state_dict({**one.state_dict(), "lm_head.weight": torch.zeros(3, 32)})


def test_other_kinds_of_rows() -> None:
    found, plain = packed(), linear()
    rows = torch.ones(2, 40)
    torch.testing.assert_close(found(rows.to(torch.bfloat16)), plain(rows), atol=1e-4, rtol=1e-4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert found(plain.weight[:3]).shape == (3, 24)
    with pytest.raises(ModelError, match="a layer of 40 inputs was given rows of 41"):
        found(torch.ones(2, 41))


def test_what_is_not_a_plain_linear_layer_stays() -> None:
    class Other(nn.Linear):
        pass

    hooked = linear()
    hooked.register_forward_hook(lambda *_: None)
    holder = nn.Sequential(Other(4, 4), linear(torch.float16), linear(torch.float64), hooked, nn.LayerNorm(4))
    before = list(holder)
    assert pack_linear(holder) == 0
    assert all(one is other for one, other in zip(holder, before, strict=True))


def test_a_layer_in_two_places_stays_one() -> None:
    shared = linear()
    holder = nn.ModuleList([nn.Sequential(shared), nn.Sequential(shared)])
    pack_linear(holder)
    assert holder[0][0] is holder[1][0]  # type: ignore[index]


@pytest.mark.parametrize("name", ["llama", "mistral", "falcon", "gpt2", "bloom", "qwen3_next"])
def test_models_score_as_before(name: str) -> None:
    tokens = [3, 9, 4, 7, 20, 11, 30, 8]
    model = tiny_model(name)
    before = sg.wrap(model, tiny_tokenizer()).start([tokens[:1]]).append_scored([tokens[1:]])[0]
    pack_linear(model)
    after = sg.wrap(model, tiny_tokenizer()).start([tokens[:1]]).append_scored([tokens[1:]])[0]
    np.testing.assert_allclose(after, before, atol=1e-4)


def test_a_packed_model_can_be_saved(tmp_path: Any) -> None:
    model = tiny_model("llama")
    wanted = {name: value.clone() for name, value in model.state_dict().items()}
    pack_linear(model)
    model.save_pretrained(tmp_path)
    tiny_tokenizer().save_pretrained(tmp_path)
    again = sg.load(tmp_path, device="cpu", pack=False).model
    assert not any(isinstance(module, PackedLinear) for module in again.modules())
    for name, value in again.state_dict().items():
        assert torch.equal(value, wanted[name]), name
    loaded = sg.load(tmp_path, device="cpu").model
    assert type(loaded.lm_head) is (PackedLinear if can_pack(torch.float32) else nn.Linear)


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="this system does not list mapped files")
def test_a_packed_model_does_not_hold_its_file(tmp_path: Path) -> None:
    tiny_model("llama").save_pretrained(tmp_path)
    tiny_tokenizer().save_pretrained(tmp_path)

    def is_mapped() -> bool:
        return str(tmp_path) in Path("/proc/self/maps").read_text("utf-8")

    plain = sg.load(tmp_path, device="cpu", pack=False)
    assert is_mapped()
    ids = torch.tensor([[3, 9, 4]])
    wanted = plain.model(ids).logits.detach()
    del plain
    gc.collect()
    assert not is_mapped()
    packed = sg.load(tmp_path, device="cpu")
    assert is_mapped() != can_pack(torch.float32)
    torch.testing.assert_close(packed.model(ids).logits.detach(), wanted, atol=1e-4, rtol=1e-4)


def test_pages_that_were_dropped_are_read_again(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    wanted = torch.randn(512, 512)
    save_file({"weight": wanted}, tmp_path / "model.safetensors")
    mapped, own = load_file(tmp_path / "model.safetensors")["weight"], wanted.clone()
    for weight in (mapped, own):  # the second is mapped from no file, and keeps its pages
        _drop_pages(weight, _mapped_files())
        assert torch.equal(weight, wanted)


def test_copies_larger_than_what_is_packed_are_not_made() -> None:
    model = nn.Sequential(linear(), nn.Embedding(10_000, 8))
    pack_linear(model)
    held = model[1].weight.data_ptr()
    unmap(model)
    assert model[1].weight.data_ptr() == held


def test_processors_with_wide_registers_pack() -> None:
    if "AVX" not in torch.backends.cpu.get_cpu_capability():
        pytest.skip("this CPU has no AVX, and layers are packed for no other")
    assert can_pack(torch.float32)


def test_operators_that_do_something_else_are_not_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    for product in (lambda rows, packed, bias: rows @ rows.t(), lambda *_: torch.zeros(3, 24)):
        monkeypatch.setattr("structgen.models.packed._product", product)
        assert not can_pack(torch.float32)
        assert pack_linear(nn.Sequential(linear())) == 0


def test_options() -> None:
    with pytest.raises(OptionError, match="pack is 'yes'"):
        sg.load(pack="yes")  # type: ignore[arg-type]
