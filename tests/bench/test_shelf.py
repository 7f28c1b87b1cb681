"""`bench.shelf` counts what a grammar accepts and rejects as the language's own tool does."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

import structgen as sg
from bench.corpora import sample, texts
from bench.shelf import Reader, edited, main, measure


class Words:
    """Texts of the letter a, and their own tool; other small letters in it are no matter of form."""

    NAME = "words"

    def files(self, limit: int | None = None) -> Iterator[tuple[str, str]]:
        yield from sample([(str(size), "a" * size) for size in range(1, 40)], limit)

    def is_valid(self, text: str) -> bool:
        return set(text) <= {"a"}

    def beyond_form(self, text: str) -> bool:
        return text.isalpha() and text.islower()


def test_an_exact_grammar() -> None:
    figures = measure(Words(), Reader(sg.gbnf('root ::= "a"*')), limit=20, edits=20)
    assert (figures.files, figures.accepted) == (20, 20)
    assert figures.broken == figures.rejected > 20
    assert figures.wrong == []
    assert "100.00 %" in figures.row()


def test_a_grammar_that_differs() -> None:
    reader = Reader(sg.gbnf('root ::= "aa" [a-z0-9]*'))
    figures = measure(Words(), reader, limit=None, edits=20)
    assert (figures.files, figures.accepted) == (39, 38)
    assert figures.wrong[0] == "1: rejected after byte 1: 'a' then ''"
    assert 0 < figures.rejected_of_form < figures.of_form < figures.broken
    assert any("accepted at character" in line for line in figures.wrong)


def test_a_reader() -> None:
    reader = Reader(sg.gbnf('root ::= "aé" "b"'))
    assert reader.accepts("aéb") and not reader.accepts("aé")
    assert [reader.viable(text) for text in ("aéb", "aéc", "aè", "")] == [4, 3, 2, 0]


def test_edits_are_small_and_come_back() -> None:
    text = "the quick brown fox"
    found = [edited(text, random.Random(seed)) for seed in range(50)]
    assert found == [edited(text, random.Random(seed)) for seed in range(50)]
    assert len(set(found)) > 30
    assert all(abs(len(other) - len(text)) <= 24 for other in found)


def test_an_unknown_name() -> None:
    with pytest.raises(SystemExit, match="no corpus of 'klingon'; there are .*json"):
        main(["klingon"])


def test_samples_keep_their_order() -> None:
    items = [(str(number), "") for number in range(100)]
    assert sample(items, None) == items
    drawn = sample(items, 10)
    assert drawn == sample(items, 10) and len(drawn) == 10
    assert [int(name) for name, _ in drawn] == sorted(int(name) for name, _ in drawn)


def test_texts_below_a_folder(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("package")
    (folder / "b").mkdir()
    (folder / "b" / "one.txt").write_text("é", "utf-8")
    (folder / "a.txt").write_text("first", "utf-8")
    (folder / "same.txt").write_text("first", "utf-8")
    (folder / "long.txt").write_text("x" * 100, "utf-8")
    (folder / "latin.txt").write_bytes(b"\xe9")
    (folder / "other.md").write_text("no", "utf-8")
    found = [(name.partition("/")[2], text) for name, text in texts([folder], ".txt", most=50)]
    assert found == [("a.txt", "first"), ("b/one.txt", "é")]
