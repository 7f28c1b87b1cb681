"""Engines of the benchmarks: sessions that are used again, grammars, and caches that are cleared."""

from __future__ import annotations

import pytest
from transformers import AutoTokenizer

from bench.engines import MaskbenchEngine
from bench.grammars.engines import ENGINES, SMALL
from structgen.evaluation.engines import BENCHMARK_ENGINES, ReusableSession, has_token
from tests.real_tokenizers import tokenizer_path

_FOLDER = tokenizer_path("smollm2")


def _accepts(session: ReusableSession, tokens: list[int]) -> bool:
    for token in tokens:
        if not has_token(session.mask(), token) or not session.accept(token):
            return False
    return session.is_accepting()


@pytest.mark.parametrize("name", BENCHMARK_ENGINES)
def test_a_session_reads_texts_one_after_another(name: str) -> None:
    tokenizer = AutoTokenizer.from_pretrained(_FOLDER)
    session = BENCHMARK_ENGINES[name](tokenizer).open('{"type": "array", "items": {"type": "boolean"}}')
    valid, invalid = (tokenizer.encode(text, add_special_tokens=False) for text in ("[true]", "[1]"))
    assert _accepts(session, valid)
    session.reset()
    assert _accepts(session, valid)
    session.restart()
    assert not _accepts(session, invalid)


@pytest.mark.parametrize("name", ENGINES)
def test_a_grammar_is_compiled_again_after_programs_are_forgotten(name: str) -> None:
    tokenizer = AutoTokenizer.from_pretrained(_FOLDER)
    setup = ENGINES[name]
    engine = setup.make(tokenizer)
    tokens = tokenizer.encode("ab = 12 ;", add_special_tokens=False)
    assert _accepts(setup.open(engine, SMALL[setup.notation]), tokens)
    engine.forget_programs()
    engine.clear_function_caches()
    assert _accepts(setup.open(engine, SMALL[setup.notation]), tokens)


def test_the_session_for_the_mask_tool_counts_and_finds_tokens() -> None:
    session = MaskbenchEngine(str(_FOLDER), {}).compile('{"const": 1}')
    session.mask()
    assert session.count() >= 1
    session.fresh()
    session.mask()
    assert sum(session.allowed(token) for token in range(49_152)) == session.count()
