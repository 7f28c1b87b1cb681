"""``structgen draft train --preset``: stages from the command line, and what is wrong before a model is loaded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from structgen.cli import draft_inputs, main  # noqa: E402
from structgen.speculative.learned import load_weights  # noqa: E402
from tests.embedded import shallow_model  # noqa: E402

QUICK = ["--quiet", "--exits", "1", "--tokens", "30", "--epochs", "1", "--batch", "2", "--vocabulary", "64"]


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Any:
    made = shallow_model()
    monkeypatch.setattr(draft_inputs, "load_model", lambda name, **options: made)
    return made


@pytest.fixture
def prompts(tmp_path: Path) -> str:
    path = tmp_path / "prompts.jsonl"
    lines = [{"prompt": f"Name river {number}.", "max_tokens": 8} for number in range(4)]
    path.write_text("\n".join(map(json.dumps, lines)))
    return str(path)


def test_stages_are_reported_and_resume(
    model: Any, prompts: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, code = tmp_path / "text.txt", tmp_path / "code.jsonl"
    text.write_text("The river flows to the sea.\n" * 200)
    code.write_text("\n".join(json.dumps({"text": f"def f{n}(x):\n    return x + {n}\n"}) for n in range(8)))
    path = tmp_path / "drafter.safetensors"
    train = ["draft", "train", str(path), "--preset", "fastdraft", "--prompts", prompts, *QUICK]
    corpora = ["--corpus", str(text), "--corpus", str(code), "--corpus-tokens", "900"]
    assert main([*train, *corpora]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(
        f"stage 1 of 3, {text}: the first 768 tokens in 2 pieces; on 1 texts that were"
    )
    assert lines[1].startswith(f"stage 2 of 3, {code}: ") and " in 8 pieces; on 1 texts" in lines[1]
    assert lines[2].startswith(f"{path}: ") and "tokens a pass" in lines[2]
    assert len(lines) == 3
    weights = load_weights(path)
    assert weights.kind == "layers" and weights.sizes["exits"] == [1]
    assert weights.notes["preset"] == "fastdraft" and weights.notes["corpus_tokens"][0] == 768
    assert main([*train, *corpora]) == 0  # nothing is left to do
    assert capsys.readouterr().out.splitlines() == lines
    again = load_weights(path)
    assert all(torch.equal(tensor, again.tensors[name]) for name, tensor in weights.tensors.items())
    assert main(train) == 2  # it would start from other weights
    assert "other options or other texts" in capsys.readouterr().err


def test_without_a_corpus(
    model: Any, prompts: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "drafter.safetensors"
    train = ["draft", "train", str(path), "--preset", "fastdraft", "--kind", "layers", "--prompts", prompts]
    assert main([*train, *QUICK]) == 0
    first, last = capsys.readouterr().out.splitlines()
    assert first.startswith("There is no --corpus: the draft model starts from the model's own layers")
    assert last.startswith(f"{path}: ")
    assert load_weights(path).notes["corpus_tokens"] == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--preset", "fastdraft", "--kind", "eagle"], "trains the kind layers, and --kind is eagle"),
        (["--preset", "fastdraft", "--feature-sampling"], "options of eagle, not of layers"),
        (["--preset", "slowdraft"], "there is no choice 'slowdraft'; did you mean fastdraft?"),
        (["--corpus", "good.txt"], "--corpus good.txt: only a preset trains on a corpus"),
        (["--preset", "fastdraft", "--corpus-tokens", "0"], "--corpus-tokens is 0"),
        (
            ["--preset", "fastdraft", "--corpus", "good.txt", "none.txt"],
            "the corpus cannot be read: none.txt",
        ),
        (["--preset", "fastdraft", "--corpus", "latin.txt"], "the corpus latin.txt is not UTF-8 text"),
        (["--preset", "fastdraft", "--corpus", "empty.txt"], "the corpus empty.txt contains no text"),
        (["--preset", "fastdraft", "--corpus", "other.jsonl"], "other.jsonl: line 1 is not a document"),
    ],
)
def test_what_is_wrong_is_named_before_a_model_is_loaded(
    options: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def load(name: str | None, **options: Any) -> Any:
        raise AssertionError("the model is loaded")

    monkeypatch.setattr(draft_inputs, "load_model", load)
    monkeypatch.chdir(tmp_path)
    Path("good.txt").write_text("The river flows to the sea.\n" * 50)
    Path("latin.txt").write_bytes(b"fl\xf6w")
    Path("empty.txt").write_text("\n")
    Path("other.jsonl").write_text('{"body": "x"}\n')
    try:
        status = main(["draft", "train", "w", *options])
    except SystemExit as left:  # a fault that the parser finds
        status = int(left.code or 0)
    assert status == 2
    assert message in capsys.readouterr().err
    assert not Path("w.training").exists()


def test_a_corpus_with_too_little_text_is_named_before_texts_are_written(
    model: Any, prompts: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "short.txt").write_text("The river flows to the sea.")
    train = ["draft", "train", str(tmp_path / "w"), "--preset", "fastdraft", "--prompts", prompts, *QUICK]
    assert main([*train, "--corpus", str(tmp_path / "short.txt")]) == 2
    assert "short.txt has too little text to train on: 1 of the two" in capsys.readouterr().err
    assert not (tmp_path / "w.training" / "texts.jsonl").exists()
