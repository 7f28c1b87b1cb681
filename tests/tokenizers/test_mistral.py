"""The tokenizer files that the package mistral-common has: their tokens are the bytes that it decodes."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("mistral_common")

from mistral_common.tokens.tokenizers.mistral import MistralTokenizer

from structgen.constraints.json_schema import json_schema
from structgen.errors import VocabularyError
from structgen.matcher import Matcher
from structgen.vocabulary import Vocabulary

FOLDER = Path(str(files("mistral_common"))) / "data"
FILES = ("tekken_240911.json", "mistral_instruct_tokenizer_241114.model.v7")
TEXTS = ("the quick brown fox", '{"name": "Zoë", "age": 31}', "日本語 🙂\n\tx", "[TOOL_CALLS] is text here")


def _loaded(name: str) -> Any:
    return MistralTokenizer.from_file(str(FOLDER / name))


@pytest.fixture(scope="module", params=FILES)
def loaded(request: pytest.FixtureRequest) -> Any:
    return _loaded(request.param)


def test_tokens_are_the_bytes_that_the_tokenizer_decodes(loaded: Any) -> None:
    inner = loaded.instruct_tokenizer.tokenizer
    vocabulary = Vocabulary.from_tokenizer(loaded)
    assert vocabulary.size == inner.n_words
    assert vocabulary.eos_ids == (inner.eos_id,)
    for text in TEXTS:
        ids = inner.encode(text, bos=False, eos=False)
        assert vocabulary.decode(ids).lstrip(b" ").decode() == inner.decode(ids).lstrip(" ") == text
        spelled = vocabulary.encode(text)
        assert spelled is not None and vocabulary.decode(spelled) == text.encode()


def test_control_tokens_are_specials_and_no_text(loaded: Any) -> None:
    inner = loaded.instruct_tokenizer.tokenizer
    vocabulary = Vocabulary.from_tokenizer(loaded)
    mark = inner.get_special_token("[TOOL_CALLS]")
    assert vocabulary.specials["[TOOL_CALLS]"] == mark
    assert vocabulary.token_bytes(mark) is None
    assert all(vocabulary.token_bytes(i) is None for i in inner.special_ids)


def test_the_tokenizers_around_it_are_read_alike(loaded: Any) -> None:
    inner = loaded.instruct_tokenizer.tokenizer
    expected = Vocabulary.from_tokenizer(inner).fingerprint
    for around in (
        loaded,
        loaded.instruct_tokenizer,
        SimpleNamespace(tokenizer=inner),
    ):  # the last one as vLLM's
        assert Vocabulary.from_tokenizer(around).fingerprint == expected


def test_a_constraint_is_followed(loaded: Any) -> None:
    inner = loaded.instruct_tokenizer.tokenizer
    matcher = Matcher(json_schema({"type": "object"}), Vocabulary.from_tokenizer(loaded))
    for token in matcher.vocabulary.encode('{"name": ["Zoë", 1.5]}') or []:
        assert matcher.mask()[token >> 5] >> (token & 31) & 1
        assert matcher.advance(token)
    assert matcher.advance(inner.eos_id)


def test_a_tekken_file_is_read_by_its_path(tmp_path: Path) -> None:
    path = FOLDER / FILES[0]
    assert (
        Vocabulary.from_tokenizer(path).fingerprint
        == Vocabulary.from_tokenizer(_loaded(FILES[0])).fingerprint
    )
    broken = tmp_path / "tekken.json"
    broken.write_text("{}")
    with pytest.raises(VocabularyError, match="not a valid Tekken tokenizer"):
        Vocabulary.from_tokenizer(broken)
