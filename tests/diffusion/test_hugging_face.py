"""Masked models of transformers: small real ones, and families by their own classes with random weights."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import structgen as sg
from structgen.diffusion import Canvas, Hole, MaskedModel, Molecules, fill, load
from structgen.errors import ModelError, OptionError

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

JSON = Path(__file__).parent.parent / "data" / "json-diffusion"
PERSON = sg.json_schema(
    {
        "type": "object",
        "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
        "required": ["name", "age"],
        "additionalProperties": False,
    },
    whitespace="json.dumps",
)


@pytest.fixture(scope="module")
def writer() -> MaskedModel:
    """The small model of JSON in the test data."""
    return load(JSON, threads=1)


def test_a_model_of_json_writes_values_of_a_schema(writer: MaskedModel) -> None:
    canvas = Canvas(PERSON, writer.vocabulary, [Hole(32)], closing=writer.closing)
    for options in (
        {},
        {"tokens_per_step": 4},
        {"temperature": 1.0, "seed": 5},
        {"schedule": "entropy", "block": 16},
        {"threshold": 0.9},
        {"joint": True, "tokens_per_step": 4},
        {"early": (7.5, 5.0, 2.5)},
        {"remask": 0.2, "tokens_per_step": 4},
    ):
        filling = fill(writer, canvas, **options)
        value = json.loads(filling.text)
        assert set(value) == {"name", "age"} and float(value["age"]).is_integer(), (options, filling.text)
        frames = filling.frames(5)
        assert frames[0] == "░" * 32 and frames[-1] == filling.text and len(frames) <= 5


def test_drafts_are_taken_where_the_model_agrees(writer: MaskedModel) -> None:
    for cells in (24, 40):
        canvas = Canvas(PERSON, writer.vocabulary, [Hole(cells)], closing=writer.closing)
        slow, quick = fill(writer, canvas), fill(writer, canvas, draft=4)
        assert quick.tokens == slow.tokens and quick.order == slow.order
        assert quick.steps < slow.steps and 0 < quick.accepted <= quick.drafted


def test_texts_that_are_given_stay(writer: MaskedModel) -> None:
    canvas = Canvas(PERSON, writer.vocabulary, ['{"name": "', Hole(4), '", "age": ', Hole(2), "}"])
    value = json.loads(fill(writer, canvas).text)
    assert list(value) == ["name", "age"]


@pytest.mark.parametrize(
    ("family", "own"),
    [
        ("Bert", {"intermediate_size": 16, "num_attention_heads": 2}),
        ("Albert", {"intermediate_size": 16, "num_attention_heads": 2, "embedding_size": 8}),
        (
            "ModernBert",
            {"intermediate_size": 16, "num_attention_heads": 2, "pad_token_id": 0, "eos_token_id": 0,
             "bos_token_id": 0, "cls_token_id": 0, "sep_token_id": 0},
        ),
    ],
)  # fmt: skip
def test_families_by_their_classes(family: str, own: dict[str, Any], tmp_path: Path) -> None:
    """Saved, loaded by their folder with a table of tokens, and run."""
    torch.manual_seed(0)
    config = getattr(transformers, f"{family}Config")(
        vocab_size=16, hidden_size=16, num_hidden_layers=1, max_position_embeddings=64, **own
    )
    getattr(transformers, f"{family}ForMaskedLM")(config).save_pretrained(tmp_path)
    tokens = [None, None, *"0123456789[],"]
    content = {"tokens": tokens, "mask": 0, "closing": [1], "before": [], "after": []}
    (tmp_path / "tokens.json").write_text(json.dumps(content))
    model = load(tmp_path)
    rows = np.array([[0, 3, 0], [5, 0, 0]])
    logits = model.logits(rows)
    assert logits.shape == (2, 3, 16) and logits.dtype == np.float32
    filling = fill(model, Canvas(sg.grammar("json"), model.vocabulary, ["[", Hole(9)]), temperature=1.0)
    assert isinstance(json.loads(filling.text), list)


class _Shifted(torch.nn.Module):  # type: ignore[misc]
    """Logits that say at each place what follows there: the token whose id is one more."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))

    def forward(self, input_ids: Any) -> Any:
        logits = torch.nn.functional.one_hot((input_ids + 1) % 8, 8).float() * 9
        return type("Out", (), {"logits": logits})()


def test_logits_of_the_next_place_are_moved() -> None:
    """The form of Dream: the logits at a position are those of the next one."""
    vocabulary = sg.Vocabulary.from_tokens([None, *(bytes([byte]) for byte in b"abcdefg")], [0])
    model = MaskedModel(_Shifted(), vocabulary, mask_id=0, shift=True)
    rows = np.array([[1, 2, 3]])
    assert model.logits(rows)[0].argmax(axis=1).tolist() == [2, 2, 3]
    same = MaskedModel(_Shifted(), vocabulary, mask_id=0)
    assert same.logits(rows)[0].argmax(axis=1).tolist() == [2, 3, 4]
    assert (
        fill(model, Canvas(sg.regex("[a-g]{4}"), vocabulary, ["a", Hole(3)]), schedule="left-to-right").text
        == "abcd"
    )


_OWN_CODE = """
import torch
from transformers import PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import MaskedLMOutput


class OwnConfig(PretrainedConfig):
    model_type = "own"

    def __init__(self, vocab_size=8, **others):
        super().__init__(**others)
        self.vocab_size = vocab_size


class OwnModel(PreTrainedModel):
    config_class = OwnConfig

    def __init__(self, config):
        super().__init__(config)
        self.head = torch.nn.Linear(1, config.vocab_size)
        self.post_init()

    def forward(self, input_ids, attention_mask=None):
        return MaskedLMOutput(logits=self.head(torch.ones(*input_ids.shape, 1)))
"""


def test_models_with_python_files_of_their_own(tmp_path: Path) -> None:
    """The form of LLaDA and Dream: a configuration that names a class of ``AutoModel`` in a file of the folder."""
    (tmp_path / "own.py").write_text(_OWN_CODE)
    config = {"model_type": "own", "vocab_size": 16, "architectures": ["OwnModel"],
              "auto_map": {"AutoConfig": "own.OwnConfig", "AutoModel": "own.OwnModel"}}  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(config))
    weights = {"head.weight": torch.zeros(16, 1), "head.bias": torch.arange(16.0)}
    importlib.import_module("safetensors.torch").save_file(
        weights, tmp_path / "model.safetensors", metadata={"format": "pt"}
    )
    tokens = {"tokens": [None, None, *"0123456789[],"], "mask": 0, "closing": [1], "before": [], "after": []}
    (tmp_path / "tokens.json").write_text(json.dumps(tokens))
    with pytest.raises(ModelError, match="Python files of its own"):
        load(tmp_path)
    model = load(tmp_path, trust_remote_code=True)
    filling = fill(model, Canvas(sg.grammar("json"), model.vocabulary, ["[", Hole(6)]))
    assert isinstance(json.loads(filling.text), list)
    assert filling.timing.forward_passes == filling.steps == 6


def test_prompts() -> None:
    vocabulary = sg.Vocabulary.from_tokens([None, *(bytes([byte]) for byte in b"abcdefg")], [0])
    model = MaskedModel(
        _Shifted(), vocabulary, mask_id=0, before=[7], after=[6], encode=lambda text: [1] * len(text)
    )
    assert model.frame(None) == ([7], [6]) and model.frame("xy") == ([7, 1, 1], [6])
    assert model.frame([3, 4]) == ([7, 3, 4], [6])
    with pytest.raises(OptionError, match="no tokenizer for prompts"):
        MaskedModel(_Shifted(), vocabulary, mask_id=0).frame("x")


def test_what_is_no_masked_model(tmp_path: Path) -> None:
    vocabulary = sg.Vocabulary.from_tokens([None, *(bytes([byte]) for byte in b"abcdefg")], [0])
    for mask_id in (None, 8, -1):
        with pytest.raises(ModelError, match="no mask token"):
            MaskedModel(_Shifted(), vocabulary, mask_id=mask_id)  # type: ignore[arg-type]
    with pytest.raises(ModelError, match="there is no folder"):
        load(tmp_path / "nothing")
    with pytest.raises(ModelError, match="cannot load the masked model"):
        load(tmp_path)
    for name in ("config.json", "model.safetensors"):
        (tmp_path / name).write_bytes((JSON / name).read_bytes())
    (tmp_path / "tokens.json").write_text('{"tokens": ["a"], "mask": 0}')
    with pytest.raises(ModelError, match=r"tokens\.json of the model cannot be read"):
        load(tmp_path)


@pytest.mark.skipif(
    not (importlib.util.find_spec("rxnmapper") and importlib.util.find_spec("rdkit")),
    reason="rxnmapper and rdkit are not installed",
)
def test_molecules_hold_together() -> None:
    """Of thirty from noise a grammar alone leaves some that RDKit refuses; the monitor none."""
    chemistry = importlib.import_module("rdkit.Chem")
    model = load("rxnmapper", threads=1)
    monitor = Molecules(model.vocabulary)
    canvas = Canvas(sg.grammar("smiles"), model.vocabulary, [Hole(14)])
    refused = 0
    for seed in range(30):
        plain = fill(model, canvas, temperature=0.3, seed=seed, tokens_per_step=2).text
        refused += chemistry.MolFromSmiles(plain) is None
        filling = fill(model, canvas, temperature=0.3, seed=seed, tokens_per_step=2, monitor=monitor)
        assert filling.is_right is (chemistry.MolFromSmiles(filling.text) is not None)
        assert filling.is_right, filling.text
    assert refused > 0


def test_models_without_code_of_their_own_load_all_the_same() -> None:
    model = load(JSON, trust_remote_code=True)
    filling = fill(model, Canvas(sg.grammar("json"), model.vocabulary, ["[", Hole(6)]))
    assert filling.text.startswith("[")
