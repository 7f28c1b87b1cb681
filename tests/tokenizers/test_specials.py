"""Special tokens by their names: every kind of tokenizer reports them, and vocabularies keep them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("tokenizers")

import sentencepiece
import tiktoken

from structgen.errors import VocabularyError, VocabularyMismatch
from structgen.tokenizers import read_tokenizer
from structgen.vocabulary import Vocabulary
from tests.real_tokenizers import tokenizer_path

from . import tiny


def encoding() -> tiktoken.Encoding:
    ranks = {bytes([byte]): byte for byte in range(256)}
    marks = {"<|endoftext|>": 256, "<|call|>": 258}
    return tiktoken.Encoding("tiny", pat_str=r"\S+|\s+", mergeable_ranks=ranks, special_tokens=marks)


def processor() -> Any:
    return sentencepiece.SentencePieceProcessor(model_proto=tiny.sentencepiece_model())


@pytest.mark.parametrize(
    ("make", "names"),
    [
        (tiny.byte_level, {"</s>"}),
        (tiny.metaspace_bpe, {"<unk>", "<s>", "</s>"}),
        (processor, {"<s>", "</s>"}),
        (encoding, {"<|endoftext|>", "<|call|>"}),
    ],
)
def test_each_kind_of_tokenizer_names_its_control_tokens(make: Any, names: set[str]) -> None:
    table = read_tokenizer(make())
    assert set(table.specials) == names
    assert all(table.tokens[i] is None for i in table.specials.values())
    vocabulary = Vocabulary.from_tokenizer(make(), eos_ids=[min(table.specials.values())])
    assert vocabulary.specials == dict(table.specials)
    assert vocabulary.native.eos_ids == list(vocabulary.eos_ids)  # the core takes them


def test_wrappers_name_what_they_alone_call_special() -> None:
    transformers = pytest.importorskip("transformers")
    from .test_wrappers import SlowByteLevel, SlowSentencePiece

    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tiny.byte_level(), eos_token="</s>", pad_token="<think é>"
    )
    assert Vocabulary.from_tokenizer(fast).specials == {
        "</s>": fast.eos_token_id,
        "<think é>": fast.pad_token_id,
    }
    assert Vocabulary.from_tokenizer(SlowByteLevel()).specials == {"<|end|>": 2}
    slow = Vocabulary.from_tokenizer(SlowSentencePiece())
    assert slow.specials["<|turn|>"] == slow.eos_ids[0]
    assert set(slow.specials) == {"<s>", "</s>", "<|turn|>"}


def test_gguf_files_name_their_control_tokens(tmp_path: Path) -> None:
    pytest.importorskip("gguf")
    from .test_gguf import CONTROL, NORMAL, USER_DEFINED, write

    tokens = [(b"a", NORMAL), (b"<end>", CONTROL), (b"<call>", CONTROL), (b"<think>", USER_DEFINED)]
    vocabulary = Vocabulary.from_tokenizer(write(tmp_path / "a.gguf", "gpt2", tokens, eos=1))
    assert vocabulary.specials == {"<end>": 1, "<call>": 2}
    assert vocabulary.spelled([0, 2, 3, 1]) == "a<call><think><end>"
    assert vocabulary.decode([0, 2, 3, 1]) == b"a<think>"


def test_the_embedded_tokenizer_has_the_same_names_in_both_of_its_forms() -> None:
    from structgen.models import load_vocabulary

    read = load_vocabulary()
    assert read.specials["<|im_end|>"] == 2 and read.eos_ids == (2,)
    assert read.specials == Vocabulary.from_tokenizer(tokenizer_path("smollm2")).specials


def test_an_end_that_the_tokenizer_takes_for_text_has_its_text_for_a_name() -> None:
    backend = tiny.byte_level()
    i = backend.token_to_id("<think é>")
    assert Vocabulary.from_tokenizer(backend, eos_ids=[i]).specials == {"</s>": 0, "<think é>": i}


def test_names_beyond_the_model_are_left_out() -> None:
    assert Vocabulary.from_tokenizer(encoding(), size=257, eos_ids=[256]).specials == {"<|endoftext|>": 256}


def test_limits_keep_the_names() -> None:
    vocabulary = Vocabulary.from_tokens([b"a", None, None], [1], specials={"<x>": 2, "<end>": 1})
    assert vocabulary.with_limits(max_depth=7).specials == {"<x>": 2, "<end>": 1}
    assert Vocabulary.from_tokens([b"a", None], [1]).specials == {}
    assert Vocabulary.from_tokens([b"a"], [0 + 1], size=9, specials={"<pad>": 8}).native.size == 9


def test_names_that_cannot_be() -> None:
    with pytest.raises(VocabularyMismatch, match="'<x>', 3, is outside of the 3 tokens"):
        Vocabulary.from_tokens([b"a", None, None], [1], specials={"<x>": 3})
    with pytest.raises(VocabularyError, match="'<x>' is text, the bytes b'a'") as caught:
        Vocabulary.from_tokens([b"a", None, None], [1], specials={"<x>": 0})
    assert "Give None for its bytes" in str(caught.value)
    for text in ("", "\ud800"):
        with pytest.raises(VocabularyError, match="is not a text and an id"):
            Vocabulary.from_tokens([b"a", None], [1], specials={text: 1})
