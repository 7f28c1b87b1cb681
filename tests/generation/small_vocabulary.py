"""A small vocabulary for the real and the naive matcher, and random words over it."""

from __future__ import annotations

from hypothesis import strategies as st

from structgen.vocabulary import Vocabulary
from tests.oracles.naive_matcher import NaiveVocabulary

PIECES = [b"a", b"b", b"c", b"ab", b"bc", b"abc", b"ca", "é".encode(), b"\xc3", b"\xa9", None, None]
EOS = [10, 11]
REAL = Vocabulary.from_tokens(PIECES, EOS, size=14)
NAIVE = NaiveVocabulary(PIECES, EOS, size=14)
WORDS = st.lists(st.text("abcé", max_size=5), min_size=1, max_size=6)
