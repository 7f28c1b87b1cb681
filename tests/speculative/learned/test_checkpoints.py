"""Checkpoints of other projects: their drafters score tokens as the published forward passes do."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from structgen.draft_training.online import OnlineDrafter  # noqa: E402
from structgen.draft_training.texts import Text  # noqa: E402
from structgen.draft_training.trimming import trimmed  # noqa: E402
from structgen.errors import ModelError, VocabularyMismatch  # noqa: E402
from structgen.generation.drafting import RowStates  # noqa: E402
from structgen.models.session import start_session  # noqa: E402
from structgen.speculative.drafters import Context, Start  # noqa: E402
from structgen.speculative.learned import (  # noqa: E402
    Eagle,
    load_checkpoint,
    load_drafter,
    load_weights,
    save_weights,
)
from structgen.speculative.learned.loading import drafter_of  # noqa: E402
from tests.models.tiny import SIZE, tiny_tokenizer  # noqa: E402
from tests.speculative.tiny_sessions import VOCABULARY, Model  # noqa: E402

from . import published  # noqa: E402
from .published import HEAD, HIDDEN, LAYER_CONFIG, EightLayers, Tensors, write  # noqa: E402

DRAFTED = [3, 4, 7, 11, 12, 19, 20, 21, 30, 33, 40, 46]
PATHS = [[], [5], [9], [5, 6], [5, 7], [9, 2], [5, 7, 8]]


class Anything:
    """A context's matcher of a row without a constraint."""


def check_scores(
    drafter: Any,
    model: Model,
    wanted: Any,
    *,
    ids: list[int],
    paths: list[list[int]] = PATHS,
    pending: int = 2,
) -> None:
    """Compare the logits at nodes of a draft with `wanted(tokens, read)`, after a step back, too."""
    rng = np.random.default_rng(3)
    tokens = [int(i) for i in rng.integers(2, SIZE, size=7)]
    layers = drafter.hidden_layers
    session: Any = start_session(model.model, SIZE, [tokens], layers)
    row = drafter.start(Start(tuple(tokens), VOCABULARY, model=model))
    seen, checked = len(tokens), 0
    for turn in range(3):
        if turn == 2:  # a step back
            del tokens[-3:]
            session.rollback(0, len(session._tokens[0]) - len(tokens))
            seen = len(tokens)
        tokens += [int(i) for i in rng.integers(2, SIZE, size=pending)]
        row.observe(tokens, seen)
        seen, read = len(tokens), len(tokens) - pending
        session.append([tokens[len(session._tokens[0]) : read]])
        for path in paths:
            context = Context(
                [*tokens, *path], Anything(), VOCABULARY, drafted=len(path), is_constrained=False
            )
            context.hidden = RowStates.of(session, 0, layers, read)
            scores = row._known(context)
            if scores is None:
                continue
            with torch.inference_mode():
                expected = wanted(context.tokens, read)
            assert scores.logits.shape == expected.shape
            np.testing.assert_allclose(scores.logits, expected, rtol=2e-3, atol=2e-3)
            best = row.propose(context)
            assert best[0].tokens == (ids[int(expected.argmax())],)
            checked += 1
    assert checked >= 9


def with_own_outputs(step: Any, states: Any, tokens: list[int]) -> Any:
    """Return the output at the last position but one, with the drafter's outputs in place of states not known."""
    while len(states) < len(tokens) - 1:
        states = torch.cat([states, step(states, tokens[1 : len(states) + 1])[-1:]])
    return step(states, tokens[1:])[-1]


def eagle_logits(model: Model, t: Tensors, frequencies: list[float] | None = None) -> Any:
    """Return EAGLE-1's forward pass; its optional norms are those of `speculators`."""

    def step(states: Any, tokens: list[int]) -> Any:
        embedded = t["embed_tokens.weight"][tokens]
        if "embedding_norm" in t:
            embedded = published.normed(embedded, t["embedding_norm"])
        inputs = torch.cat([embedded, states], -1) @ t["fc.weight"].T + t.get("fc.bias", 0)
        attended = inputs
        if "layers.0.input_layernorm.weight" in t:
            attended = published.normed(inputs, t["layers.0.input_layernorm.weight"])
        turns = frequencies or published.llama_frequencies()
        return published.mlp(t, "layers.0.", inputs + published.attention(t, "layers.0.", attended, turns, 1))

    def wanted(tokens: list[int], read: int) -> Any:
        last = with_own_outputs(step, published.final_states(model, tokens[:read]), tokens)
        if "output_norm" in t:
            last = published.normed(last, t["output_norm"])
        return (model.model.get_output_embeddings().weight @ last).numpy()

    return wanted


def eagle3_logits(
    model: Model, t: Tensors, prefix: str, layers: tuple[int, ...], *, norm_first: bool = False
) -> Any:
    """Return EAGLE-3's forward pass."""

    def step(states: Any, tokens: list[int]) -> Any:
        embedded = published.normed(t["embed_tokens.weight"][tokens], t[f"{prefix}input_layernorm.weight"])
        hidden = published.normed(states, t[f"{prefix}hidden_norm.weight"])
        attended = published.attention(
            t, prefix, torch.cat([embedded, hidden], -1), published.llama_frequencies()
        )
        return published.mlp(t, prefix, (hidden if norm_first else states) + attended)

    def wanted(tokens: list[int], read: int) -> Any:
        states = published.layer_inputs(model, tokens[:read], layers)
        if "input_norm.weight" in t:
            states = published.normed(states, t["input_norm.weight"])
        states = states @ t["fc.weight"].T + t.get("fc.bias", 0)
        last = published.normed(with_own_outputs(step, states, tokens), t["norm.weight"])
        return (t["lm_head.weight"] @ last).numpy()

    return wanted


@pytest.mark.parametrize("name", ["llama", "gpt2"])
@pytest.mark.parametrize(
    ("blocks", "prefix", "file"),
    [
        (1, "", "medusa_lm_head.safetensors"),
        (2, "medusa_head.", "medusa_lm_head.pt"),
        (0, "", "medusa_lm_head.pt"),
    ],
)
def test_medusa(name: str, blocks: int, prefix: str, file: str, tmp_path: Path) -> None:
    model, t = Model(name), published.medusa(1, 4, blocks, prefix)
    config = {"medusa_num_heads": 4, "medusa_num_layers": blocks, "base_model_name_or_path": "some/model"}
    drafter = load_drafter(write(tmp_path / "m", config, t, file), model, most=8)

    def wanted(tokens: list[int], read: int) -> Any:
        state, head = published.final_states(model, tokens[:read])[-1], len(tokens) - read - 1
        for block in range(blocks):
            place = f"{prefix}{head}.{block}.linear"
            state = state + torch.nn.functional.silu(t[f"{place}.weight"] @ state + t[f"{place}.bias"])
        return (t[f"{prefix}{head}.{blocks}.weight"] @ state).numpy()

    check_scores(drafter, model, wanted, ids=list(range(SIZE)), pending=1)
    check_scores(load_drafter(tmp_path / "m" / file, model, most=8), model, wanted, ids=list(range(SIZE)))
    # Trimmed, each head keeps its own rows of these tokens, and the notes on where they came from.
    weights = trimmed(drafter.weights, [Text([2], DRAFTED, "free text", 0.0)], 100)
    assert weights.notes == drafter.weights.notes
    assert weights.notes["base model"] == "some/model"
    assert weights.tensors["output.3.weight"].shape == (len(DRAFTED), HIDDEN)
    fewer = drafter_of(weights, most=8)
    check_scores(fewer, model, lambda tokens, read: wanted(tokens, read)[DRAFTED], ids=DRAFTED, pending=1)


def test_medusa_without_a_config_and_with_the_models_output_layer(tmp_path: Path) -> None:
    model = Model("llama")
    t = {name: each for name, each in published.medusa(2, 3, 1).items() if "linear" in name}
    drafter = load_checkpoint(
        write(tmp_path / "m", None, t, "medusa_lm_head.safetensors"), model, most=8, least=0.0
    )
    assert not any(name.startswith("output") for name in drafter.weights.tensors)

    def wanted(tokens: list[int], read: int) -> Any:
        state, place = published.final_states(model, tokens[:read])[-1], f"{len(tokens) - read - 1}.0.linear"
        state = state + torch.nn.functional.silu(t[f"{place}.weight"] @ state + t[f"{place}.bias"])
        return (model.model.get_output_embeddings().weight @ state).numpy()

    check_scores(drafter, model, wanted, ids=list(range(SIZE)), pending=1)


@pytest.mark.parametrize("name", ["llama", "gpt2"])
@pytest.mark.parametrize(("bias", "attention_bias"), [(True, ""), (False, "qkv")])
def test_eagle(name: str, bias: bool, attention_bias: str, tmp_path: Path) -> None:
    model = Model(name)
    t = published.eagle(1, model, bias=bias, attention_bias=attention_bias)
    drafter = load_drafter(
        write(tmp_path / "e", LAYER_CONFIG, t, "pytorch_model.bin"), model, least=0.0, most=8
    )
    assert drafter.hidden_layers == (2,)
    assert "embeddings.weight" not in drafter.weights.tensors, "they are the model's"
    check_scores(drafter, model, eagle_logits(model, t), ids=list(range(SIZE)))


def test_eagle_with_embeddings_of_its_own_and_scaled_positions(tmp_path: Path) -> None:
    model = Model("llama")
    t = published.eagle(4, model)
    t["embed_tokens.weight"] = t["embed_tokens.weight"] + 0.5
    config = {**LAYER_CONFIG, "rope_theta": 5e5, "rope_scaling": {"type": "linear", "factor": 4.0}}
    drafter = load_drafter(write(tmp_path / "e", config, t), model, least=0.0, most=8)
    turns = [each / 4 for each in published.llama_frequencies(5e5)]
    check_scores(drafter, model, eagle_logits(model, t, turns), ids=list(range(SIZE)))


@pytest.mark.parametrize("norms", [False, True])
def test_eagle_of_speculators(norms: bool, tmp_path: Path) -> None:
    model, t = Model("llama"), published.eagle(7, Model("llama"))
    if norms:
        extra = published.random(
            9, embedding_norm=(HIDDEN,), output_norm=(HIDDEN,), layers__0__input_layernorm__weight=(HIDDEN,)
        )
        t |= extra
    names = {
        "fc.": "fusion_fc.",
        "layers.0.": "transformer.",
        "embedding_norm": "embedding_layernorm.weight",
        "output_norm": "pre_lm_head_layernorm.weight",
    }
    renamed = {}
    for name, tensor in t.items():
        for theirs, ours in names.items():
            name = name.replace(theirs, ours)
        if name != "embed_tokens.weight":
            renamed[name] = tensor
    # As transformers write it: without entries that are equal to a default.
    config = {
        "speculators_model_type": "eagle",
        "layernorms": norms,
        "fusion_bias": True,
        "transformer_layer_config": {
            key: value
            for key, value in LAYER_CONFIG.items()
            if key not in ("num_key_value_heads", "rms_norm_eps")
        },
        "speculators_config": {
            "verifier": {"name_or_path": "some/model", "architectures": ["LlamaForCausalLM"]}
        },
    }
    drafter = load_drafter(write(tmp_path / "e", config, renamed), model, least=0.0, most=8)
    check_scores(drafter, model, eagle_logits(model, t), ids=list(range(SIZE)))


@pytest.mark.parametrize("ids", [DRAFTED, DRAFTED[::-1]])
def test_eagle3(ids: list[int], tmp_path: Path) -> None:
    model, t = EightLayers(), published.eagle3(1, ids)
    config = {**LAYER_CONFIG, "draft_vocab_size": len(ids)}
    drafter = load_drafter(write(tmp_path / "e", config, t, "pytorch_model.bin"), model, least=0.0, most=8)
    assert drafter.hidden_layers == (2, 4, 5)
    assert drafter.weights.token_ids.tolist() == sorted(ids)
    inner = eagle3_logits(model, t, "midlayer.", (2, 4, 5))
    order = np.argsort(ids)
    check_scores(drafter, model, lambda tokens, read: inner(tokens, read)[order], ids=sorted(ids))


@pytest.mark.parametrize("norm_first", [False, True])
def test_eagle3_of_speculators(norm_first: bool, tmp_path: Path) -> None:
    model, t = EightLayers(), published.eagle3(2, DRAFTED, "layers.0.")
    if norm_first:
        t |= published.random(5, fc__bias=(HIDDEN,), input_norm__weight=(3 * HIDDEN,))
    config = {
        "speculators_model_type": "eagle3",
        "draft_vocab_size": len(DRAFTED),
        "norm_before_residual": norm_first,
        "eagle_aux_hidden_state_layer_ids": [1, 3, 6],
        "transformer_layer_config": LAYER_CONFIG | {"head_dim": HEAD},
    }
    folder = write(tmp_path / "e", config, t)
    drafter = load_drafter(folder, model, least=0.0, most=8)
    wanted = eagle3_logits(model, t, "layers.0.", (1, 3, 6), norm_first=norm_first)
    check_scores(drafter, model, wanted, ids=DRAFTED)
    with pytest.raises(ModelError, match="cannot go on learning"):
        OnlineDrafter(drafter)
    # Trimmed, it gives the same logits to fewer tokens.
    kept = DRAFTED[1::2]
    text = Text([2], kept, "free text", 0.0)
    fewer = Eagle(trimmed(drafter.weights, [text], 100), least=0.0, most=8)
    check_scores(fewer, model, lambda tokens, read: wanted(tokens, read)[1::2], ids=kept)
    # Saved in our own format, it is the same drafter, with weights of 8 bits.
    save_weights(drafter.weights, tmp_path / "own.safetensors")
    again = load_drafter(tmp_path / "own.safetensors")
    assert again.sizes.as_dict().keys() == drafter.sizes.as_dict().keys()
    assert again.prepare(model).head.token_ids.tolist() == DRAFTED
    assert load_weights(tmp_path / "own.safetensors").notes["base model"] is None


def test_frequencies_of_llama_3(tmp_path: Path) -> None:
    """Low frequencies are divided by the factor, high ones stay, and those between are blended."""
    from structgen.speculative.learned.checkpoint_eagle import _frequencies
    from structgen.speculative.learned.checkpoint_files import Checkpoint

    scaling = {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64,
    }
    config = {"rope_theta": 1e4, "rope_scaling": scaling, "max_position_embeddings": 512}
    folder = write(tmp_path / "e", config, {"x": torch.ones(1)})
    found = _frequencies(Checkpoint(folder), HEAD)
    for frequency, plain in zip(found, published.llama_frequencies(), strict=True):
        periods = 64 * plain / (2 * np.pi)
        share = min(1.0, max(0.0, (periods - 1) / 3))
        assert frequency == pytest.approx(share * plain + (1 - share) * plain / 8, rel=1e-5)


def failing(model: Any, folder: Path, *texts: str, error: type[Exception] = ModelError) -> None:
    with pytest.raises(error) as caught:
        load_drafter(folder, model)
    message = f"{caught.value} {getattr(caught.value, 'hint', '')}"
    for text in texts:
        assert text in message, message


def test_checkpoints_of_other_models(tmp_path: Path) -> None:
    model, t = Model("llama"), published.medusa(1, 2, 1)
    medusa = {"medusa_num_heads": 2, "medusa_num_layers": 1, "base_model_name_or_path": "some/model"}
    cut = {name: each[..., :16] if name.endswith("weight") else each for name, each in t.items()}
    file = "medusa_lm_head.safetensors"
    folder = write(tmp_path / "a", medusa, cut, file)
    failing(model, folder, str(folder / file), "0.0.linear.weight", "(32, 16)", "(32, 32)", "some/model")
    longer = {**t, "1.1.weight": torch.ones(SIZE + 2, HIDDEN)}
    failing(model, write(tmp_path / "a", medusa, longer, file), "1.1.weight", "(50, 32)", "(48, 32)")
    e, e3 = published.eagle(1, model), published.eagle3(1, DRAFTED)
    for key, value in (("hidden_size", 64), ("vocab_size", 99)):
        folder = write(tmp_path / "b", {**LAYER_CONFIG, key: value}, e)
        failing(model, folder, "config.json", key, str(value), str(LAYER_CONFIG[key]))
    folder = write(tmp_path / "c", LAYER_CONFIG, e3)
    failing(model, folder, "n - 3", "2 layers")
    for layers in ([1, 3, 9], [2, 4, 8], [-1, 2, 3], [], "all"):
        config = {**LAYER_CONFIG, "eagle_config": {"eagle_aux_hidden_state_layer_ids": layers}}
        failing(EightLayers(), write(tmp_path / "c", config, e3), "eagle_aux_hidden_state_layer_ids")
    far = {**e3, "d2t": e3["d2t"] + SIZE}
    failing(EightLayers(), write(tmp_path / "c", LAYER_CONFIG, far), "d2t", "48 tokens")
    without = {name: each for name, each in e3.items() if name != "d2t"}
    failing(EightLayers(), write(tmp_path / "c", LAYER_CONFIG, without), "12 rows", "d2t")
    config = {**LAYER_CONFIG, "speculators_config": {"verifier": {"architectures": ["Qwen3ForCausalLM"]}}}
    folder, model = write(tmp_path / "d", config, e), Model("llama")
    model.model.config.architectures = ["LlamaForCausalLM"]
    failing(model, folder, "Qwen3ForCausalLM", "LlamaForCausalLM")
    config = {
        **LAYER_CONFIG,
        "speculators_config": {"verifier": {"architectures": [["Qwen3ForCausalLM"], 3]}},
    }
    failing(model, write(tmp_path / "d", config, e), "Qwen3ForCausalLM", "LlamaForCausalLM")


def test_tokenizers_that_differ(tmp_path: Path) -> None:
    model = Model("llama")
    folder = write(tmp_path / "e", LAYER_CONFIG, published.eagle(1, model))
    tiny_tokenizer().save_pretrained(folder)
    (folder / "config.json").write_text(json.dumps(LAYER_CONFIG))
    failing(model, folder, "tokenizer.json", "token ", error=VocabularyMismatch)
    model.vocabulary = type(VOCABULARY).from_tokenizer(tiny_tokenizer(), size=SIZE)
    assert load_drafter(folder, model).prepare(model)


def test_files_that_are_not_complete(tmp_path: Path) -> None:
    model = Model("llama")
    t = published.eagle(1, model)
    for name in ("model.safetensors", "pytorch_model.bin"):
        folder = write(tmp_path / name, LAYER_CONFIG, t, name)
        content = (folder / name).read_bytes()
        for size in (0, 5, len(content) // 2, len(content) - 7):
            (folder / name).write_bytes(content[:size])
            failing(model, folder, str(folder / name), "complete")
        for place in range(0, len(content), len(content) // 60):  # a damaged byte: an error, or other weights
            (folder / name).write_bytes(
                content[:place] + bytes([content[place] ^ 0x55]) + content[place + 1 :]
            )
            with contextlib.suppress(ModelError):
                load_drafter(folder, model)
    for missing in t:
        rest = {name: each for name, each in t.items() if name != missing}
        folder = write(tmp_path / "m", LAYER_CONFIG, rest)
        if missing in ("fc.bias", "embed_tokens.weight"):
            load_drafter(folder, model)
        else:
            failing(model, folder, "has no tensor", missing)
    folder = write(tmp_path / "m", LAYER_CONFIG, {**t, "extra.weight": torch.ones(2)})
    failing(model, folder, "extra.weight", "(2,)")
    t["fc.weight"][0, 0] = float("nan")
    failing(model, write(tmp_path / "m", LAYER_CONFIG, t), "fc.weight", "not finite")
    (folder / "config.json").write_text('{"hidden_size": ')
    failing(model, folder, "config.json", "not a complete JSON file")


def test_what_is_no_known_drafter(tmp_path: Path) -> None:
    model = Model("llama")
    failing(model, write(tmp_path / "x", {}, {"some.weight": torch.ones(2)}), "some.weight", "known format")
    (tmp_path / "empty").mkdir()
    failing(model, tmp_path / "empty", "no weights of a drafter", "model.safetensors")
    failing(model, tmp_path / "none" / "model.safetensors", "cannot be read")
    config = {"speculators_model_type": "mlp"}
    failing(model, write(tmp_path / "x", config, {"some.weight": torch.ones(2)}), "'mlp'", "eagle3")
    (tmp_path / "own").mkdir()
    for made in ({"0.1.weight": Path("x")}, torch.nn.Linear(2, 2)):
        torch.save(made, tmp_path / "own" / "medusa_lm_head.pt")
        failing(model, tmp_path / "own", "other things than tensors", "safetensors")
    torch.save({"0.1.weight": 3}, tmp_path / "own" / "medusa_lm_head.pt")
    failing(model, tmp_path / "own", "'0.1.weight'", "not a tensor")
    failing(None, tmp_path / "own", "load_drafter(path, model)")
    for changes in (
        {"hidden_act": "gelu"},
        {"rope_scaling": {"type": "dynamic", "factor": 2.0}},
        {"num_attention_heads": 0},
        {"num_attention_heads": 3},
        {"rms_norm_eps": "small"},
        {"norm_output": True},
    ):
        folder = write(tmp_path / "y", {**LAYER_CONFIG, **changes}, published.eagle(1, model))
        failing(model, folder, str(tmp_path / "y"))


@pytest.mark.filterwarnings("ignore::UserWarning")  # torch deprecates quantized tensors
@pytest.mark.parametrize(
    "convert",
    [
        lambda tensor: tensor.to(torch.float8_e4m3fn),
        lambda tensor: tensor.to(torch.complex64),
        lambda tensor: tensor.int(),
        lambda tensor: tensor > 0,
        lambda tensor: tensor.to_sparse(),
        lambda tensor: tensor.to("meta"),
        lambda tensor: torch.quantize_per_tensor(tensor, 0.1, 0, torch.qint8),
    ],
)
def test_tensors_of_other_types(convert: Any, tmp_path: Path) -> None:
    model = Model("llama")
    t = published.eagle(1, model)
    for name in ("fc.weight", "layers.0.post_attention_layernorm.weight"):
        changed = {**t, name: convert(t[name])}
        failing(model, write(tmp_path / "m", LAYER_CONFIG, changed, "pytorch_model.bin"), "tensor", name)


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64, torch.bool, torch.float8_e4m3fn])
def test_maps_of_tokens_of_other_types(dtype: Any, tmp_path: Path) -> None:
    e3 = published.eagle3(1, DRAFTED)
    folder = write(tmp_path / "c", LAYER_CONFIG, {**e3, "d2t": e3["d2t"].to(dtype)})
    failing(EightLayers(), folder, "d2t", "numbers of type")


def test_tables_with_more_rows_than_tokens_take_no_memory(tmp_path: Path) -> None:
    e3 = published.eagle3(1, DRAFTED)
    rows = torch.ones(1, 1).expand(1 << 40, HIDDEN)
    folder = write(tmp_path / "c", LAYER_CONFIG, {**e3, "lm_head.weight": rows}, "pytorch_model.bin")
    assert (folder / "pytorch_model.bin").stat().st_size < 200_000
    failing(EightLayers(), folder, "lm_head.weight has 1099511627776 rows", "48 tokens")


@pytest.mark.parametrize("value", ["a", [1], -1.0, 0, float("nan"), True, 10**400, {}])
def test_numbers_of_the_config(value: Any, tmp_path: Path) -> None:
    model = Model("llama")
    t = published.eagle(1, model)
    for key in ("rope_theta", "rms_norm_eps", "num_attention_heads", "intermediate_size"):
        failing(model, write(tmp_path / "y", {**LAYER_CONFIG, key: value}, t), str(tmp_path / "y"))
    for kind in ("default", "linear", "llama3"):
        rope = {"rope_type": kind, "rope_theta": value, "factor": 2.0}
        config = {**LAYER_CONFIG, "rope_parameters": rope}
        failing(model, write(tmp_path / "y", config, t), str(tmp_path / "y"))
    medusa = {"medusa_num_heads": 2, "medusa_num_layers": 1}
    for key, wrong in (
        ("medusa_num_heads", value),
        ("medusa_num_heads", 1 << 40),
        ("medusa_num_layers", 1 << 40),
    ):
        folder = write(tmp_path / "z", {**medusa, key: wrong}, published.medusa(1, 2, 1))
        failing(model, folder, str(tmp_path / "z"))
