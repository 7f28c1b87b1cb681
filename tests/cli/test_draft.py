"""``structgen draft``: a drafter is trained, evaluated and trimmed with the command line alone."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from structgen.cli import draft_inputs, generate, main  # noqa: E402
from structgen.cli.draft_evaluate import _scaling  # noqa: E402
from structgen.draft_training.texts import Text  # noqa: E402
from structgen.errors import ModelError  # noqa: E402
from structgen.server.model_thread import _speculation  # noqa: E402
from structgen.server.settings import ServerSettings  # noqa: E402
from structgen.speculative import Judge  # noqa: E402
from structgen.speculative.learned import (  # noqa: E402
    DraftWeights,
    load_drafter,
    load_weights,
    save_judge,
    save_weights,
)
from structgen.speculative.learned.heads import HeadSizes, HeadsNetwork  # noqa: E402
from tests.embedded import shallow_model  # noqa: E402

PROMPTS = [
    {"prompt": "Tell me about rivers.", "max_tokens": 12},
    {"prompt": "Is water wet?", "choice": ["yes", "no"]},
    {"prompt": [{"role": "user", "content": "A number, please."}], "regex": "[0-9]{3}", "kind": "number"},
    {
        "prompt": "A person.",
        "schema": {"type": "object", "properties": {"age": {"type": "integer"}}},
        "max_tokens": 20,
    },
]


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Any:
    made = shallow_model()
    for command in (draft_inputs, generate):
        monkeypatch.setattr(command, "load_model", lambda name, **options: made)
    return made


def prompts_in(folder: Path, lines: list[dict[str, Any]]) -> str:
    path = folder / "prompts.jsonl"
    path.write_text("\n".join(json.dumps(line, ensure_ascii=False) for line in lines))
    return str(path)


def test_train_evaluate_and_trim(model: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, prompts = tmp_path / "drafter.safetensors", prompts_in(tmp_path, PROMPTS * 3)
    quick = ["--quiet", "--tokens", "90", "--epochs", "1", "--batch", "2", "--vocabulary", "64"]
    assert main(["draft", "train", str(path), "--prompts", prompts, *quick]) == 0
    assert "tokens a pass" in capsys.readouterr().out
    weights = load_weights(path)
    assert weights.kind == "eagle" and 0 < len(weights.token_ids) <= 64
    texts = tmp_path / "drafter.safetensors.training" / "texts.jsonl"
    assert len(texts.read_text().splitlines()) == 12
    before = texts.read_text()
    assert main(["draft", "train", str(path), "--prompts", prompts, *quick]) == 0  # nothing is left to do
    assert texts.read_text() == before
    capsys.readouterr()
    assert (
        main(["draft", "evaluate", str(path), "--prompts", prompts, "--requests", "8", "--quiet", "--json"])
        == 0
    )
    figures = {each["kind"]: each for each in json.loads(capsys.readouterr().out)}
    assert set(figures) == {"free text", "choice", "number", "JSON"}
    assert all(each["same_texts"] == each["requests"] == 2 for each in figures.values())
    assert (
        main(["draft", "evaluate", str(path), "--prompts", prompts, "--requests", "2", "--quiet", "--alone"])
        == 0
    )
    assert "tokens/pass" in capsys.readouterr().out
    texts_of = []
    for option in (["--drafter", str(path)], ["--no-speculate"]):
        assert main(["generate", "Rivers are", "--max-tokens", "12", *option]) == 0
        texts_of.append(capsys.readouterr().out)
    assert texts_of[0] == texts_of[1]
    with_head = tmp_path / "with-head.safetensors"
    more = ["--prompts", prompts, "--tokens", "300", "--quiet", "--seed", "0"]
    assert main(["draft", "train-acceptance", str(path), str(with_head), *more]) == 0
    assert "the head prefers the accepted one in" in capsys.readouterr().out
    assert load_drafter(with_head).acceptance is not None and load_drafter(path).acceptance is None
    assert load_drafter(with_head, acceptance=None).acceptance is None
    assert main(["generate", "Rivers are", "--max-tokens", "12", "--drafter", str(with_head)]) == 0
    assert capsys.readouterr().out == texts_of[1]
    trimmed = tmp_path / "trimmed.safetensors"
    assert main(["draft", "trim", str(path), str(trimmed), "--texts", str(texts), "--vocabulary", "8"]) == 0
    assert len(load_weights(trimmed).token_ids) == 8
    assert set(load_weights(trimmed).token_ids) <= set(weights.token_ids)


def test_a_judge(model: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, judge = tmp_path / "heads.safetensors", tmp_path / "judge.json"
    sizes = HeadSizes(576, model.layer_count, 2)
    torch.manual_seed(0)
    heads = HeadsNetwork(sizes)
    for parameter in heads.parameters():  # guesses at random among the tokens that the constraint allows
        torch.nn.init.normal_(parameter)
    save_weights(
        DraftWeights(
            "medusa", sizes.as_dict(), model.vocabulary.fingerprint, np.arange(8000), heads.state_dict()
        ),
        path,
    )
    lines = [{"prompt": f"Digits {number}", "regex": "[0-9]{6}"} for number in range(3)]  # too few
    prompts = prompts_in(tmp_path, lines)
    command = ["draft", "train-judge", str(path), str(judge), "--quiet"]
    assert main([*command, "--prompts", prompts, "--labels", "60"]) == 2
    assert "draft tokens lead to the same value; a judge needs at least 20" in capsys.readouterr().err
    assert not judge.exists()
    assert main(command) == 2
    assert "Add --prompts FILE" in capsys.readouterr().err
    save_judge(Judge(np.zeros(576), 9.0), judge, model.vocabulary.fingerprint)  # accepts all tokens
    prompts = prompts_in(tmp_path, lines[:2])
    measure = ["draft", "evaluate", str(path), "--prompts", prompts, "--alone", "--quiet", "--json"]
    assert main(measure) == 0
    (exact,) = json.loads(capsys.readouterr().out)
    assert exact["same_texts"] == exact["requests"] == 2
    assert main([*measure, "--judge", str(judge)]) == 0
    (lossy,) = json.loads(capsys.readouterr().out)
    assert lossy["same_texts"] == 0 and lossy["requests"] == 2
    assert lossy["accepted"] > exact["accepted"]


def test_prompt_tokens(model: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, prompts = tmp_path / "drafter.safetensors", prompts_in(tmp_path, PROMPTS * 2)
    quick = ["--quiet", "--tokens", "60", "--epochs", "1", "--batch", "4", "--steps-ahead", "2"]
    command = ["draft", "train", str(path), "--kind", "prompt-tokens", "--prompts", prompts, *quick]
    assert main(command) == 0
    assert " kB; on " in capsys.readouterr().out
    weights = load_weights(path)
    assert weights.kind == "prompt-tokens" and list(weights.tensors) == ["embeddings"]
    assert path.stat().st_size < 100_000
    assert (
        main(["draft", "evaluate", str(path), "--prompts", prompts, "--requests", "2", "--quiet", "--json"])
        == 0
    )
    assert all(each["same_texts"] == each["requests"] for each in json.loads(capsys.readouterr().out))
    assert main(["draft", "train-acceptance", str(path), str(tmp_path / "other"), "--prompts", prompts]) == 2
    assert "the kind 'prompt-tokens' has none" in capsys.readouterr().err


def test_a_draft_model_learns_from_its_own_texts(
    model: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, prompts = tmp_path / "drafter.safetensors", prompts_in(tmp_path, PROMPTS)
    train = ["draft", "train", str(path), "--prompts", prompts, "--kind", "layers", "--exits", "1", "--quiet"]
    quick = ["--tokens", "30", "--epochs", "2", "--batch", "2", "--vocabulary", "64", "--on-policy", "0.5"]
    assert main([*train, *quick]) == 0
    weights = load_weights(path)
    assert weights.kind == "layers" and weights.sizes["exits"] == [1]
    capsys.readouterr()
    evaluate = ["draft", "evaluate", str(path), "--prompts", prompts, "--alone", "--json", "--quiet"]
    assert main([*evaluate, "--requests", "2"]) == 0
    assert all(each["same_texts"] == 1 for each in json.loads(capsys.readouterr().out))
    assert main([*train, "--exits", "2", "1"]) == 2
    assert "ascending" in capsys.readouterr().err


def test_a_fit_over_drafters_that_were_trained_on_more_and_more(
    model: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hidden = model.model.get_input_embeddings().weight.shape[1]
    files = []
    for number in range(4):  # prompt tokens that mean nothing: what is fitted is the noise of their drafts
        weights = DraftWeights(
            "prompt-tokens",
            {"hidden": hidden, "count": 2},
            model.vocabulary.fingerprint,
            np.arange(100, 400),
            {"embeddings": torch.randn(2, hidden, generator=torch.Generator().manual_seed(number))},
            {"tokens": 5, "all_tokens": 1000 * 2**number},
        )
        files.append(str(tmp_path / f"{number}.safetensors"))
        save_weights(weights, files[-1])
    prompts = prompts_in(tmp_path, PROMPTS[:1])
    command = ["draft", "evaluate", "--prompts", prompts, "--quiet", "--scaling"]
    assert main([*command, "--json", *files]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [each["file"] for each in found["drafters"]] == files
    values = [each["tokens_per_pass"] for each in found["drafters"]]
    assert found["scaling"]["data"][0] == pytest.approx(np.polyfit(range(4), values, 1)[0], abs=2e-3)
    assert found["scaling"]["size"] is None
    assert "16,000 training tokens in place of 8,000" in found["scaling"]["outlook"]
    assert found["scaling"]["last_training_only"] == []
    earlier = str(tmp_path / "earlier.safetensors")
    save_weights(replace(load_weights(files[3]), notes={"tokens": 32_000}), earlier)
    counted = _scaling([Path(each) for each in (*files[:3], earlier)], [1.0] * 4)
    assert counted.last_only == [Path(earlier)]
    assert [point.data for point in counted.fit.points] == [1000, 2000, 4000, 32_000]
    assert main([*command, *files[:3], earlier]) == 0
    report = capsys.readouterr().out
    assert "each time the training data doubles" in report and "64,000 training tokens" in report
    assert report.rstrip().endswith(f"if anything, is not counted: {earlier}")
    assert main([*command, *files[:2]]) == 2
    assert (
        "at least 3 drafters that differ in training data or size, and there are 2" in capsys.readouterr().err
    )
    medusa = DraftWeights("medusa", {}, "", np.arange(3), {}, {"tokens": 5})
    save_weights(medusa, tmp_path / "medusa")
    assert main([*command, *files[:2], str(tmp_path / "medusa")]) == 2
    assert "drafters of one kind, and these are medusa and prompt-tokens" in capsys.readouterr().err
    save_weights(replace(medusa, notes={}), tmp_path / "medusa")
    assert main([*command, str(tmp_path / "medusa")]) == 2
    assert "does not contain the number of tokens" in capsys.readouterr().err


def checkpoints_in(folder: Path, model: Any) -> list[Path]:
    """Write a checkpoint of Medusa and one of EAGLE with random weights for the model."""
    hidden = model.model.get_input_embeddings().weight.shape[1]
    torch.manual_seed(0)

    def some(*shape: int) -> torch.Tensor:
        return torch.randn(shape) * 0.02

    heads = {}
    for head in range(2):
        heads[f"{head}.0.linear.weight"], heads[f"{head}.0.linear.bias"] = some(hidden, hidden), some(hidden)
    layer = {
        "mlp.gate_proj.weight": some(64, hidden),
        "mlp.up_proj.weight": some(64, hidden),
        "mlp.down_proj.weight": some(hidden, 64),
        "post_attention_layernorm.weight": torch.ones(hidden),
        **{f"self_attn.{name}_proj.weight": some(hidden, hidden) for name in "qkvo"},
    }
    # Large states give a distribution with a clear maximum, so that drafts are proposed.
    eagle = {"fc.weight": 50 * some(hidden, 2 * hidden), **{f"layers.0.{k}": v for k, v in layer.items()}}
    configs = {"medusa": {"medusa_num_heads": 2}, "eagle": {"num_attention_heads": 9}}
    for name in configs:
        (folder / name).mkdir()
        (folder / name / "config.json").write_text(json.dumps(configs[name]))
    torch.save(heads, folder / "medusa" / "medusa_lm_head.pt")
    torch.save(eagle, folder / "eagle" / "pytorch_model.bin")
    return [folder / "medusa", folder / "eagle"]


def test_generate_and_evaluate_with_drafters_of_other_projects(
    model: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = []
    folders = checkpoints_in(tmp_path, model)
    for options in (["--no-speculate"], *(["--drafter", str(folder)] for folder in folders)):
        assert main(["generate", "Rivers are", "--max-tokens", "16", *options]) == 0
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1] == texts[2]
    prompts = prompts_in(tmp_path, PROMPTS[:1])
    command = ["draft", "evaluate", str(folders[1]), "--prompts", prompts, "--alone", "--json", "--quiet"]
    assert main(command) == 0
    (figures,) = json.loads(capsys.readouterr().out)
    assert figures["drafted"] > 0
    assert figures["same_texts"] == figures["requests"]
    (tmp_path / "eagle" / "config.json").write_text('{"hidden_size": 4096}')
    assert main(["generate", "x", "--drafter", str(folders[1])]) == 2
    error = capsys.readouterr().err
    assert "hidden states of 4096 numbers" in error
    assert str(tmp_path / "eagle" / "config.json") in error


def test_a_drafter_that_names_another_model(
    model: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = checkpoints_in(tmp_path, model)[1]
    config = {"num_attention_heads": 9, "base_model_name_or_path": "acme/base"}
    (folder / "config.json").write_text(json.dumps(config))
    monkeypatch.setattr(model.model.config, "name_or_path", "acme/other")
    prompts = prompts_in(tmp_path, PROMPTS[:1])
    evaluate = ["draft", "evaluate", str(folder), "--prompts", prompts, "--alone", "--quiet"]
    for command in (["generate", "x", "--max-tokens", "4", "--drafter", str(folder)], evaluate):
        assert main(command) == 2
        error = capsys.readouterr().err
        assert "was trained for acme/base, and this model is acme/other" in error and "--any-base" in error
        assert main([*command, "--any-base"]) == 0
    settings = ServerSettings(model_name="m", drafter=str(folder))
    with pytest.raises(ModelError, match="was trained for acme/base"):
        _speculation(model, settings)
    assert _speculation(model, replace(settings, drafter_any_base=True))


def test_drafters_of_other_projects_are_trimmed_to_files_of_ours(
    model: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = tmp_path / "texts.jsonl"
    rng = np.random.default_rng(0)
    texts.write_text(
        "".join(Text([5], rng.integers(0, 3000, size=40).tolist(), "x", 0.0).line() for _ in range(20))
    )
    origin = tmp_path / "texts.origin.json"
    assert main(["generate", "Rivers are", "--max-tokens", "16", "--no-speculate"]) == 0
    plain = capsys.readouterr().out
    for folder in checkpoints_in(tmp_path, model):
        path = tmp_path / f"{folder.name}.safetensors"
        before = {each: each.read_bytes() for each in folder.iterdir()}
        command = ["draft", "trim", str(folder), str(path), "--texts", str(texts), "--vocabulary", "64"]
        origin.write_text(json.dumps({"vocabulary": "another"}))
        assert main(command) == 2
        assert "have another tokenizer" in capsys.readouterr().err
        origin.write_text(json.dumps({"vocabulary": model.vocabulary.fingerprint}))
        assert main(command) == 0
        assert capsys.readouterr().out == f"{path}: 64 tokens\n"
        assert {each: each.read_bytes() for each in folder.iterdir()} == before
        weights = load_weights(path)
        assert weights.kind == folder.name and len(weights.token_ids) == 64
        assert weights.notes["checkpoint"] == str(folder)
        assert main(["generate", "Rivers are", "--max-tokens", "16", "--drafter", str(path)]) == 0
        assert capsys.readouterr().out == plain
        smaller = tmp_path / "smaller"  # it is a file like others now
        again = ["draft", "trim", str(path), str(smaller), "--texts", str(texts), "--vocabulary", "8"]
        assert main(again) == 0
        assert set(load_weights(smaller).token_ids) < set(weights.token_ids)
        assert load_weights(smaller).notes == weights.notes
        capsys.readouterr()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({"max_tokens": 3}, "line 2 is not a request: it has no prompt"),
        ({"prompt": "x", "regex": "a", "choice": ["b"]}, "both regex and choice"),
        ({"prompt": "x", "shema": {}}, "unknown key 'shema'"),
        ({"prompt": "x", "regex": "("}, "line 2 is not a request"),
        ({"prompt": "x", "max_tokens": -4}, "max_tokens is -4"),
        ({"prompt": "a\u2028b", "max_tokens": 0}, "max_tokens is 0"),
    ],
)
def test_prompts_that_cannot_be_used_are_named(
    model: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], line: dict[str, Any], message: str
) -> None:
    prompts = prompts_in(tmp_path, [PROMPTS[0], line])
    assert main(["draft", "train", str(tmp_path / "w"), "--prompts", prompts, "--quiet"]) == 2
    assert message in capsys.readouterr().err


def test_options_of_eagle_are_sizes_of_the_drafter(
    model: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, prompts = tmp_path / "drafter.safetensors", prompts_in(tmp_path, PROMPTS * 3)
    quick = ["--quiet", "--tokens", "40", "--epochs", "1", "--batch", "4", "--prompts", prompts]
    fspad = ["--feature-sampling", "--alignment", "partial", "--tokens-a-pass", "2"]
    assert main(["draft", "train", str(path), *quick, *fspad]) == 0
    sizes = load_weights(path).sizes
    assert sizes["sampler"] == sizes["layer"]["mlp"] and sizes["second_output"]
    assert sizes["tokens_a_pass"] == 2
    capsys.readouterr()
    texts_of = []
    for option in (["--drafter", str(path)], ["--no-speculate"]):
        assert main(["generate", "Rivers are", "--max-tokens", "12", *option]) == 0
        texts_of.append(capsys.readouterr().out)
    assert texts_of[0] == texts_of[1]
    assert main(["draft", "train", str(path), "--kind", "medusa", *quick, *fspad]) == 2
    assert "options of eagle" in capsys.readouterr().err
    first = ["--features", "eagle-1", "--alignment", "full"]
    states = [
        "--directory",
        f"{path}.training",
    ]  # of the same layers, so that they need not be computed again
    other = tmp_path / "other.safetensors"
    assert main(["draft", "train", str(other), *quick, *first, *states]) == 0
    sizes = load_weights(other).sizes
    assert sizes["hidden_layers"] == [model.layer_count] and sizes["fuses_embeddings"]
    assert not sizes["normed_output"] and sizes["input_norms"] == "none"
    capsys.readouterr()
    assert main(["generate", "Rivers are", "--max-tokens", "12", "--drafter", str(other)]) == 0
    assert capsys.readouterr().out == texts_of[1]
    for kind in (["--kind", "hydra"], ["--preset", "fastdraft"]):
        assert main(["draft", "train", str(other), *quick, *kind, "--features", "eagle-1"]) == 2
        assert "features, feature sampling" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--exits", "1"], "--exits has no effect without --kind layers"),
        (["--selected", "0.4"], "--selected has no effect without --reference FILE"),
        (["--glancing", "0.45"], "--glancing has no effect without --tokens-a-pass"),
        (["--corpus-tokens", "5"], "--corpus-tokens has no effect without --corpus"),
        (["--kind", "hydra", "--draft-layer", "--trigrams"], "both say how the draft is read"),
        (["--records", "0.2", "--prompts", "x"], "argument --prompts: not allowed with argument --records"),
    ],
)
def test_options_without_an_effect_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    assert main(["draft", "train", str(tmp_path / "w"), *options]) == 2
    assert message in capsys.readouterr().err
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "none/new"], "none/new cannot be written: there is no folder none"),
        (["train", "folder"], "folder is a folder; name a file"),
        (["train", "n" * 5000], "cannot be written"),
        (["train", "drafter", "--start", "drafter"], "drafter is the file that is read"),
        (["train", "link", "--start", "drafter"], "link is the file that is read"),
        (["train", "texts", "--prompts", "texts"], "texts is the file that is read"),
        (["train-acceptance", "drafter", "texts", "--prompts", "texts"], "texts is the file that is read"),
        (["train-acceptance", "drafter", "drafter"], "drafter is the file that is read"),
        (["train-acceptance", "drafter", "new", "--blocks", "-1"], "--blocks is -1"),
        (["train-acceptance", "drafter", "new", "--rejection-weight", "-1"], "--rejection-weight is -1"),
        (["train-acceptance", "drafter", "new", "--rejection-weight", "nan"], "--rejection-weight is nan"),
        (["train-judge", "drafter", "drafter", "--prompts", "texts"], "drafter is the file that is read"),
        (["train-judge", "drafter", "texts", "--prompts", "texts"], "texts is the file that is read"),
        (["trim", "drafter", "drafter", "--texts", "texts"], "drafter is the file that is read"),
        (["trim", "drafter", "new", "--texts", "none"], "there is no file none"),
    ],
)
def test_a_file_that_cannot_be_written_is_an_error_before_anything_else(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    """No model is loaded, and nothing is written or replaced."""
    sizes = HeadSizes(hidden=8, layer=2, count=1)
    weights = DraftWeights("medusa", sizes.as_dict(), "x", np.arange(4), HeadsNetwork(sizes).state_dict())
    save_weights(weights, tmp_path / "drafter")
    (tmp_path / "texts").write_text("")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "drafter")
    before = {path: path.is_file() and path.read_bytes() for path in tmp_path.iterdir()}
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(draft_inputs, "load_model", None)
    kind = ["--kind", "medusa"] if arguments[0] == "train" else []
    assert main(["draft", *arguments, *kind]) == 2
    assert message in capsys.readouterr().err
    assert {path: path.is_file() and path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_collection_goes_on_only_in_the_same_order(
    model: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Texts of a version whose requests came in another order are not mixed with others."""
    directory, prompts = tmp_path / "d", prompts_in(tmp_path, PROMPTS)
    command = ["draft", "train", str(tmp_path / "w"), "--quiet", "--directory", str(directory)]
    directory.mkdir()
    (directory / "texts.jsonl").write_text(Text([5], [6, 7], "x", 0.0).line())
    common = {"vocabulary": model.vocabulary.fingerprint, "seed": 0, "model": None, "prompts": None}
    (directory / "texts.origin.json").write_text(json.dumps({**common, "records": 0.2}))
    assert main(command) == 2
    error = capsys.readouterr().err
    assert "another model, seed or list of prompts, or of another version (different: order)" in error
    assert main([*command, "--records", "0.3"]) == 2
    assert "(different: order, records)" in capsys.readouterr().err
    assert main([*command, "--prompts", prompts]) == 2
    assert "(different: prompts, records)" in capsys.readouterr().err


def test_files_that_are_no_drafters(model: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "w").write_bytes(b"nothing")
    for path, message in ((tmp_path / "w", "not a complete file"), (tmp_path / "none", "cannot be read")):
        assert main(["draft", "evaluate", str(path)]) == 2
        assert message in capsys.readouterr().err
    assert main(["draft", "train", str(tmp_path / "x"), "--loss", "kl"]) == 2
    assert "kl" in capsys.readouterr().err
    assert main(["generate", "x", "--drafter", str(tmp_path / "w")]) == 2
    assert "not a complete file" in capsys.readouterr().err
    assert main(["generate", "x", "--drafter", "w", "--no-speculate"]) == 2
    assert "cannot be given together" in capsys.readouterr().err
