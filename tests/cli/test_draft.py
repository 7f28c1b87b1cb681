"""``structgen draft``: a drafter is trained, evaluated and trimmed with the command line alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from structgen.cli import draft, generate, main
from structgen.speculative.learned import load_weights
from tests.embedded import shallow_model

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
    for command in (draft, generate):
        monkeypatch.setattr(command, "load_model", lambda name, **options: made)
    return made


def prompts_in(folder: Path, lines: list[dict[str, Any]]) -> str:
    path = folder / "prompts.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
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
    trimmed = tmp_path / "trimmed.safetensors"
    assert main(["draft", "trim", str(path), str(trimmed), "--texts", str(texts), "--vocabulary", "8"]) == 0
    assert len(load_weights(trimmed).token_ids) == 8
    assert set(load_weights(trimmed).token_ids) <= set(weights.token_ids)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({"max_tokens": 3}, "line 2 is not a request: it has no prompt"),
        ({"prompt": "x", "regex": "a", "choice": ["b"]}, "both regex and choice"),
        ({"prompt": "x", "shema": {}}, "unknown key 'shema'"),
    ],
)
def test_prompts_that_cannot_be_used_are_named(
    model: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], line: dict[str, Any], message: str
) -> None:
    prompts = prompts_in(tmp_path, [PROMPTS[0], line])
    assert main(["draft", "train", str(tmp_path / "w"), "--prompts", prompts, "--quiet"]) == 2
    assert message in capsys.readouterr().err


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
