"""Corpora of the benchmark of distillation."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.speculation.corpora import main, paragraphs

LONG = "A long sentence about rivers, lakes &amp; seas. " * 6


def test_paragraphs_are_the_longer_texts_of_a_page() -> None:
    page = f"<h1>{LONG}</h1><p>Short.<p>{LONG}\n <b>bold</b><p>{LONG}</p>{LONG}"
    plain = " ".join(LONG.replace("&amp;", "&").split())
    assert paragraphs(page) == [f"{plain} bold", plain]


def test_both_files_are_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pages = tmp_path / "pages"
    pages.mkdir()
    (pages / "a.html").write_text(f"<p>{LONG}</p>")
    main([str(tmp_path / "made"), "--essays", str(pages)])
    assert "rivers, lakes & seas" in (tmp_path / "made" / "essays.txt").read_text()
    assert "def dumps(" in (tmp_path / "made" / "code.txt").read_text()
    with pytest.raises(SystemExit):
        main([str(tmp_path / "made"), "--essays", str(tmp_path / "none")])
    assert "has no HTML pages" in capsys.readouterr().err
