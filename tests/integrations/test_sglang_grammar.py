"""The part of the plugin that does not need SGLang, under limits of the core."""

import numpy as np
import pytest
import torch

import structgen as sg
from structgen.errors import LimitExceeded
from structgen.integrations.sglang.grammar import RequestGrammar
from structgen.serving.sequence import ConstrainedSequence

BYTES = sg.Vocabulary.of_bytes()
WORDS = (BYTES.size + 31) // 32


def _grammar(pattern="ab+", stops=()):
    return RequestGrammar(ConstrainedSequence(sg.Matcher(sg.regex(pattern), BYTES), stops))


class _Limited:
    """A matcher that meets a limit at "b"."""

    def __init__(self, inner):
        self._inner = inner

    def __getattr__(self, name):
        return getattr(self._inner, name)

    def advance(self, token):
        if token == ord("b"):
            raise LimitExceeded("too many states", limit="automaton_states", hint="")
        return self._inner.advance(token)


def _row(grammar):
    mask = torch.zeros((1, WORDS), dtype=torch.int32)
    grammar.fill_vocab_mask(mask, 0)
    bits = np.unpackbits(mask.numpy().view(np.uint8), bitorder="little")
    return [int(token) for token in np.flatnonzero(bits)]


def test_a_draft_token_that_meets_a_limit_is_rolled_back():
    """SGLang accepts the draft tokens that a row allows, and catches no error there."""
    grammar = _grammar()
    grammar.sequence.matcher = _Limited(grammar.sequence.matcher)
    grammar.accept_token(ord("a"))
    assert _row(grammar) == [ord("b")]
    grammar.accept_token(ord("b"))
    assert len(_row(grammar)) == 1  # a random token, so that no draft token is allowed
    grammar.rollback(1)
    assert grammar.sequence.failure is None
    assert _row(grammar) == [ord("b")]


def test_a_generated_token_that_meets_a_limit_ends_the_request_with_the_next():
    grammar = _grammar()
    grammar.sequence.matcher = _Limited(grammar.sequence.matcher)
    grammar.accept_token(ord("a"))
    grammar.accept_token(ord("b"))
    (token,) = _row(grammar)
    with pytest.raises(ValueError, match="too many states"):
        grammar.accept_token(token)


def test_a_row_where_nothing_can_follow_allows_one_token():
    grammar = _grammar("a!b", stops=[ord("!")])
    grammar.accept_token(ord("a"))
    (token,) = _row(grammar)
    with pytest.raises(ValueError, match="no token continues"):
        grammar.accept_token(token)


def test_tokens_after_the_end_are_rolled_back_with_it():
    grammar = _grammar()
    for token in [*b"ab", 256, ord("x")]:
        grammar.accept_token(token)
    assert grammar.is_terminated()
    grammar.rollback(1)
    assert grammar.is_terminated()
    grammar.rollback(2)
    assert not grammar.is_terminated()
    assert _row(grammar) == [ord("b")]
