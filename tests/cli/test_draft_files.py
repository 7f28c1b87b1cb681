"""Files and options of drafters that cannot be used are errors before a model is loaded, and nothing is written."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from structgen.cli import draft_inputs, generate, main, serve  # noqa: E402
from structgen.cli.inputs import InputError, naming_options  # noqa: E402
from structgen.draft_training import texts  # noqa: E402
from structgen.draft_training.recipes import Recipe  # noqa: E402
from structgen.draft_training.training import TrainingOptions  # noqa: E402
from structgen.errors import ModelError, OptionError, VocabularyMismatch  # noqa: E402
from structgen.speculative.learned import DraftWeights, load_weights, save_weights  # noqa: E402
from structgen.speculative.learned.acceptance import AcceptanceHead  # noqa: E402
from structgen.speculative.learned.heads import HeadSizes, HeadsNetwork  # noqa: E402

COMMANDS = {
    "evaluate": ["draft", "evaluate", "good", "FILE"],
    "generate": ["generate", "x", "--drafter", "FILE"],
    "serve": ["serve", "--port", "0", "--drafter", "FILE"],
    "start": ["draft", "train", "new", "--kind", "medusa", "--start", "FILE"],
    "reference": ["draft", "train", "new", "--kind", "medusa", "--reference", "FILE"],
    "train-acceptance": ["draft", "train-acceptance", "FILE", "new"],
    "train-judge": ["draft", "train-judge", "FILE", "new", "--prompts", "prompts"],
    "trim": ["draft", "trim", "FILE", "new", "--texts", "texts"],
}
"""Each with FILE in place of a drafter."""
WITH_PROMPTS = {
    "evaluate": ["draft", "evaluate", "good", "--prompts", "FILE"],
    "train": ["draft", "train", "new", "--prompts", "FILE"],
    "train-acceptance": ["draft", "train-acceptance", "good", "new", "--prompts", "FILE"],
    "train-judge": ["draft", "train-judge", "good", "new", "--prompts", "FILE"],
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with files of all sorts; a command that loads a model fails the test."""

    def load(name: str | None, **options: Any) -> Any:
        raise AssertionError("a model is loaded")

    for command in (draft_inputs, generate, serve):
        monkeypatch.setattr(command, "load_model", load)
    monkeypatch.chdir(tmp_path)
    sizes = HeadSizes(hidden=8, layer=2, count=1)
    good = DraftWeights("medusa", sizes.as_dict(), "x", np.arange(4), HeadsNetwork(sizes).state_dict())
    save_weights(good, "good")
    save_weights(replace(good, kind="oracle"), "unknown")
    save_weights(replace(good, sizes={**good.sizes, "hidden": 16}), "misshapen")
    save_weights(replace(good, sizes={}), "sizeless")
    head = {**good.tensors, **AcceptanceHead(16).tensors()}
    save_weights(replace(good, tensors=head), "wide-head")
    content = Path("good").read_bytes()
    Path("truncated").write_bytes(content[: len(content) // 2])
    Path("text").write_text("A text.")
    Path("empty").mkdir()
    Path("prompts").write_text('{"prompt": "A digit.", "regex": "[0-9]"}\n')
    Path("texts").write_text("")
    return tmp_path


def refused(arguments: list[str], file: str, capsys: pytest.CaptureFixture[str]) -> str:
    """Run a command; return its message, and check that it left no new file."""
    before = set(Path().iterdir())
    assert main([file if each == "FILE" else each for each in arguments]) == 2
    assert set(Path().iterdir()) == before
    captured = capsys.readouterr()
    assert captured.out == "" and "Traceback" not in captured.err
    return captured.err


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("none", "cannot be read"),
        ("truncated", "truncated is not a complete file"),
        ("text", "text is not a complete file"),
        ("empty", "empty"),
        ("unknown", "unknown has weights of the kind 'oracle', which this version does not know"),
        ("misshapen", "misshapen: the drafter's weights do not have the shapes of their sizes"),
        ("sizeless", "sizeless: the weights do not have the sizes of a drafter of the kind 'medusa'"),
        ("wide-head", "wide-head: the acceptance head reads states of 16 numbers"),
        ("n" * 5000, "cannot be read"),
    ],
)
def test_drafters_that_cannot_be_used(
    command: str, file: str, message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if command == "serve":
        pytest.importorskip("fastapi")
        pytest.importorskip("uvicorn")
    assert message in refused(COMMANDS[command], file, capsys)


@pytest.mark.parametrize("command", ["evaluate", "generate"])
def test_checkpoints_that_cannot_be_used(
    command: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def message_of(content: bytes | dict[str, torch.Tensor], config: str = "{}") -> str:
        Path("eagle").mkdir(exist_ok=True)
        Path("eagle/config.json").write_text(config)
        if isinstance(content, bytes):
            Path("eagle/pytorch_model.bin").write_bytes(content)
        else:
            torch.save(content, "eagle/pytorch_model.bin")
        return refused(COMMANDS[command], "eagle", capsys)

    fuse = {"fc.weight": torch.zeros(8, 16)}
    assert "empty has no weights of a drafter" in refused(COMMANDS[command], "empty", capsys)
    assert "pytorch_model.bin" in message_of(b"A text.")
    assert "is not a drafter in a known format" in message_of({"wte.weight": torch.zeros(4, 4)})
    assert "config.json is not a complete JSON file" in message_of(fuse, '{"hidden_size": 8')
    assert "drafters with fc_norm cannot be read" in message_of(fuse, '{"fc_norm": true}')
    assert "layers with another hidden_act" in message_of(fuse, '{"hidden_act": "gelu"}')
    layers = {f"layers.{layer}.mlp.up_proj.weight": torch.zeros(8, 8) for layer in range(2)}
    assert "more than one layer" in message_of({**fuse, **layers})


@pytest.mark.parametrize("command", ["start", "reference", "train-acceptance", "train-judge"])
def test_checkpoints_of_other_projects_are_not_trained(
    command: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    torch.save({"0.0.linear.weight": torch.zeros(8, 8)}, "medusa_lm_head.pt")
    message = refused(COMMANDS[command], "medusa_lm_head.pt", capsys)
    assert "medusa_lm_head.pt is a file of another project" in message
    assert "empty is a folder" in refused(COMMANDS[command], "empty", capsys)


@pytest.mark.parametrize("command", [["generate", "x"], ["serve", "--port", "0"]])
def test_any_base_needs_a_drafter(
    folder: Path, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    if command[0] == "serve":
        pytest.importorskip("fastapi")
        pytest.importorskip("uvicorn")
    assert main([*command, "--any-base"]) == 2
    assert "--any-base has no effect without a drafter" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["evaluate", "generate", "serve", "trim"])
def test_any_base_needs_a_drafter_of_another_project(
    command: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if command == "serve":
        pytest.importorskip("fastapi")
        pytest.importorskip("uvicorn")
    assert "--any-base has no effect: good" in refused([*COMMANDS[command], "--any-base"], "good", capsys)


@pytest.mark.parametrize("name", ["none/model.safetensors", "none/medusa_lm_head.pt", "none"])
def test_folders_that_are_not_there_are_not_trimmed(
    name: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("texts").write_text(texts.Text([5], [6, 7], "x", 0.0).line())
    assert "none" in refused(COMMANDS["trim"], name, capsys)


def test_checkpoints_that_cannot_be_trimmed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is wrong without a model is found before it is loaded."""
    command = COMMANDS["trim"]
    assert "empty has no weights of a drafter" in refused(command, "empty", capsys)
    Path("eagle").mkdir()
    Path("eagle/config.json").write_text("{}")
    torch.save({"wte.weight": torch.zeros(4, 4)}, "eagle/pytorch_model.bin")
    assert "is not a drafter in a known format" in refused(command, "eagle", capsys)
    torch.save({"fc.weight": torch.zeros(8, 16)}, "eagle/pytorch_model.bin")
    before = {path: path.read_bytes() for path in Path("eagle").iterdir()}
    assert "there is no text with an answer" in refused(command, "eagle", capsys)
    Path("texts").write_text(texts.Text([5], [6, 7], "x", 0.0).line())
    assert "--vocabulary is 0" in refused([*command, "--vocabulary", "0"], "eagle", capsys)
    for name in ("config.json", "pytorch_model.bin"):
        onto = [each if each != "new" else f"eagle/{name}" for each in command]
        for given in ("eagle", "eagle/pytorch_model.bin"):
            assert f"eagle/{name} is the file that is read" in refused(onto, given, capsys)
    assert {path: path.read_bytes() for path in Path("eagle").iterdir()} == before
    for option in ("--model", "--device", "--dtype"):
        message = refused([*command, option, "x"], "good", capsys)
        assert f"{option} has no effect: good is trimmed without a model" in message
    assert "--any-base has no effect" in refused([*command, "--any-base"], "good", capsys)


def test_a_server_names_a_drafter_that_does_not_draft_in_batches(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("fastapi")
    pytest.importorskip("uvicorn")
    sizes = {"hidden": 8, "count": 2}
    tensors = {"embeddings": torch.zeros(2, 8)}
    save_weights(DraftWeights("prompt-tokens", sizes, "x", np.arange(4), tensors), "prompt-tokens")
    message = refused(COMMANDS["serve"], "prompt-tokens", capsys)
    assert "'prompt-tokens', which does not draft in a running batch" in message


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("none", "the judge cannot be read"),
        ("empty", "the judge cannot be read"),
        ("good", "good is not a complete file of a judge"),
        ("text", "text is not a complete file of a judge"),
        ("prompts", "prompts is not a complete file of a judge"),
    ],
)
def test_judges_that_cannot_be_used(
    file: str, message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert message in refused(["draft", "evaluate", "good", "--judge", "FILE"], file, capsys)


@pytest.mark.parametrize("command", WITH_PROMPTS)
@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (None, "the prompts cannot be read"),
        ([], "has no request"),
        (["A text."], "line 1 is not a request"),
        ([{"prompt": "x"}, {"prompt": "x", "regex": "("}], "line 2 is not a request"),
        ([{"prompt": "x", "max_tokens": 0}], "max_tokens is 0"),
        ([{"prompt": 5}], "its prompt is not a text or a list of messages"),
        ([{"prompt": []}], "its prompt is not a text or a list of messages"),
        ([{"prompt": [{"content": "x"}]}], "the message has no role"),
        ([{"prompt": "\ud800"}], "line 1 is not a request"),
        ([{"prompt": [{"role": "user", "content": "\ud800"}]}], "line 1 is not a request"),
        ([{"prompt": "x", "max_tokens": True}], "max_tokens is True"),
    ],
)
def test_prompts_that_cannot_be_used(
    command: str,
    lines: list[Any] | None,
    message: str,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if lines is not None:
        Path("given").write_text("\n".join(map(json.dumps, lines)))
    assert message in refused(WITH_PROMPTS[command], "given", capsys)


TRIM = ["draft", "trim", "good", "new", "--texts", "texts", "--vocabulary", "2"]


@pytest.mark.parametrize(
    ("origin", "message"),
    [
        ('{"vocabulary": "y"}', "the texts of texts have another tokenizer: some token is not the same"),
        (None, "it is not known which tokenizer the texts of texts have: there is no file texts.origin.json"),
        ('{"vocabulary": ', "the origin of the texts cannot be read: texts.origin.json"),
        ("[" * 100_000, "the origin of the texts cannot be read: texts.origin.json"),
        ('{"seed": 0}', "does not name their tokenizer: texts.origin.json"),
        ('["x"]', "does not name their tokenizer: texts.origin.json"),
        ('{"vocabulary": 5}', "does not name their tokenizer: texts.origin.json"),
    ],
)
def test_texts_that_no_drafter_of_this_tokenizer_can_be_trimmed_by(
    origin: str | None, message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("texts").write_text(texts.Text([1], [2, 3, 3, 1, 2], "x", 0.0).line())
    if origin is not None:
        Path("texts.origin.json").write_text(origin)
    assert message in refused(TRIM, "", capsys)
    Path("texts.origin.json").write_text('{"vocabulary": "x", "seed": 0}')
    assert main(TRIM) == 0
    assert load_weights("new").token_ids.tolist() == [2, 3]


def test_texts_of_another_tokenizer_are_the_error_that_other_weights_are(tmp_path: Path) -> None:
    (tmp_path / "texts.origin.json").write_text('{"vocabulary": "y"}')
    with pytest.raises(VocabularyMismatch):
        texts.check_vocabulary(tmp_path / "texts.jsonl", "x")


TRAIN = ["draft", "train", "new", "--kind", "medusa", "--quiet"]


def test_a_command_that_fails_leaves_no_empty_directory(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*given: Any, **options: Any) -> Any:
        raise ModelError("nothing works")

    monkeypatch.setattr(draft_inputs, "load_model", fail)
    heads = ["draft", "train-acceptance", "good", "new", "--quiet"]
    judge = ["draft", "train-judge", "good", "new", "--prompts", "prompts", "--quiet"]
    for command in (TRAIN, heads, judge):
        assert "nothing works" in refused(command, "", capsys)
    monkeypatch.setattr(draft_inputs, "load_model", lambda name, **options: object())
    monkeypatch.setattr(texts, "collect_texts", fail)
    for command in (TRAIN, [*TRAIN, "--directory", "a/b/c"], heads, judge):
        assert "nothing works" in refused(command, "", capsys)


def test_directories_that_were_there_or_have_files_stay(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def write_and_fail(model: Any, requests: Any, path: Path, **options: Any) -> Any:
        if path.parent.name == "c":
            path.write_text("a line")
        raise ModelError("nothing works")

    monkeypatch.setattr(draft_inputs, "load_model", lambda name, **options: object())
    monkeypatch.setattr(texts, "collect_texts", write_and_fail)
    refused([*TRAIN, "--directory", "empty"], "", capsys)
    assert Path("empty").is_dir()
    assert main([*TRAIN, "--directory", "empty/b/c"]) == 2
    assert Path("empty/b/c/texts.jsonl").read_text() == "a line"


def test_directories_that_cannot_be_made(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    message = refused([*TRAIN, "--directory", "text"], "", capsys)
    assert "text cannot be made: text is not a folder" in message
    for name in ("text/new", "n" * 5000):
        assert f"{name} cannot be made" in refused([*TRAIN, "--directory", name], "", capsys)


def test_the_origin_of_texts_is_written_with_the_first_ones(tmp_path: Path) -> None:
    def no_requests(first: int) -> Iterator[Any]:
        raise ModelError("the model writes no prompts")
        yield

    model: Any = SimpleNamespace(vocabulary=SimpleNamespace(fingerprint="x"))
    with pytest.raises(ModelError, match="no prompts"):
        texts.collect_texts(model, no_requests, tmp_path / "texts.jsonl", tokens=5)
    assert not any(tmp_path.iterdir())
    (tmp_path / "texts.jsonl").write_text(texts.Text([1], [2] * 5, "x", 0.0).line())
    (found,) = texts.collect_texts(model, no_requests, tmp_path / "texts.jsonl", tokens=5)
    assert found.answer == [2] * 5
    assert json.loads((tmp_path / "texts.origin.json").read_text()) == {"vocabulary": "x", "seed": 0}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--steps-ahead", "0"], "--steps-ahead is 0; it must be above 0"),
        (["--steps-ahead", "300"], "--steps-ahead is 300; it must be a whole number from 1 to 256"),
        (["--tokens-a-pass", "0"], "--tokens-a-pass is 0"),
        (["--tokens-a-pass", "4"], "Set --steps-ahead to a multiple of --tokens-a-pass."),
        (["--learning-rate", "0"], "--learning-rate is 0"),
        (["--on-policy", "2"], "--on-policy is 2"),
        (["--vocabulary", "0"], "--vocabulary is 0"),
        (["--batch", "0"], "--batch is 0"),
        (["--epochs", "-1"], "--epochs is -1"),
        (["--minutes", "nan"], "--minutes is nan"),
        (["--glancing", "-1", "--tokens-a-pass", "2"], "--glancing is -1"),
        (["--kind", "medusa", "--blocks", "0"], "--blocks is 0"),
        (["--kind", "medusa", "--inner", "-1"], "--inner is -1"),
        (
            ["--kind", "layers", "--exits", "2", "1"],
            "--exits is (2, 1); it must be numbers of layers above 0",
        ),
        (["--tokens", "0"], "--tokens is 0"),
        (["--states-bytes", "0"], "--states-bytes is 0"),
        (["--records", "2"], "--records is 2"),
        (["--seed", "-1"], "--seed is -1"),
    ],
)
def test_errors_name_options(
    arguments: list[str], message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert message in refused(["draft", "train", "new", *arguments], "", capsys)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["evaluate", "good", "--temperature", "-1"], "--temperature is -1"),
        (["evaluate", "good", "--records", "2"], "--records is 2"),
        (["evaluate", "good", "--seed", "-1"], "--seed is -1"),
        (["train-acceptance", "good", "new", "--tokens", "0"], "--tokens is 0"),
        (
            ["train-judge", "good", "new", "--prompts", "prompts", "--states-bytes", "0"],
            "--states-bytes is 0",
        ),
    ],
)
def test_errors_of_other_actions_name_options(
    arguments: list[str], message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert message in refused(["draft", *arguments], "", capsys)


def test_fields_are_named_as_options_but_paths_and_words_are_not() -> None:
    options = {"steps_ahead": "--steps-ahead", "batch": "--batch", "loss": "--loss"}
    for message, shown in (
        ("batch is 0", "--batch is 0"),
        ("the batch is 0", "the batch is 0"),
        ("batches and loss", "batches and loss"),
        ("set steps_ahead, or else", "set --steps-ahead, or else"),
        ("a/steps_ahead is empty", "a/steps_ahead is empty"),
        ("steps_ahead.bin is empty", "steps_ahead.bin is empty"),
        ("other_name is 3", "other_name is 3"),
        ("unknown key 'steps_ahead'", "unknown key 'steps_ahead'"),
        ("batch are many", "batch are many"),
    ):
        with pytest.raises(InputError) as found, naming_options(options):
            raise OptionError(message, hint=message)
        assert found.value.message == shown and found.value.hint == shown


def test_prompts_that_can_be_read_once_are_evaluated_and_not_trained_on(
    tmp_path: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As those of a shell's process substitution: a check would leave nothing to answer."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    draft_inputs.check_files(prompts=pipe)  # waits for ever if it opens the pipe
    message = refused(["draft", "train", "made", "--prompts", "FILE"], str(pipe), capsys)
    assert "is a pipe, and the prompts are read more than once" in message
    assert "cannot be read" in refused(["draft", "evaluate", "good", "--prompts", "FILE"], "x" * 300, capsys)


def test_in_python_errors_name_fields() -> None:
    with pytest.raises(OptionError, match="^steps_ahead is 300"):
        Recipe(options=TrainingOptions(steps_ahead=300))
    with pytest.raises(OptionError, match=r"^exits is \(2, 1\)"):
        Recipe(kind="layers", exits=(2, 1))
