"""Checkpoints are compared with the model that they are loaded for: by the name of their base model and by tokens."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from structgen.errors import ModelError, VocabularyError, VocabularyMismatch  # noqa: E402
from structgen.speculative.learned import load_checkpoint, load_drafter, speculation_with  # noqa: E402
from structgen.vocabulary import Vocabulary  # noqa: E402
from tests.models.tiny import SIZE, tiny_tokenizer  # noqa: E402
from tests.speculative.tiny_sessions import VOCABULARY, Model  # noqa: E402

from . import published  # noqa: E402
from .published import LAYER_CONFIG, write  # noqa: E402

BASE = "lmsys/vicuna-7b-v1.3"


def model_named(name: str) -> Model:
    model = Model("llama")
    model.model.config.name_or_path = name
    return model


def medusa_for(base: Any, folder: Path) -> Path:
    config = {"medusa_num_heads": 2, "medusa_num_layers": 1, "base_model_name_or_path": base}
    return write(folder, config, published.medusa(1, 2, 1), "medusa_lm_head.safetensors")


def eagle_for(base: Any, folder: Path) -> Path:
    config = {**LAYER_CONFIG, "speculators_config": {"verifier": {"name_or_path": base}}}
    return write(folder, config, published.eagle(1, Model("llama")))


@pytest.mark.parametrize("write_for", [medusa_for, eagle_for])
@pytest.mark.parametrize(
    "name", ["acme/other-model", "lmsys/vicuna-7b-v1.5", "other", "acme/vicuna-7b-v1.3-tuned"]
)
def test_a_checkpoint_of_a_model_of_another_name(write_for: Any, name: str, tmp_path: Path) -> None:
    folder, model = write_for(BASE, tmp_path / "drafter"), model_named(name)
    for load in (load_drafter, load_checkpoint, speculation_with):
        with pytest.raises(ModelError) as caught:
            load(folder, model)
        assert caught.value.message == (
            f"{folder / 'config.json'}: the drafter was trained for {BASE}, and this model is {name}"
        )
        assert "any_base=True (--any-base" in str(caught.value.hint)
        assert load(folder, model, any_base=True)
    if write_for is medusa_for:  # by the file of its tensors
        with pytest.raises(ModelError, match="was trained for"):
            load_drafter(folder / "medusa_lm_head.safetensors", model)


@pytest.mark.parametrize("write_for", [medusa_for, eagle_for])
@pytest.mark.parametrize(
    ("base", "name"),
    [
        (BASE, BASE),
        (BASE, "acme/Vicuna-7B-v1.3"),
        (BASE, "vicuna-7b-v1.3"),
        ("vicuna-7b-v1.3", BASE),
        (BASE, "/models/mine"),
        (BASE, "./mine"),
        (BASE, "models/acme/mine"),
        (BASE, ""),
        ("/home/someone/base", "acme/other-model"),
        ("", "acme/other-model"),
        (None, "acme/other-model"),
        (7, "acme/other-model"),
    ],
)
def test_names_that_are_equal_or_not_known(write_for: Any, base: Any, name: str, tmp_path: Path) -> None:
    assert load_drafter(write_for(base, tmp_path / "drafter"), model_named(name))


def test_a_model_of_a_folder_has_no_known_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative path can look like a name; so does the name of a folder alone."""
    monkeypatch.chdir(tmp_path)
    folder = medusa_for(BASE, tmp_path / "drafter")
    for name in ("acme/mine", "mine"):
        with pytest.raises(ModelError, match=f"this model is {name}"):
            load_drafter(folder, model_named(name))
        (tmp_path / name).mkdir(parents=True)
        assert load_drafter(folder, model_named(name))


@pytest.fixture(scope="module")
def pieces(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Vocabulary]:
    """A SentencePiece model with fewer pieces than the tiny model has tokens, and its tokens."""
    sentencepiece = pytest.importorskip("sentencepiece")
    file = tmp_path_factory.mktemp("pieces") / "tokenizer.model"
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["abcdefgh", "hg fe dc ba", "ab cd ef gh"] * 5),
        model_prefix=str(file.with_suffix("")),
        vocab_size=24,
        hard_vocab_limit=False,
        user_defined_symbols=["<sep>"],
        minloglevel=2,
    )
    return file, Vocabulary.from_tokenizer(file)


def with_tokens(tokens: list[bytes | None]) -> Model:
    model = Model("llama")
    model.vocabulary = Vocabulary.from_tokens(tokens, [2], size=SIZE)
    return model


def test_tokens_of_sentencepiece(pieces: tuple[Path, Vocabulary], tmp_path: Path) -> None:
    file, own = pieces
    folder = eagle_for(None, tmp_path / "drafter")
    shutil.copy(file, folder / "tokenizer.model")
    tokens = [own.token_bytes(token) for token in range(len(own))]
    sep = tokens.index(b"<sep>")
    # Other files of a tokenizer add tokens, and declare that a piece is special.
    special = [None if token == sep else text for token, text in enumerate(tokens)]
    for fitting in (tokens, [*tokens, b"more", None], special):
        assert load_drafter(folder, with_tokens(fitting)).prepare(with_tokens(fitting))
    places = [token for token, text in enumerate(tokens) if text is not None]
    for place in (places[0], places[-1]):
        changed = [b"other" if token == place else text for token, text in enumerate(tokens)]
        with pytest.raises(VocabularyMismatch) as caught:
            load_drafter(folder, with_tokens(changed), any_base=True)
        assert f"{folder / 'tokenizer.model'}: the drafter's tokenizer is not the model's" in str(
            caught.value
        )
        assert f"token {place} is {tokens[place]!r}, and b'other' in the model" in str(caught.value)


def test_sentencepiece_with_more_tokens_than_the_model(
    pieces: tuple[Path, Vocabulary], tmp_path: Path
) -> None:
    from structgen.speculative.learned.checkpoint_model import _compare

    file, own = pieces
    few = Vocabulary.from_tokens([own.token_bytes(token) for token in range(len(own) - 1)], [2])
    with pytest.raises(VocabularyMismatch, match=f"token {len(own) - 1} is b'.*', and None in the model"):
        _compare(file, few, "a hint", is_whole=False)


@pytest.mark.parametrize("name", ["tokenizer.model", "tokenizer.json"])
def test_tokenizers_that_cannot_be_read(name: str, pieces: tuple[Path, Vocabulary], tmp_path: Path) -> None:
    folder = eagle_for(None, tmp_path / "drafter")
    content = (
        pieces[0].read_bytes()
        if name == "tokenizer.model"
        else tiny_tokenizer().backend_tokenizer.to_str().encode()
    )
    model = Model("llama")
    for size in (0, 5, len(content) // 2):
        (folder / name).write_bytes(content[:size])
        with pytest.raises(VocabularyError) as caught:
            load_drafter(folder, model)
        assert str(folder / name) in str(caught.value)
    (folder / name).unlink()
    (folder / name).mkdir()
    with pytest.raises(VocabularyError):
        load_drafter(folder, model)
    (folder / name).rmdir()
    os.symlink(tmp_path / "nothing", folder / name)
    with pytest.raises(VocabularyError):
        load_drafter(folder, model)


def test_a_tokenizer_json_is_compared_first(pieces: tuple[Path, Vocabulary], tmp_path: Path) -> None:
    """It has the added tokens, too; the other file may be one of another form."""
    folder = eagle_for(None, tmp_path / "drafter")
    tiny_tokenizer().backend_tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer.model").write_bytes(b"damaged")
    model = Model("llama")
    model.vocabulary = Vocabulary.from_tokenizer(tiny_tokenizer(), size=SIZE)
    assert load_drafter(folder, model)
    model.vocabulary = VOCABULARY
    with pytest.raises(VocabularyMismatch, match="tokenizer.json"):
        load_drafter(folder, model)


def test_a_tokenizer_with_fewer_tokens_is_another_one(tmp_path: Path) -> None:
    """The end of text of the model lies beyond its tokens."""
    folder = eagle_for(None, tmp_path / "drafter")
    tiny_tokenizer().backend_tokenizer.save(str(folder / "tokenizer.json"))
    model = Model("llama")
    own = Vocabulary.from_tokenizer(tiny_tokenizer(), size=SIZE)
    texts = [own.token_bytes(token) for token in range(SIZE)]
    last = max(token for token, text in enumerate(texts) if text is not None)
    model.vocabulary = Vocabulary.from_tokens([*texts[: last + 1], b"more", None], [last + 2], size=SIZE)
    with pytest.raises(
        VocabularyMismatch, match="tokenizer.json: the drafter's tokenizer is not the model's"
    ):
        load_drafter(folder, model)
