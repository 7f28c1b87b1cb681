"""The bytes of tokens: the tokens of a text concatenate to that text again."""

from __future__ import annotations

import functools
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("tokenizers")

import sentencepiece
import tiktoken
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from structgen.errors import VocabularyError
from structgen.vocabulary import Vocabulary
from tests.real_tokenizers import NAMES, tokenizer_path

from . import tiny


def processor() -> Any:
    return sentencepiece.SentencePieceProcessor(model_proto=tiny.sentencepiece_model())


def tiktoken_encoding() -> tiktoken.Encoding:
    ranks = {bytes([byte]): byte for byte in range(256)}
    for text in ("th", "the", " the", '{"', '": ', "日"):
        data = text.encode()
        for end in range(2, len(data) + 1):
            ranks.setdefault(data[:end], len(ranks))
    end = len(ranks) + 3  # some ids are not used
    return tiktoken.Encoding(
        "tiny", pat_str=r"\s?\S+|\s+", mergeable_ranks=ranks, special_tokens={"<|endoftext|>": end}
    )


@given(text=tiny.TEXTS)
def test_byte_level(text: str) -> None:
    backend = tiny.byte_level()
    vocabulary = Vocabulary.from_tokenizer(backend, eos_ids=[0])
    ids = [i for i in backend.encode(text).ids if i != 0]
    assert vocabulary.decode(ids) == text.replace("</s>", "").encode()


@given(text=tiny.TEXTS)
def test_splits_before_the_byte_alphabet(text: str) -> None:
    backend = tiny.splitting_byte_level()
    vocabulary = Vocabulary.from_tokenizer(backend, eos_ids=[])
    assert vocabulary.decode(backend.encode(text).ids) == text.encode()
    assert vocabulary.decode(vocabulary.encode(text) or []) == text.encode()


@pytest.mark.parametrize("make", [tiny.metaspace_bpe, tiny.metaspace_unigram])
@given(text=tiny.TEXTS)
def test_metaspace_with_byte_fallback(make: Any, text: str) -> None:
    backend = make()
    vocabulary = Vocabulary.from_tokenizer(backend, eos_ids=[2])
    wanted = text.replace("▁", " ")  # the tokenizer cannot tell these apart
    for special in tiny.SPECIAL:
        wanted = wanted.replace(special, "")
    if wanted != text.replace("▁", " "):
        return  # markers cut the text, each part with a space before it
    data = vocabulary.decode(backend.encode(text, add_special_tokens=False).ids)
    assert data in (wanted.encode(), b" " + wanted.encode())


@given(text=tiny.TEXTS.filter(lambda text: "\0" not in text))
def test_sentencepiece(text: str) -> None:
    vocabulary = Vocabulary.from_tokenizer(processor())
    data = vocabulary.decode(processor().encode(text, out_type=int))
    wanted = text.replace("▁", " ").encode()
    assert data in (wanted, b" " + wanted)


@given(text=tiny.TEXTS)
def test_tiktoken(text: str) -> None:
    encoding = tiktoken_encoding()
    vocabulary = Vocabulary.from_tokenizer(encoding)
    assert vocabulary.decode(encoding.encode_ordinary(text)) == text.encode()
    ids = vocabulary.encode(text)
    assert ids is not None and vocabulary.decode(ids) == text.encode()


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=150)
@given(data=st.data())
def test_real_tokenizers(name: str, data: st.DataObject) -> None:
    backend, vocabulary = real(name)
    text = data.draw(tiny.TEXTS)
    encoded = vocabulary.encode(text)
    if not set(text.encode()) <= single_bytes(name):
        assert encoded is None  # the tokenizer drops bytes that it lacks, without a word
        return
    ids = backend.encode(text, add_special_tokens=False).ids
    assert vocabulary.decode(ids) == text.encode()
    assert backend.decode(ids, skip_special_tokens=False) == text
    assert encoded is not None and vocabulary.decode(encoded) == text.encode()


@functools.cache
def real(name: str) -> tuple[Tokenizer, Vocabulary]:
    path = tokenizer_path(name)
    return Tokenizer.from_file(str(path / "tokenizer.json")), Vocabulary.from_tokenizer(path)


@functools.cache
def single_bytes(name: str) -> set[int]:
    vocabulary = real(name)[1]
    tokens = [vocabulary.token_bytes(i) for i in range(vocabulary.size)]
    return {token[0] for token in tokens if token and len(token) == 1}


@pytest.mark.parametrize("name", NAMES)
def test_each_token_of_a_real_tokenizer_has_the_bytes_that_decode_shows(name: str) -> None:
    backend, vocabulary = real(name)
    added = backend.get_added_tokens_decoder()
    for i in range(backend.get_vocab_size()):
        data = vocabulary.token_bytes(i)
        if i in added and added[i].special:
            assert data is None
            continue
        assert data
        shown = backend.decode([i], skip_special_tokens=False)
        assert shown == data.decode("utf-8", "replace") or (i in added and added[i].content == shown)


def spelled(backend: Tokenizer, token: str) -> bytes | None:
    i = backend.token_to_id(token)
    assert i is not None
    return Vocabulary.from_tokenizer(backend, eos_ids=[0]).token_bytes(i)


def test_special_tokens_are_not_text_and_added_ones_are() -> None:
    backend = tiny.byte_level()
    assert Vocabulary.from_tokenizer(backend, eos_ids=[0]).token_bytes(0) is None
    assert spelled(backend, "<think é>") == "<think é>".encode()
    for make in (tiny.metaspace_bpe, tiny.metaspace_unigram):
        vocabulary = Vocabulary.from_tokenizer(make(), eos_ids=[2])
        assert [vocabulary.token_bytes(i) for i in range(3)] == [None] * 3
        assert spelled(make(), "<0x0A>") == b"\n"
        spaced = next(piece for piece in make().get_vocab() if piece.startswith("▁t"))
        assert spelled(make(), spaced) == spaced.replace("▁", " ").encode()


def test_pieces_of_sentencepiece() -> None:
    pieces = processor()
    vocabulary = Vocabulary.from_tokenizer(pieces)
    assert vocabulary.eos_ids == (pieces.eos_id(),)
    assert vocabulary.token_bytes(pieces.unk_id()) is None
    assert vocabulary.token_bytes(pieces.bos_id()) is None
    assert vocabulary.token_bytes(pieces.piece_to_id("<sep>")) == b"<sep>"
    assert vocabulary.token_bytes(pieces.piece_to_id("<0xE3>")) == b"\xe3"


def test_files(tmp_path: Path) -> None:
    model = tmp_path / "tiny.model"
    model.write_bytes(tiny.sentencepiece_model())
    assert Vocabulary.from_tokenizer(model).size == processor().get_piece_size()
    tiny.byte_level().save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(VocabularyError, match="which token ends a text"):
        Vocabulary.from_tokenizer(tmp_path)
    for eos in ('"</s>"', '{"content": "</s>", "special": true}'):
        (tmp_path / "tokenizer_config.json").write_text(f'{{"eos_token": {eos}}}')
        assert Vocabulary.from_tokenizer(tmp_path).eos_ids == (0,)
    assert Vocabulary.from_tokenizer(tmp_path / "tokenizer.json").eos_ids == (0,)


def test_tiktoken_gaps_and_ends() -> None:
    encoding = tiktoken_encoding()
    vocabulary = Vocabulary.from_tokenizer(encoding)
    assert vocabulary.eos_ids == (encoding.eot_token,)
    assert vocabulary.size == encoding.n_vocab
    assert vocabulary.token_bytes(encoding.eot_token - 1) is None


def refused(backend: Any) -> str:
    with pytest.raises(VocabularyError) as caught:
        Vocabulary.from_tokenizer(backend, eos_ids=[0])
    return str(caught.value)


def test_tokenizers_without_exact_bytes_are_refused_by_name() -> None:
    assert "it marks words by '##'" in refused(tiny.word_piece())
    backend = Tokenizer(models.BPE({"a</w>": 0}, [], end_of_word_suffix="</w>"))
    assert "'</w>'" in refused(backend)
    backend = Tokenizer(models.BPE({"a": 0}, []))
    assert "no decoder" in refused(backend)
    backend.decoder = decoders.CTC()
    assert "CTC" in refused(backend)
    backend.decoder = decoders.Strip(content=" ", left=1, right=0)
    assert "strips more than the start" in refused(backend)
    backend.decoder = decoders.Sequence([decoders.Fuse(), decoders.Replace("ab", " ")])
    assert "not a replacement per token" in refused(backend)
    backend.decoder = decoders.Sequence([decoders.ByteLevel(), decoders.Metaspace()])
    assert "joins ByteLevel with Metaspace" in refused(backend)
    message = refused(object())
    assert "builtins.object is not a tokenizer" in message and "Vocabulary.from_tokens" in message


def test_a_byte_level_decoder_over_plain_words_is_refused() -> None:
    backend = Tokenizer(models.BPE({"hello world": 0, "日本": 1, "a": 2}, []))
    backend.decoder = decoders.ByteLevel()
    assert "not written in the byte alphabet" in refused(backend)


def test_plain_tokens_joined_as_they_are() -> None:
    backend = Tokenizer(models.BPE({"a": 0, "▁b": 1, "<0x0A>": 2}, []))
    backend.decoder = decoders.Fuse()
    vocabulary = Vocabulary.from_tokenizer(backend, eos_ids=[])
    assert [vocabulary.token_bytes(i) for i in range(3)] == [b"a", "▁b".encode(), b"<0x0A>"]


def test_a_byte_level_pre_tokenizer_alone_tells_the_alphabet() -> None:
    backend = Tokenizer(models.BPE({"Ġa": 0}, []))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel()
    assert Vocabulary.from_tokenizer(backend, eos_ids=[]).token_bytes(0) == b" a"


def test_files_that_are_something_else(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text('{"version": "1.0"}')
    with pytest.raises(VocabularyError, match=r"tokenizer\.json is not a valid tokenizer"):
        Vocabulary.from_tokenizer(tmp_path)
    tiny.byte_level().save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "tokenizer_config.json").write_text("[]")
    with pytest.raises(VocabularyError, match=r"tokenizer_config\.json cannot be read"):
        Vocabulary.from_tokenizer(tmp_path)
    (tmp_path / "a.model").write_bytes(b"model")
    with pytest.raises(VocabularyError, match=r"a\.model is not a valid SentencePiece model"):
        Vocabulary.from_tokenizer(tmp_path / "a.model")


@pytest.mark.parametrize("package", ["tokenizers", "sentencepiece"])
def test_packages_that_are_not_there(package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("tokenizer.json", "a.model"):
        (tmp_path / name).write_text("")
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(VocabularyError, match=f"needs the package {package}") as caught:
        Vocabulary.from_tokenizer(tmp_path / ("a.model" if package == "sentencepiece" else "tokenizer.json"))
    assert f"pip install {package}" in str(caught.value)


def test_files_that_are_not_there(tmp_path: Path) -> None:
    for path in (tmp_path / "nothing.gguf", str(tmp_path / "tokenizer.json")):
        with pytest.raises(VocabularyError, match="there is no file"):
            Vocabulary.from_tokenizer(path)
    with pytest.raises(VocabularyError, match=r"there is no tokenizer\.json"):
        Vocabulary.from_tokenizer(tmp_path)
