"""What tests leave behind is released, and what they still hold works on."""

from __future__ import annotations

import structgen as sg
from tests import memory
from tests.core.small_vocabulary import byte_vocabulary


def test_engines_are_built_again_and_matchers_go_on() -> None:
    vocabulary = byte_vocabulary()
    matcher = sg.Matcher(sg.regex("ab+"), vocabulary)
    assert matcher.advance(2 + ord("a"))
    engine = vocabulary.engine
    memory.release()
    assert vocabulary.engine is not engine
    assert matcher.advance(2 + ord("b")) and matcher.is_complete()
    assert sg.Matcher(sg.regex("ab+"), vocabulary).advance(2 + ord("a"))


def test_programs_are_released() -> None:
    vocabulary = sg.Vocabulary.of_bytes()
    for pattern in ("(((a|ab){2,3}){4,7}|b){200}", "((a|ab){1,9}(b|bc|c){1,9}){60}"):
        matcher = sg.Matcher(sg.regex(pattern), vocabulary)
        matcher.mask()
        matcher.witness()
    held = vocabulary.engine.memory
    del matcher
    memory.release()
    assert vocabulary.engine.memory < held / 4


def test_memory_is_measured() -> None:
    assert 0 <= memory.resident() <= memory.peak()
