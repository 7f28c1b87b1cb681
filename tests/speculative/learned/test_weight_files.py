"""Files of weights: types and shapes are checked before memory is taken, and no random number is drawn."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from safetensors import safe_open  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402

from structgen.errors import ModelError, OptionError  # noqa: E402
from structgen.generation import SamplingOptions, generate_tokens  # noqa: E402
from structgen.speculative import Fixed, Speculation  # noqa: E402
from structgen.speculative.learned import (  # noqa: E402
    AcceptanceHead,
    DraftWeights,
    Eagle,
    Kangaroo,
    NestedLayers,
    PromptTokens,
    acceptance_head,
    load_drafter,
    load_weights,
    save_judge,
    save_weights,
)
from structgen.speculative.learned.eagle import EagleSizes  # noqa: E402
from structgen.speculative.learned.heads import HeadSizes  # noqa: E402
from structgen.speculative.learned.int8_linear import with_int8  # noqa: E402
from structgen.speculative.learned.kangaroo import KangarooSizes  # noqa: E402
from structgen.speculative.learned.layers import LayerSizes  # noqa: E402
from structgen.speculative.learned.loading import check_tensors  # noqa: E402
from structgen.speculative.learned.nested_layers import NestedSizes  # noqa: E402
from structgen.speculative.learned.number_types import WHOLES  # noqa: E402
from structgen.speculative.learned.prompt_tokens import PromptTokenSizes  # noqa: E402
from structgen.speculative.lossy import Judge  # noqa: E402
from structgen.speculative.whole_files import replacing  # noqa: E402
from tests.speculative.tiny_sessions import Model  # noqa: E402

from .test_eagle import SIZES, random_weights  # noqa: E402

LAYER = SIZES.as_dict()["layer"]
WRONG_NUMBERS = [None, "8", 1.5, -1, True, 1 << 40, float("nan"), [8], {}]
WRONG_FLAGS = [None, 0, 1, "yes", []]
HUGE = 10**400


@pytest.mark.parametrize("value", WRONG_NUMBERS)
@pytest.mark.parametrize(
    ("sizes", "given", "names"),
    [
        (LayerSizes, LAYER, ("hidden", "heads", "kv_heads", "head_size", "mlp")),
        (EagleSizes, {**vars(SIZES)}, ("output_rows", "embedding_rows", "sampler", "tokens_a_pass")),
        (
            HeadSizes,
            {"hidden": 8, "layer": 2, "count": 2},
            ("hidden", "layer", "count", "reads", "blocks", "inner", "output_rows"),
        ),
        (KangarooSizes, {"layer": SIZES.layer, "exit_layer": 1}, ("exit_layer",)),
        (PromptTokenSizes, {"hidden": 8, "count": 2}, ("hidden", "count")),
    ],
)
def test_sizes_are_whole_numbers(
    sizes: Any, given: dict[str, Any], names: tuple[str, ...], value: Any
) -> None:
    assert sizes(**given)
    for name in names:
        with pytest.raises(ValueError, match=name):
            sizes(**{**given, name: value})


@pytest.mark.parametrize("value", [None, "1", True, 0, -1.0, float("nan"), float("inf"), HUGE, [1.0]])
def test_other_sizes_are_positive_numbers(value: Any) -> None:
    for name in ("rope_theta", "eps"):
        with pytest.raises(ValueError, match=name):
            LayerSizes(**{**LAYER, name: value})
    with pytest.raises(ValueError, match="frequencies"):
        LayerSizes(**{**LAYER, "frequencies": [1.0, 0.1, 0.01, value]})


@pytest.mark.parametrize("value", WRONG_FLAGS)
def test_flags_are_true_or_false(value: Any) -> None:
    for name in ("qkv_bias", "output_bias", "normed_input", "norm_before_residual"):
        with pytest.raises(ValueError, match=name):
            LayerSizes(**{**LAYER, name: value})
    for name in ("fuse_bias", "fuses_embeddings", "normed_embeddings", "normed_output", "second_output"):
        with pytest.raises(ValueError, match=name):
            replace(SIZES, **{name: value})
    with pytest.raises(ValueError, match="trigrams"):
        HeadSizes(8, 2, 2, trigrams=value)


@pytest.mark.parametrize("value", [["a"], [1.5, 2], [-1, 2], [True, 2], [], "12", [None], [[1]], [1, HUGE]])
def test_lists_of_layers(value: Any) -> None:
    with pytest.raises(ModelError, match="hidden_layers"):
        Eagle(with_layers(value))
    with pytest.raises(ValueError, match="exits"):
        NestedSizes(SIZES.layer, value)


def with_layers(layers: Any) -> DraftWeights:
    weights = random_weights()
    return replace(weights, sizes={**weights.sizes, "hidden_layers": layers})


def test_other_layers_have_the_width_of_the_heads() -> None:
    with pytest.raises(ValueError, match="32 numbers is no part of heads of 8"):
        HeadSizes(8, 2, 2, context_layer=SIZES.layer)
    with pytest.raises(ValueError, match="3 frequencies"):
        LayerSizes(**{**LAYER, "frequencies": [1.0, 0.1, 0.01]})


def changed(path: Path, about: Callable[[dict[str, Any]], Any] | None, **tensors: Any) -> None:
    """Write the file of weights again with other metadata and other tensors; None leaves a tensor out."""
    save_weights(random_weights(), path)
    stored = {name: tensor for name, tensor in {**load_file(path), **tensors}.items() if tensor is not None}
    with safe_open(path, "pt") as file:
        metadata = json.loads(file.metadata()["structgen"])
    metadata = metadata if about is None else about(metadata)
    save_file(stored, path, metadata={"structgen": json.dumps(metadata)})


METADATA = [
    {"notes": ["a"]},
    {"notes": None},
    {"notes": "text"},
    {"vocabulary": 3},
    {"vocabulary": None},
    {"kind": ["eagle"]},
    {"kind": None},
    {"sizes": [1]},
]


@pytest.mark.parametrize("entry", METADATA)
def test_metadata_of_other_types(entry: dict[str, Any], tmp_path: Path) -> None:
    changed(tmp_path / "w", lambda about: {**about, **entry})
    with pytest.raises(ModelError, match=next(iter(entry))):
        load_weights(tmp_path / "w")
    changed(tmp_path / "w", lambda about: [about])
    with pytest.raises(ModelError, match="no weights of a structgen drafter"):
        load_weights(tmp_path / "w")
    changed(tmp_path / "w", lambda about: {name: about[name] for name in about if name != "notes"})
    assert load_weights(tmp_path / "w").notes == {}


IDS = torch.tensor([3, 4, 5])


@pytest.mark.parametrize(
    "ids",
    [
        IDS.float(),
        IDS.to(torch.complex64),
        IDS.to(torch.float8_e4m3fn),
        IDS.to(torch.bfloat16),
        IDS > 3,
        IDS[None],
        IDS[:0],
        IDS.flip(0),
        IDS - 4,
        torch.tensor([5, 3], dtype=torch.uint8),  # their difference overflows
        torch.tensor([(1 << 63) - 1, -5]),
        None,
    ],
)
def test_lists_of_tokens_of_other_types(ids: Any, tmp_path: Path) -> None:
    changed(tmp_path / "w", None, token_ids=ids)
    with pytest.raises(ModelError, match="does not list the tokens"):
        load_weights(tmp_path / "w")


@pytest.mark.parametrize("dtype", WHOLES)
def test_lists_of_tokens_of_any_whole_numbers(dtype: torch.dtype, tmp_path: Path) -> None:
    changed(tmp_path / "w", None, token_ids=IDS.to(dtype))
    assert load_weights(tmp_path / "w").token_ids.tolist() == IDS.tolist()


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("output_norm.weight", torch.float8_e4m3fn),
        ("output_norm.weight", torch.complex64),
        ("output_norm.weight", torch.int32),
        ("output_norm.weight", torch.bool),
        ("fuse.weight", torch.float32),
        ("fuse.weight", torch.uint8),
        ("fuse.weight.factors", torch.int32),
        ("fuse.weight.factors", torch.float8_e5m2),
    ],
)
def test_tensors_of_other_types(name: str, dtype: Any, tmp_path: Path) -> None:
    save_weights(random_weights(), tmp_path / "w")
    tensor = load_file(tmp_path / "w")[name].to(dtype)
    changed(tmp_path / "w", None, **{name: tensor})
    with pytest.raises(ModelError, match="numbers of type"):
        load_weights(tmp_path / "w")


def test_half_and_double_precision_can_be_read(tmp_path: Path) -> None:
    plain = random_weights().tensors["output_norm.weight"]
    for dtype in (torch.float16, torch.bfloat16, torch.float64):
        changed(tmp_path / "w", None, **{"output_norm.weight": plain.to(dtype)})
        found = load_weights(tmp_path / "w").tensors["output_norm.weight"]
        assert found.dtype == torch.float32 and torch.allclose(found, plain, atol=0.02)


def test_large_sizes_take_no_memory_before_shapes_are_compared(tmp_path: Path) -> None:
    """The matrices of this layer would take more than 100 GB each."""
    layer = {**LAYER, "mlp": 1 << 20, "heads": 1 << 18, "kv_heads": 1 << 18, "head_size": 1 << 12}
    changed(tmp_path / "w", lambda about: {**about, "sizes": {**about["sizes"], "layer": layer}})
    assert (tmp_path / "w").stat().st_size < 64_000
    drafter = load_drafter(tmp_path / "w")
    with pytest.raises(ModelError, match="the tensor layer.q.weight has the shape .*by the sizes"):
        drafter.prepare(Model("llama"))
    with pytest.raises(ModelError, match="shapes of their sizes"):
        check_tensors(drafter.weights)


def test_shapes_are_compared_with_the_sizes() -> None:
    weights = random_weights()
    check_tensors(weights)
    check_tensors(replace(weights, tensors={**weights.tensors, **AcceptanceHead(32).tensors()}))
    less = {name: tensor for name, tensor in weights.tensors.items() if name != "fuse.weight"}
    for tensors, text in (
        (less, "the tensor fuse.weight is absent, and has the shape"),
        ({**weights.tensors, "more": torch.ones(2)}, r"the tensor more has the shape \(2,\), and is absent"),
        ({**weights.tensors, "fuse.weight": torch.ones(2)}, r"fuse.weight has the shape \(2,\), and has"),
        ({name: tensor.int() for name, tensor in weights.tensors.items()}, "numbers of type torch.int32"),
    ):
        with pytest.raises(ModelError, match=text):
            check_tensors(replace(weights, tensors=tensors))
        with pytest.raises(ModelError, match=text):
            Eagle(replace(weights, tensors=tensors)).prepare(Model("llama"))


def test_rows_of_own_tables_fit_the_tokens() -> None:
    for sizes, text in (
        (replace(SIZES, output_rows=19), "19 rows for the 20 tokens"),
        (replace(SIZES, embedding_rows=20), "20 embeddings for 48 tokens"),
    ):
        with pytest.raises(ModelError, match=text):
            Eagle(random_weights(sizes=sizes)).prepare(Model("llama"))


def test_drafting_draws_no_number_of_the_global_stream() -> None:
    weights = random_weights()
    weights = replace(weights, tensors={**weights.tensors, **AcceptanceHead(32).tensors()})
    model = Model("llama")
    torch.manual_seed(5)
    before = torch.get_rng_state()
    drafter = Eagle(weights, least=0.0, acceptance=acceptance_head(weights))
    drafting: Any = Speculation([drafter], controller=Fixed(3)).start(model)  # type: ignore[arg-type]
    options = SamplingOptions(temperature=0.0, max_tokens=8)
    generate_tokens(model, [[5, 6, 7]], [None], options, drafting=drafting)  # type: ignore[arg-type]
    network = torch.nn.Sequential(torch.nn.Linear(64, 64, device="meta")).to_empty(device="cpu")
    with_int8(network.to(torch.bfloat16))
    assert torch.equal(torch.get_rng_state(), before)


def test_the_network_has_weights_of_its_own() -> None:
    weights = random_weights()
    fitted = Eagle(weights).prepare(Model("llama"))
    fitted.network.output_norm.weight.zero_()
    assert weights.tensors["output_norm.weight"].any()


@pytest.mark.parametrize("path", ["/", "", ".", "a\0b"])
def test_names_that_no_file_can_have(path: str) -> None:
    with pytest.raises(ModelError, match="cannot be written"):
        save_weights(random_weights(), path)
    with pytest.raises(ModelError, match="cannot be written"):
        save_judge(Judge([1.0], 0.0, 0.5), path, "vocabulary")
    with pytest.raises(ModelError):
        load_weights(path)


def test_options_that_a_drafter_does_not_have(tmp_path: Path) -> None:
    save_weights(random_weights(), tmp_path / "w")
    with pytest.raises(OptionError, match="kind 'eagle' has no option 'wrong'") as error:
        load_drafter(tmp_path / "w", wrong=3)
    assert "least, most, width" in str(error.value.hint)
    with pytest.raises(OptionError, match="no option 'threshold'"):
        load_drafter(tmp_path / "w", threshold=0.5)
    assert load_drafter(tmp_path / "w", most=3).most == 3
    for kind, own in ((Kangaroo, "threshold"), (NestedLayers, "confidence"), (PromptTokens, "ends")):
        kind.check_options(["most", "least", "width", "acceptance", own])


def test_a_head_can_be_left_out_of_any_drafter(tmp_path: Path) -> None:
    tensors = {"embeddings": torch.zeros(2, 32)}
    prompt_tokens = replace(
        random_weights(), kind="prompt-tokens", sizes={"hidden": 32, "count": 2}, tensors=tensors
    )
    for weights in (random_weights(), prompt_tokens):
        save_weights(weights, tmp_path / "w")
        assert load_drafter(tmp_path / "w", acceptance=None).acceptance is None
    with pytest.raises(OptionError, match="prompt tokens have none"):
        load_drafter(tmp_path / "w", acceptance=AcceptanceHead(32))


def test_files_are_replaced_whole_and_readable(tmp_path: Path) -> None:
    path = tmp_path / "draft"
    save_weights(random_weights(), path)
    assert path.stat().st_mode & 0o777 == 0o666 & ~_umask()
    before = path.read_bytes()
    with pytest.raises(ModelError, match="cannot be written"):
        save_weights(random_weights(), tmp_path / "no" / "folder")
    with pytest.raises(KeyboardInterrupt):
        _interrupted_at(path)
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]


def _interrupted_at(path: Path) -> None:
    with replacing(path, "it") as file:
        file.write(b"half")
        raise KeyboardInterrupt


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
