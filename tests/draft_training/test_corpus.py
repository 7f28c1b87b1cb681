"""Corpora: documents of files, their pieces, and files that cannot be trained on."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from structgen.draft_training import corpus as corpora  # noqa: E402
from structgen.draft_training.corpus import check_corpus, documents, pieces, read_corpus  # noqa: E402
from structgen.draft_training.features import LONGEST, compute_features  # noqa: E402
from structgen.draft_training.recipes import Recipe, layers_read, train_drafter  # noqa: E402
from structgen.draft_training.texts import Text  # noqa: E402
from structgen.errors import ModelError, OptionError  # noqa: E402
from tests.draft_training.test_nested_layers import Deep  # noqa: E402
from tests.draft_training.test_training import OPTIONS  # noqa: E402


class Letters:
    """A tokenizer of lower-case letters, which are the tokens from 2; it puts `first` before each text."""

    def __init__(self, first: Sequence[int] = ()) -> None:
        self.first = list(first)

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        ids = [2 + (ord(letter) - ord("a")) % 26 for letter in text]
        return [*self.first, *ids] if add_special_tokens else ids


def model_with(first: Sequence[int] = ()) -> Any:
    model = Deep()
    model.tokenizer = Letters(first)
    return model


def test_documents_of_json_lines(tmp_path: Path) -> None:
    path = tmp_path / "texts.JSONL"
    lines = [{"text": "one\u2028\ntwo", "id": 3}, {"text": " \n"}, {"text": "thr\u00e9e"}]
    written = "\n\n".join(json.dumps(line, ensure_ascii=False) for line in lines)
    path.write_text("\ufeff" + written, "utf-8")
    assert list(documents(path)) == ["one\u2028\ntwo", "thr\u00e9e"]
    check_corpus(path)


def test_a_text_is_read_in_blocks_of_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, text = tmp_path / "text.txt", "\ufeffone\n\ntwo\nthree and\n\n four\nfive"
    path.write_text(text, "utf-8")
    assert list(documents(path)) == [text[1:]]
    monkeypatch.setattr(corpora, "_BLOCK", 8)
    found = list(documents(path))
    assert "".join(found) == text[1:] and len(found) > 2
    assert all(block.endswith("\n") for block in found[:-1])


@given(
    texts=st.lists(st.text("abc", max_size=40), max_size=6),
    first=st.lists(st.just(1), max_size=2),
    shortest=st.integers(1, 6),
    longest=st.integers(6, 12),
)
def test_pieces_are_the_tokens_of_documents_without_short_ends(
    texts: list[str], first: list[int], shortest: int, longest: int
) -> None:
    def tokenize(text: str) -> list[int]:
        return Letters().encode(text)

    wanted = []
    for text in texts:
        places = [(place // (longest - len(first)), token) for place, token in enumerate(tokenize(text))]
        for _, part in groupby(places, key=lambda place: place[0]):
            piece = [*first, *(token for _, token in part)]
            wanted += [piece] if len(piece) >= shortest else []
    found = pieces(iter(texts), tokenize, first, shortest=shortest, longest=longest)
    assert [piece.tolist() for piece in found] == wanted


@pytest.mark.parametrize("first", [(), (1,)])
def test_a_corpus_has_no_states_and_at_most_so_many_tokens(tmp_path: Path, first: tuple[int, ...]) -> None:
    path, text = tmp_path / "text.txt", "abcdefghijk" * 200
    path.write_text(text)
    model = model_with(first)
    whole = read_corpus(model, path, most_tokens=100_000, shortest=5)
    features = whole.features
    assert whole.is_whole and features.states.nbytes == 0 and features.layers == ()
    assert max(features.length(piece) for piece in range(len(features))) == LONGEST
    assert set(features.answers.tolist()) == {len(first)}
    found: list[int] = []
    for piece in range(len(features)):
        tokens = features.tokens[features.offsets[piece] : features.offsets[piece + 1]].tolist()
        assert tuple(tokens[: len(first)]) == first
        found += tokens[len(first) :]
    assert found == Letters().encode(text)
    some = read_corpus(model, path, most_tokens=2 * LONGEST + 100, shortest=5)
    assert not some.is_whole and len(some.features) == 2
    assert np.array_equal(some.features.tokens, features.tokens[: 2 * LONGEST])


def test_states_change_nothing_for_cross_entropy(tmp_path: Path) -> None:
    """A corpus without states is learned like texts with the states of the model."""
    (tmp_path / "text.jsonl").write_text(
        "\n".join(json.dumps({"text": "abacadae" * count}) for count in range(2, 12))
    )
    model = model_with((1,))
    corpus = read_corpus(model, tmp_path / "text.jsonl", most_tokens=10_000, shortest=5)
    features = corpus.features
    texts = [
        Text([1], features.tokens[features.offsets[text] + 1 : features.offsets[text + 1]].tolist(), "", 0.0)
        for text in range(len(features))
    ]
    states = compute_features(model, texts, tmp_path / "states", layers_read(model), most_bytes=1 << 20)
    recipe = Recipe("layers", 64, options=dataclasses.replace(OPTIONS, epochs=3))
    without, _ = train_drafter(model, features, recipe)
    with_states, _ = train_drafter(model, states, recipe)
    assert all(torch.equal(tensor, without.tensors[name]) for name, tensor in with_states.tensors.items())


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("none.txt", None, "the corpus cannot be read: .*none.txt: No such file"),
        ("empty.txt", b"", "the corpus .*empty.txt contains no text"),
        ("blank.txt", b" \n\n", "the corpus .*blank.txt contains no text"),
        ("latin.txt", b"one\ntw\xf6\n", "latin.txt is not UTF-8 text: byte 3 of line 2 is wrong"),
        ("latin.jsonl", b'{"text": "tw\xf6"}', "latin.jsonl is not UTF-8 text: byte 13 of line 1"),
        ("blank.jsonl", b'\n{"text": ""}\n', "the corpus .*blank.jsonl contains no text"),
        ("other.jsonl", b'{"text": "a"}\n\n{"body": "b"}\n', "other.jsonl: line 3 .* no member 'text'"),
        ("number.jsonl", b'{"text": 3}\n', "number.jsonl: line 1 .*'text' is an int, not a text"),
        ("list.jsonl", b'["text"]\n', "list.jsonl: line 1 .* it is a list, not an object"),
        ("plain.jsonl", b"Rivers are long.\n", "plain.jsonl: line 1 .* Expecting value at column 1"),
        ("half.jsonl", b'{"text": "\\ud800"}\n', "half.jsonl: line 1 .* surrogates not allowed"),
    ],
)
def test_files_that_cannot_be_trained_on(
    tmp_path: Path, name: str, content: bytes | None, message: str
) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises((OptionError, ModelError), match=message):
        check_corpus(path)


def test_a_directory_and_a_line_without_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ModelError, match="the corpus cannot be read"):
        check_corpus(tmp_path)
    (tmp_path / "long.txt").write_text("abc\n" + "d" * 100)
    monkeypatch.setattr(corpora, "_LONGEST_LINE", 50)
    with pytest.raises(OptionError, match=r"long.txt: line 2 has more than"):
        check_corpus(tmp_path / "long.txt")


@pytest.mark.parametrize(
    ("content", "most", "found"), [("abcdefgh", 1000, 1), ("abc", 1000, 0), ("ab" * 1000, 500, 1)]
)
def test_too_little_text(tmp_path: Path, content: str, most: int, found: int) -> None:
    (tmp_path / "short.txt").write_text(content)
    with pytest.raises(OptionError, match=f"short.txt has too little text to train on: {found} of the two"):
        read_corpus(model_with(), tmp_path / "short.txt", most_tokens=most, shortest=5)
    with pytest.raises(OptionError, match="corpus of 0 tokens"):
        read_corpus(model_with(), tmp_path / "short.txt", most_tokens=0, shortest=5)
