"""GGUF files, written by the format's own package and read by ours."""

from __future__ import annotations

import contextlib
import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

gguf = pytest.importorskip("gguf")

from structgen.errors import VocabularyError  # noqa: E402
from structgen.tokenizers.gguf_metadata import read_metadata  # noqa: E402
from structgen.vocabulary import Vocabulary  # noqa: E402
from tests.real_tokenizers import tokenizer_path  # noqa: E402

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)


def write(path: Path, model: str | None, tokens: list[tuple[bytes, int]], **ends: int) -> Path:
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_bool("a.flag", True)
    writer.add_float32("a.number", 0.5)
    writer.add_int64("a.negative", -5)
    writer.add_array("a.numbers", [1, 2, 3])
    if model is not None:
        writer.add_tokenizer_model(model)
        writer.add_token_list([text for text, _ in tokens])
        writer.add_token_types([type_ for _, type_ in tokens])
        for name, i in ends.items():
            writer.add_uint32(f"tokenizer.ggml.{name}_token_id", i)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    return path


SENTENCEPIECE = [
    (b"<unk>", UNKNOWN),
    (b"</s>", CONTROL),
    (b"<0x0A>", BYTE),
    ("▁a".encode(), NORMAL),
    ("▁▁".encode(), USER_DEFINED),
    (b"<0x0B>", NORMAL),
    (b"gap", UNUSED),
]


def test_sentencepiece_tokens(tmp_path: Path) -> None:
    path = write(tmp_path / "a.gguf", "llama", SENTENCEPIECE, eos=1)
    vocabulary = Vocabulary.from_tokenizer(path)
    assert vocabulary.eos_ids == (1,)
    assert [vocabulary.token_bytes(i) for i in range(7)] == [None, None, b"\n", b" a", b"  ", b"<0x0B>", None]
    assert vocabulary.encode("a") is None


def test_byte_level_tokens_and_several_ends(tmp_path: Path) -> None:
    tokens = [("Ġé".encode(), NORMAL), ("Ã©".encode(), NORMAL), ("é日".encode(), USER_DEFINED)]
    ends = [(b"<end>", CONTROL), (b"<turn>", CONTROL)]
    path = write(tmp_path / "a.gguf", "gpt2", [*tokens, *ends], eos=3, eot=4, eom=3)
    vocabulary = Vocabulary.from_tokenizer(str(path), size=8)
    assert vocabulary.eos_ids == (3, 4)
    assert [vocabulary.token_bytes(i) for i in range(5)] == [
        b" \xe9",
        "é".encode(),
        "é日".encode(),
        None,
        None,
    ]
    assert vocabulary.size == 8


def test_metadata_values(tmp_path: Path) -> None:
    pairs = read_metadata(write(tmp_path / "a.gguf", None, []))
    assert pairs["general.architecture"] == b"llama"
    assert pairs["a.flag"] is True and pairs["a.number"] == 0.5 and pairs["a.negative"] == -5
    assert pairs["a.numbers"].tolist() == [1, 2, 3]


def test_the_embedded_file_agrees_with_the_tokenizer_made_from_it() -> None:
    from structgen.models import load_vocabulary

    known = Vocabulary.from_tokenizer(tokenizer_path("smollm2"))
    read = load_vocabulary()
    assert read.size == known.size == 49152
    assert [read.token_bytes(i) for i in range(read.size)] == [known.token_bytes(i) for i in range(read.size)]


def test_files_without_a_tokenizer_and_kinds_without_bytes(tmp_path: Path) -> None:
    with pytest.raises(VocabularyError, match="contains no tokenizer"):
        Vocabulary.from_tokenizer(write(tmp_path / "a.gguf", None, []))
    with pytest.raises(VocabularyError, match="its tokenizer is 'bert'"):
        Vocabulary.from_tokenizer(write(tmp_path / "b.gguf", "bert", SENTENCEPIECE))
    (tmp_path / "c.gguf").write_bytes(b"")
    with pytest.raises(VocabularyError, match="not a valid GGUF file"):
        Vocabulary.from_tokenizer(tmp_path / "c.gguf")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("damaged")
    write(folder / "good.gguf", "llama", SENTENCEPIECE, eos=1)
    return folder


@settings(max_examples=200)
@given(place=st.integers(0, 400), patch=st.binary(min_size=1, max_size=8), is_cut=st.booleans())
def test_damaged_files_are_read_or_reported(folder: Path, place: int, patch: bytes, is_cut: bool) -> None:
    data = (folder / "good.gguf").read_bytes()
    damaged = data[:place] if is_cut else data[:place] + patch + data[place + len(patch) :]
    (folder / "bad.gguf").write_bytes(damaged)
    with contextlib.suppress(VocabularyError):
        Vocabulary.from_tokenizer(folder / "bad.gguf", eos_ids=[])


def test_a_length_beyond_the_file_allocates_nothing(tmp_path: Path) -> None:
    for kind, count in ((8, 2**60), (4, 2**60), (4, 2**63)):
        key = struct.pack("<Q", 1) + b"k"
        path = tmp_path / "a.gguf"
        path.write_bytes(struct.pack("<4sIQQ", b"GGUF", 3, 0, 1) + key + struct.pack("<IIQ", 9, kind, count))
        with pytest.raises(VocabularyError, match="not a valid GGUF file"):
            read_metadata(path)


TEXTS, INTEGERS, NUMBER = [b"a", b"b"], (1, 1), 0.5


@pytest.mark.parametrize(
    ("name", "kind", "value"),
    [
        ("token_type", 6, NUMBER),  # a number where a list belongs
        ("token_type", 8, b"normal"),
        ("token_type", (9, 6), [1.0, 1.0]),
        ("token_type", (9, 8), TEXTS),
        ("token_type", (9, 7), [True, True]),
        ("eos_token_id", 8, b"b"),
        ("eos_token_id", 6, NUMBER),
        ("eos_token_id", (9, 5), INTEGERS),
        ("eos_token_id", 7, True),
        ("tokens", (9, 5), INTEGERS),
        ("tokens", 8, b"ab"),
        ("model", 5, 1),
        ("model", (9, 8), TEXTS),
    ],
)
def test_metadata_of_wrong_types(tmp_path: Path, name: str, kind: object, value: object) -> None:
    formats = {5: "<i", 6: "<f", 7: "<?"}

    def string(text: bytes) -> bytes:
        return struct.pack("<Q", len(text)) + text

    def written(kind: object, value: object) -> bytes:
        if isinstance(kind, tuple):
            assert isinstance(value, (list, tuple))
            body = b"".join(
                string(one) if kind[1] == 8 else struct.pack(formats[kind[1]], one) for one in value
            )
            return struct.pack("<IIQ", 9, kind[1], len(value)) + body
        assert isinstance(kind, int)
        return struct.pack("<I", kind) + (
            string(value) if isinstance(value, bytes) else struct.pack(formats[kind], value)
        )

    good: dict[str, tuple[object, object]] = {"model": (8, b"llama"), "tokens": ((9, 8), TEXTS)}
    good |= {"token_type": ((9, 5), INTEGERS), "eos_token_id": (5, 1)}
    for pairs, wrong in ((good, False), ({**good, name: (kind, value)}, True)):
        path = tmp_path / "a.gguf"
        body = b"".join(
            string(f"tokenizer.ggml.{key}".encode()) + written(*pair) for key, pair in pairs.items()
        )
        path.write_bytes(struct.pack("<4sIQQ", b"GGUF", 3, 0, len(pairs)) + body)
        if wrong:
            with pytest.raises(VocabularyError):
                Vocabulary.from_tokenizer(path)
        else:
            assert Vocabulary.from_tokenizer(path).eos_ids == (1,)
