"""``structgen mask``: in the terminal, and as a page that holds what the matcher says."""

from __future__ import annotations

import base64
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import structgen as sg
from structgen.cli import inputs, main
from structgen.cli.mask_page import mask_page
from tests.embedded import require_embedded_package

BYTES = ["--tokenizer", "bytes"]


def page_data(page: str) -> Any:
    found = re.search(r"^const data = (.*);$", page, re.MULTILINE)
    assert found
    return json.loads(found.group(1))


def test_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mask", *BYTES, "--choice", "yes", "--choice", "yet", "--prefix", "ye"]) == 0
    out = capsys.readouterr().out
    assert "2 of 257 tokens may come next" in out
    assert "'s'" in out
    assert "'t'" in out
    assert "not complete" in out


def test_forced_text_and_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mask", *BYTES, "--choice", "yes", "--prefix", "y"]) == 0
    assert "every continuation begins with 'es'" in capsys.readouterr().out
    assert main(["mask", *BYTES, "--choice", "yes", "--prefix", "yes"]) == 0
    out = capsys.readouterr().out
    assert "the text is complete here" in out
    assert "<end of text>" in out


def test_long_lists_are_cut(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mask", *BYTES, "--regex", "[a-z]+", "--count", "3"]) == 0
    assert "and 23 more" in capsys.readouterr().out


def test_the_embedded_vocabulary_needs_no_torch(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    require_embedded_package()
    monkeypatch.setitem(sys.modules, "torch", None)
    assert main(["mask", '{"type": "boolean"}', "--prefix", "t"]) == 0
    assert "of 49,152 tokens may come next" in capsys.readouterr().out


def test_a_count_below_zero_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mask", "--regex", "a", "--tokenizer", "bytes", "--count", "-1"]) == 2
    assert "--count is -1; it must be 0 or more" in capsys.readouterr().err


def test_a_prefix_outside_the_language(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mask", *BYTES, '{"type": "integer"}', "--prefix", "1x"]) == 1
    assert "^" in capsys.readouterr().err


def test_no_constraint(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mask", *BYTES]) == 2
    assert "mask needs a constraint" in capsys.readouterr().err


def test_an_unknown_tokenizer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mask", "--tokenizer", str(tmp_path), "--regex", "a"]) == 2
    assert str(tmp_path) in capsys.readouterr().err


@pytest.mark.parametrize("name", ["./no", "no/such/folder", "no/tokenizer.json", "no/"])
def test_a_path_that_does_not_exist(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(inputs, "_tokenizer", None)  # no tokenizer is loaded
    assert main(["mask", "--tokenizer", name, "--regex", "a"]) == 2
    assert f"{name!r}: there is no such path" in capsys.readouterr().err


def test_an_uncached_name_is_downloaded_once_and_in_silence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    transformers = pytest.importorskip("transformers")
    monkeypatch.delenv("HF_HUB_VERBOSITY", raising=False)
    asked = []

    def from_pretrained(name: str, *, local_files_only: bool = False) -> None:
        asked.append(local_files_only)
        raise OSError("not connected")

    monkeypatch.setattr(transformers.AutoTokenizer, "from_pretrained", from_pretrained)
    assert main(["mask", "--tokenizer", "no-such/model", "--regex", "a"]) == 2
    assert asked == [True, False]
    assert os.environ["HF_HUB_VERBOSITY"] == "error"
    output = capsys.readouterr().err
    assert "looking on the Hugging Face Hub" in output
    assert "not connected" in output


def test_the_page_holds_the_mask(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mask.html"
    schema = '{"type": "object", "properties": {"a": {"type": "boolean"}}}'
    assert main(["mask", *BYTES, schema, "--prefix", '{"a": t', "--html", str(file)]) == 0
    assert "1 of 257 tokens may come next" in capsys.readouterr().out
    page = file.read_text("utf-8")
    data = page_data(page)
    assert data["forced"] == "rue"
    assert "".join(data["prefix"]) == '{"a": t'
    assert len(data["tokens"]) == 257
    bits = np.unpackbits(np.frombuffer(base64.b64decode(data["mask"]), np.uint8), bitorder="little")
    assert np.flatnonzero(bits).tolist() == [ord("r")]
    assert data["allowed"] == 1
    for outside in ("http://", "https://", "<link", "src="):
        assert outside not in page


def test_tokens_are_never_markup() -> None:
    tokens = [b"</script><script>alert(1)</script>", b"<!--", b"\xff", b"\n", None, b"a"]
    vocabulary = sg.Vocabulary.from_tokens(tokens, eos_ids=[4])
    matcher = sg.Matcher(sg.choice(["a", "</script><script>alert(1)</script>"]), vocabulary)
    page = mask_page(matcher, [], "<b>constraint</b>")
    assert page.count("</script>") == 1
    assert "<!--" not in page.removeprefix("<!DOCTYPE html>")
    data = page_data(page)
    assert data["tokens"] == ["</script><script>alert(1)</script>", "<!--", "\\xff", "\n", None, "a"]
    assert data["constraint"] == "<b>constraint</b>"


def test_a_page_that_cannot_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "no" / "folder.html"
    assert main(["mask", *BYTES, "--regex", "a", "--html", str(file)]) == 2
    assert "cannot write" in capsys.readouterr().err


def test_parts_of_characters_are_shown_as_bytes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mask", *BYTES, "--regex", "é+"]) == 0
    assert "195  '\\xc3'" in capsys.readouterr().out


@pytest.mark.parametrize("prefix", ["1x", "\udcc3"])
def test_a_prefix_that_leaves_the_constraint_is_named(
    prefix: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["mask", *BYTES, '{"type": "integer"}', "--prefix", prefix]) == 1
    captured = capsys.readouterr()
    assert (
        captured.out == "" and "no text of the constraint begins with the --prefix\nCharacter" in captured.err
    )
