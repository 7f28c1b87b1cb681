"""Tokenizers of transformers around the others: fast, slow with SentencePiece, slow with a byte alphabet."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

transformers = pytest.importorskip("transformers")

import sentencepiece  # noqa: E402

from structgen.errors import VocabularyError  # noqa: E402
from structgen.tokenizers.table import BYTE_ALPHABET  # noqa: E402
from structgen.vocabulary import Vocabulary  # noqa: E402

from . import tiny  # noqa: E402


def fast(make: Callable[[], Any], **special: str) -> Any:
    return transformers.PreTrainedTokenizerFast(tokenizer_object=make(), **special)


@pytest.mark.parametrize("make", [tiny.byte_level, tiny.metaspace_bpe, tiny.metaspace_unigram])
def test_a_fast_tokenizer_gives_what_its_backend_gives(make: Callable[[], Any]) -> None:
    tokenizer = fast(make, eos_token="</s>")
    vocabulary = Vocabulary.from_tokenizer(tokenizer)
    assert vocabulary.eos_ids == (tokenizer.eos_token_id,)
    backend = Vocabulary.from_tokenizer(make(), eos_ids=[tokenizer.eos_token_id])
    assert [vocabulary.token_bytes(i) for i in range(len(tokenizer))] == [
        backend.token_bytes(i) for i in range(backend.size)
    ]


def test_tokens_that_only_the_wrapper_calls_special_are_not_text() -> None:
    tokenizer = fast(tiny.byte_level, eos_token="</s>", pad_token="<think é>")
    vocabulary = Vocabulary.from_tokenizer(tokenizer)
    assert vocabulary.token_bytes(tokenizer.pad_token_id) is None


def test_a_tokenizer_without_an_end_of_text_says_so() -> None:
    with pytest.raises(VocabularyError, match="which token ends a text") as caught:
        Vocabulary.from_tokenizer(fast(tiny.byte_level))
    assert "eos_ids=[...]" in str(caught.value)


class Added:
    def __init__(self, content: str, special: bool) -> None:
        self.content, self.special = content, special


class SlowSentencePiece:
    """The shape of transformers' slow SentencePiece tokenizers."""

    def __init__(self) -> None:
        self.sp_model = sentencepiece.SentencePieceProcessor(model_proto=tiny.sentencepiece_model())
        end = self.sp_model.get_piece_size()
        self.added_tokens_decoder = {end + 1: Added("<|turn|>", True), end + 2: Added("▁ word", False)}
        self.all_special_ids = [self.sp_model.eos_id(), end + 1]
        self.eos_token_id = end + 1

    def encode(self, text: str, add_special_tokens: bool) -> list[int]:
        assert not add_special_tokens
        return list(self.sp_model.encode(text, out_type=int))


def test_a_slow_sentencepiece_tokenizer_with_added_tokens() -> None:
    tokenizer = SlowSentencePiece()
    vocabulary = Vocabulary.from_tokenizer(tokenizer)
    end = tokenizer.sp_model.get_piece_size()
    assert vocabulary.eos_ids == (end + 1,)
    assert [vocabulary.token_bytes(end + i) for i in range(3)] == [None, None, "▁ word".encode()]
    assert vocabulary.decode(vocabulary.encode("the fox") or []) == b"the fox"


class SlowByteLevel:
    """The shape of GPT-2's tokenizer in Python."""

    byte_decoder = {chr(letter): byte for letter, byte in BYTE_ALPHABET.items()}  # noqa: RUF012
    added_tokens_decoder = {3: Added("<é>", False)}  # noqa: RUF012
    all_special_ids = (2,)
    eos_token_id = 2

    def __init__(self, **more: int) -> None:
        self.vocab = {"Ġa": 0, "Ã": 1, "<|end|>": 2, "<é>": 3, **more}

    def get_vocab(self) -> dict[str, int]:
        return self.vocab

    def encode(self, text: str, add_special_tokens: bool) -> list[int]:
        return [0] * text.count(" a")


def test_a_slow_byte_level_tokenizer() -> None:
    vocabulary = Vocabulary.from_tokenizer(SlowByteLevel())
    assert vocabulary.eos_ids == (2,)
    assert [vocabulary.token_bytes(i) for i in range(4)] == [b" a", b"\xc3", None, "<é>".encode()]
    with pytest.raises(VocabularyError, match=r"token 4 \('日'\) is not written in the tokenizer's byte"):
        Vocabulary.from_tokenizer(SlowByteLevel(日=4))
