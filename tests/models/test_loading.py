"""What `load` and `wrap` say of what they cannot use, and models in GGUF files."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

gguf = pytest.importorskip("gguf", reason="gguf writes the files")
torch = pytest.importorskip("torch", reason="torch runs the models")

import structgen as sg  # noqa: E402
from structgen.errors import ModelError, OptionError, StructgenError  # noqa: E402
from structgen.models.checking import check_device, loading_failed  # noqa: E402

from .tiny import tiny_model, tiny_tokenizer  # noqa: E402


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "whole"
    tiny_model("llama").save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return folder


def without(*names: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        for one in list(folder.iterdir()):
            if any(one.match(name) for name in names):
                one.unlink()

    return change


def with_text(name: str, text: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).write_text(text) and None


def adapter(folder: Path) -> None:
    without("*")(folder)
    with_text("adapter_config.json", '{"base_model_name_or_path": "some/base"}')(folder)
    with_text("adapter_model.safetensors", "x")(folder)


def lfs(folder: Path) -> None:
    with_text("model.safetensors", "version https://git-lfs.github.com/spec/v1\noid sha256:1\n")(folder)


def incomplete(folder: Path) -> None:
    index = {"weight_map": {"a": "model.safetensors", "b": "model-00002-of-00002.safetensors"}}
    with_text("model.safetensors.index.json", json.dumps(index))(folder)


def checkpoints(folder: Path) -> None:
    inner = folder / "checkpoint-10"
    inner.mkdir()
    (folder / "config.json").rename(inner / "config.json")


def encoder(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    with_text("config.json", json.dumps({**config, "model_type": "t5", "architectures": ["T5Model"]}))(folder)


def newer(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    with_text("config.json", json.dumps({**config, "model_type": "llama99"}))(folder)


def shapes(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    with_text("config.json", json.dumps({**config, "intermediate_size": 96}))(folder)


@pytest.mark.parametrize(
    ("change", "wrong", "remedy"),
    [
        (without("tokenizer*", "special_tokens*"), "contains no tokenizer", "tokenizer.save_pretrained"),
        (without("*.safetensors"), "contains no weights", "model.save_pretrained"),
        (without("*"), "is empty", "save_pretrained"),
        (without("config.json"), "there is no config.json", "save_pretrained"),
        (with_text("config.json", "{"), "config.json .* cannot be read", "again"),
        (with_text("config.json", "[]"), "does not say which kind of model", "save_pretrained"),
        (adapter, "contains an adapter of 'some/base', not a whole model", "merge_and_unload"),
        (lfs, "a pointer of git-lfs", "git lfs pull"),
        (incomplete, "lacks 1 of 2 files of weights, model-00002", "not complete"),
        (checkpoints, "contains no model", "Did you mean .*checkpoint-10"),
        (with_text("model.safetensors", "x" * 100), "are damaged", "again"),
        (with_text("tokenizer.json", "{"), "cannot load the model|damaged", "."),
        (encoder, "is not a causal language model", "AutoModelForCausalLM"),
        (newer, "of a kind that the installed transformers does not know", "pip install -U"),
        (shapes, "weights of other shapes", "two models"),
    ],
    ids=lambda value: getattr(value, "__name__", "") or str(value)[:20],
)
def test_folders(
    whole: Path, tmp_path: Path, change: Callable[[Path], None], wrong: str, remedy: str
) -> None:
    folder = tmp_path / "changed"
    shutil.copytree(whole, folder)
    change(folder)
    with pytest.raises(ModelError, match=wrong) as caught:
        sg.load(folder, device="cpu")
    assert caught.value.hint is not None
    assert pytest.importorskip("re").search(remedy, caught.value.hint)
    assert "changed" in caught.value.message


def test_paths_that_are_no_folders(whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def said(path: Any) -> str:
        with pytest.raises(ModelError) as caught:
            sg.load(path)
        return str(caught.value)

    assert "is a file, not a folder" in said(whole / "model.safetensors")
    assert "there is no folder" in said(tmp_path / "nothing") and "there is no folder" in said("./nothing")
    assert "there is no file" in said("nothing.gguf")
    assert "Did you mean whole" in said(whole.parent / "whle")
    assert "`~` is not expanded" in said("~/models/x")
    assert "is not on this machine" in said("some/model-that-is-nowhere")
    monkeypatch.chdir(whole.parent)
    assert "Did you mean whole" in said("whle")
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "a.gguf").write_bytes(b"")
    assert "contains GGUF files" in said(tmp_path / "m") and "a.gguf" in said(tmp_path / "m")


@pytest.mark.parametrize(
    ("device", "message", "hint"),
    [
        ("gpu", "no device of torch", "Did you mean cuda"),
        ("cdua", "no device of torch", "Did you mean cuda"),
        ("auto", "one device here", "Leave device= out"),
        (5.5, "no device of torch", "Leave device= out"),
        ("cuda", "built without CUDA|finds no CUDA device", 'device="cpu"'),
        ("cuda:7", "built without CUDA|finds no CUDA|such devices", "cpu|counted from 0"),
        ("mps", "finds no MPS device", 'device="cpu"'),
    ],
)
def test_devices(whole: Path, device: Any, message: str, hint: str) -> None:
    if str(device) == "cuda" and torch.cuda.is_available():
        check_device(torch, device)
        return
    with pytest.raises(StructgenError, match=f"(?s)({message}).*({hint})"):
        sg.load(whole, device=device)


def test_options(whole: Path) -> None:
    with pytest.raises(OptionError, match="Did you mean 'bfloat16'"):
        sg.load(whole, dtype=torch.bfloat16)
    with pytest.raises(OptionError, match=r"structgen\.wrap"):
        sg.load(tiny_model("llama"))
    with pytest.raises(OptionError, match="is empty"):
        sg.load("")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            OSError("We couldn't connect to 'https://huggingface.co' to load the files"),
            "cannot be downloaded",
        ),
        (
            OSError("nope is not a local folder and is not a valid model identifier"),
            "neither a folder here nor",
        ),
        (OSError("You are trying to access a gated repo."), "accepted its licence"),
        (ValueError("requires you to execute the configuration file in that repo"), "code of its own"),
        (ImportError("This tokenizer needs sentencepiece"), "needs another package"),
        (ImportError("No module named 'accelerate'"), "not installed: No module named 'accelerate'"),
        (torch.OutOfMemoryError("CUDA out of memory"), "does not fit into memory"),
        (MemoryError(), "does not fit into memory"),
        (KeyError("strange"), "cannot load the model 'x/y': KeyError: 'strange'"),
    ],
)
def test_what_the_libraries_raise(error: Exception, said: str) -> None:
    found = loading_failed("x/y", error, is_local=False)
    assert said in found.message and found.hint and "\n" not in found.message


def test_things_to_wrap() -> None:
    model, tokenizer = tiny_model("llama"), tiny_tokenizer()

    class Pipeline:
        def __init__(self) -> None:
            self.model, self.tokenizer = model, tokenizer

    for given, hint in (
        ((tokenizer, model), "wrong way round"),
        ((Pipeline(), None), "pipeline.model, pipeline.tokenizer"),
        ((model, tokenizer.backend_tokenizer), "PreTrainedTokenizerFast"),
        ((model, "name"), "load both first|Load both first"),
        (("name", "name"), "load"),
    ):
        with pytest.raises(OptionError, match=f"(?s)no model and tokenizer.*({hint})"):
            sg.wrap(*given)


@pytest.fixture(scope="module")
def gguf_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Llama of two layers with random weights, and a byte-level tokenizer."""
    path = tmp_path_factory.mktemp("gguf") / "tiny.gguf"
    letters = [chr(code) for code in range(33, 127)] + ["Ġ", "ab", "<|end|>"]
    writer = gguf.GGUFWriter(path, "llama")
    for name, value in {
        "context_length": 128, "embedding_length": 32, "block_count": 1, "feed_forward_length": 64,
        "head_count": 4, "head_count_kv": 4, "vocab_size": len(letters),
    }.items():  # fmt: skip
        getattr(writer, f"add_{name}")(value)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(8)
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(letters)
    writer.add_token_types([1] * (len(letters) - 1) + [3])
    writer.add_token_merges(["a b"])
    writer.add_eos_token_id(len(letters) - 1)
    writer.add_bos_token_id(len(letters) - 1)
    generator = torch.Generator().manual_seed(1)
    sizes = {"token_embd": (len(letters), 32), "output_norm": (32,), "output": (len(letters), 32)}
    block = {
        "attn_q": (32, 32),
        "attn_k": (32, 32),
        "attn_v": (32, 32),
        "attn_output": (32, 32),
        "attn_norm": (32,),
    }
    block |= {"ffn_gate": (64, 32), "ffn_up": (64, 32), "ffn_down": (32, 64), "ffn_norm": (32,)}
    sizes |= {f"blk.0.{name}": size for name, size in block.items()}
    for name, size in sizes.items():
        weights = torch.randn(size, generator=generator) * 0.3
        writer.add_tensor(f"{name}.weight", weights.numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_a_gguf_file_is_a_model(gguf_file: Path) -> None:
    model = sg.load(gguf_file, device="cpu")
    assert model.context_length == 128 and model.vocabulary.size == 97
    assert sg.generate(model, "say", sg.choice(["yes", "no"])) in ("yes", "no")
    again = sg.load(str(gguf_file), device="cpu", dtype="float32")
    kind = sg.regex("[a-z]{8}")
    assert sg.generate(model, "say", kind) == sg.generate(again, "say", kind)


def test_damaged_gguf_files(gguf_file: Path, tmp_path: Path) -> None:
    for content in (b"", b"GGUF", b"not a gguf file at all", gguf_file.read_bytes()[:5_000]):
        path = tmp_path / "bad.gguf"
        path.write_bytes(content)
        with pytest.raises(StructgenError, match=r"bad\.gguf") as caught:
            sg.load(path)
        assert caught.value.hint


@pytest.mark.parametrize(
    ("options", "what", "hint"),
    [
        ({"chat": "yes"}, "chat is 'yes'", None),
        ({"system": 5}, "system is 5, an int", None),
        ({"template": 5}, "template is 5, an int", "enable_thinking"),
    ],
)
def test_wrong_options_about_the_chat(options: dict[str, Any], what: str, hint: str | None) -> None:
    for make in (
        lambda: sg.load(**options),
        lambda: sg.wrap(tiny_model("llama"), tiny_tokenizer(), **options),
    ):
        with pytest.raises(OptionError) as caught:
            make()
        assert what in caught.value.message
        assert hint is None or hint in str(caught.value.hint)


@pytest.mark.parametrize(("short", "meant"), [("fp16", "float16"), ("bf16", "bfloat16"), ("half", "float16")])
def test_short_names_of_precisions(short: str, meant: str) -> None:
    with pytest.raises(OptionError) as caught:
        sg.load(dtype=short)
    assert f"Did you mean {meant!r}?" in str(caught.value.hint)


def test_odd_names(tmp_path: Path) -> None:
    (tmp_path / "folder.gguf").mkdir()
    with pytest.raises(ModelError, match="folder.gguf' is empty"):
        sg.load(tmp_path / "folder.gguf")
    with pytest.raises(ModelError, match="is an address") as caught:
        sg.load("http://localhost:8000/v1")
    assert "structgen.connect(url)" in str(caught.value.hint)


def test_errors_that_are_no_sentence_say_their_kind() -> None:
    assert "KeyError: 'added_tokens'" in loading_failed("x", KeyError("added_tokens"), is_local=True).message
    assert "RuntimeError" in loading_failed("x", RuntimeError(), is_local=True).message
