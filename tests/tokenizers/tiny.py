"""Small tokenizers of each kind, trained in memory, and the texts for testing them."""

from __future__ import annotations

import functools
import io

import sentencepiece
from hypothesis import strategies as st
from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

CORPUS = [
    "the quick brown fox jumps over the lazy dog",
    '{"name": "Ann", "age": 31, "tags": ["a", "b"], "ok": true}',
    "Zoë naïve façade — über straße, 日本語のテキスト, 🙂 emoji 🙃",
    "numbers 1 22 333 4444, tabs\tand\nnew lines\r\n  indented    text",
] * 3
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
SPECIAL = ["<unk>", "<s>", "</s>"]

# Text as models write it, and any text at all.
TEXTS = st.one_of(
    st.text(max_size=30),
    st.lists(
        st.sampled_from(
            [*CORPUS[0].split(), " ", "  ", "\n", "é", "日本", "🙂", '{"', '": ', "</s>", "▁", "x"]
        ),
        max_size=8,
    ).map("".join),
)


@functools.cache
def byte_level() -> Tokenizer:
    """As GPT-2 and its heirs: a byte alphabet, a special token and one that is text."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=["</s>"],
        show_progress=False,
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    tokenizer.add_tokens([AddedToken("<think é>", normalized=False)])
    return tokenizer


@functools.cache
def metaspace_bpe() -> Tokenizer:
    """As Llama 2: U+2581 for spaces, one before the text, bytes for unknown characters."""
    trained = Tokenizer(models.BPE())
    trained.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    trained.train_from_iterator(
        CORPUS, trainers.BpeTrainer(vocab_size=460, special_tokens=[*SPECIAL, *BYTES], show_progress=False)
    )
    vocab = trained.get_vocab(with_added_tokens=True)
    merges = _merges(trained)
    tokenizer = Tokenizer(
        models.BPE(vocab=vocab, merges=merges, byte_fallback=True, unk_token="<unk>", fuse_unk=True)
    )
    tokenizer.normalizer = trained.normalizer
    tokenizer.add_special_tokens(SPECIAL)
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(content=" ", left=1, right=0),
        ]
    )
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return tokenizer


@functools.cache
def metaspace_unigram() -> Tokenizer:
    """As Gemma and T5: a unigram model, Metaspace, byte fallback."""
    trained = Tokenizer(models.Unigram())
    trained.pre_tokenizer = pre_tokenizers.Metaspace()
    trained.train_from_iterator(
        CORPUS,
        trainers.UnigramTrainer(
            vocab_size=200, special_tokens=SPECIAL, unk_token="<unk>", show_progress=False
        ),
    )
    scores = _unigram_scores(trained)
    tokenizer = Tokenizer(
        models.Unigram([*scores, *((byte, -20.0) for byte in BYTES)], unk_id=0, byte_fallback=True)
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.add_special_tokens(SPECIAL)
    tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace()])
    return tokenizer


@functools.cache
def sentencepiece_model() -> bytes:
    """A SentencePiece model with byte fallback, as the bytes of its file."""
    target = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(CORPUS),
        model_writer=target,
        vocab_size=380,
        byte_fallback=True,
        hard_vocab_limit=False,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        user_defined_symbols=["<sep>"],
        minloglevel=2,
    )
    return target.getvalue()


def word_piece() -> Tokenizer:
    """As BERT: a token alone does not determine word ends."""
    tokenizer = Tokenizer(models.WordPiece({"[UNK]": 0, "a": 1, "##b": 2}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.decoder = decoders.WordPiece()
    return tokenizer


def splitting_byte_level() -> Tokenizer:
    """As GPT-4 and DeepSeek: splits of its own before the byte alphabet."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(r"\p{N}{1,3}"), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=330, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    return tokenizer


def _merges(tokenizer: Tokenizer) -> list[tuple[str, str]]:
    import json

    return [tuple(pair) for pair in json.loads(tokenizer.to_str())["model"]["merges"]]


def _unigram_scores(tokenizer: Tokenizer) -> list[tuple[str, float]]:
    import json

    return [(piece, score) for piece, score in json.loads(tokenizer.to_str())["model"]["vocab"]]
