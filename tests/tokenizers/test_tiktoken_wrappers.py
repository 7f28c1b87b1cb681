"""Slow tokenizers around a tiktoken encoding, as Kimi's and the first Qwen's, from ranks that are made here."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

tiktoken = pytest.importorskip("tiktoken")
transformers = pytest.importorskip("transformers")

from tiktoken.load import load_tiktoken_bpe  # noqa: E402

from structgen.constraints.json_schema import json_schema  # noqa: E402
from structgen.matcher import Matcher  # noqa: E402
from structgen.tokenizers.table import BYTE_ALPHABET  # noqa: E402
from structgen.vocabulary import Vocabulary  # noqa: E402

PIECES = (b"th", b"the", b" th", b" the", b'{"', b'":', b"\xc3\xab", b"\xf0\x9f")
MARKS = ("[BOS]", "[EOS]", "<|im_end|>", "<|tool_calls_section_begin|>")
RESERVED = 4


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ranks") / "tiktoken.model"
    tokens = [*(bytes([byte]) for byte in range(256)), *PIECES]
    path.write_bytes(
        b"".join(b"%b %d\n" % (base64.b64encode(token), rank) for rank, token in enumerate(tokens))
    )
    return path


class KimiTokenizer(transformers.PreTrainedTokenizer):
    """The shape of Kimi's tokenizer: reserved special tokens, and tokens in GPT-2's byte alphabet."""

    def __init__(self, path: Path) -> None:
        mergeable = load_tiktoken_bpe(str(path))
        size = len(mergeable)
        names = [
            *MARKS,
            *(f"<|reserved_token_{size + i}|>" for i in range(len(MARKS), len(MARKS) + RESERVED)),
        ]
        self.special_tokens = {name: size + i for i, name in enumerate(names)}
        self.model = tiktoken.Encoding(
            "kimi",
            pat_str=r" ?\w+|[^\w\s]+|\s+",
            mergeable_ranks=mergeable,
            special_tokens=self.special_tokens,
        )
        self.n_words = self.model.n_vocab
        letters = {byte: chr(letter) for letter, byte in BYTE_ALPHABET.items()}
        self.byte_decoder = {letter: byte for byte, letter in letters.items()}
        self.decoder = {
            i: "".join(letters[byte] for byte in self.model.decode_single_token_bytes(i))
            for i in range(self.n_words)
        }
        self.encoder = {text: i for i, text in self.decoder.items()}
        added = {
            self.special_tokens[name]: transformers.AddedToken(name, special=name != MARKS[3])
            for name in MARKS
        }
        super().__init__(bos_token=MARKS[0], eos_token=MARKS[1], added_tokens_decoder=added)

    @property
    def vocab_size(self) -> int:
        return self.n_words

    def get_vocab(self) -> dict[str, int]:
        return self.encoder

    def _tokenize(self, text: str, **kwargs: Any) -> list[str]:
        return [self.decoder[i] for i in self.model.encode(text, allowed_special="all")]

    def _convert_token_to_id(self, token: str) -> int:
        return self.special_tokens.get(token, self.encoder.get(token, 0))

    def _convert_id_to_token(self, index: int) -> str:
        return self.decoder[index]


class QwenTokenizer:
    """The shape of the first Qwen's tokenizer."""

    def __init__(self, path: Path) -> None:
        mergeable = load_tiktoken_bpe(str(path))
        special = {"<|endoftext|>": len(mergeable), "<|im_end|>": len(mergeable) + 1}
        self.tokenizer = tiktoken.Encoding(
            "qwen", pat_str=r"\w+|\W+", mergeable_ranks=mergeable, special_tokens=special
        )
        self.eod_id = special["<|endoftext|>"]
        self.eos_token_id, self.all_special_ids = None, list[int]()


def test_tokens_are_those_of_the_encoding(ranks: Path) -> None:
    tokenizer = KimiTokenizer(ranks)
    vocabulary = Vocabulary.from_tokenizer(tokenizer)
    assert vocabulary.size == tokenizer.n_words
    for i in range(256 + len(PIECES)):
        assert vocabulary.token_bytes(i) == tokenizer.model.decode_single_token_bytes(i)
    for text in ("the other", '{"Zoë": "🙂"}', "<|im_end|> as text"):
        ids = vocabulary.encode(text)
        assert ids is not None and vocabulary.decode(ids) == text.encode()


def test_special_tokens_are_named_and_no_text(ranks: Path) -> None:
    tokenizer = KimiTokenizer(ranks)
    vocabulary = Vocabulary.from_tokenizer(tokenizer)
    assert vocabulary.eos_ids == (tokenizer.special_tokens["[EOS]"],)
    for name, i in tokenizer.special_tokens.items():
        assert vocabulary.specials[name] == i
        assert vocabulary.token_bytes(i) is None


def test_a_constraint_is_followed(ranks: Path) -> None:
    matcher = Matcher(json_schema({"type": "object"}), Vocabulary.from_tokenizer(KimiTokenizer(ranks)))
    for token in matcher.vocabulary.encode('{"the": "Zoë"}') or []:
        assert matcher.advance(token)
    assert matcher.is_complete()


def test_the_end_of_the_first_qwen_is_found(ranks: Path) -> None:
    tokenizer = QwenTokenizer(ranks)
    vocabulary = Vocabulary.from_tokenizer(tokenizer)
    assert vocabulary.eos_ids == (tokenizer.eod_id,)
    assert vocabulary.specials["<|im_end|>"] == tokenizer.eod_id + 1
