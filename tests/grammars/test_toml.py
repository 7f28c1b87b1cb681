"""The shelf's TOML is TOML 1.0.0."""

from __future__ import annotations

import pytest

from bench.corpora.toml_files import beyond_form, is_valid
from tests.grammars.reading import assert_accepted, assert_rejected, disagreements

ACCEPTED = [
    "", "\n", " \t\r\n\n", "# a comment é", "a = 1", "a=1#b\n", "  a = 1  # b\r\n\r\n", 'a-b_1 = ""',
    "1 = 2", "'a' = 1", '"a\\n" = 1', "a . 'b' .\"c\"=1", "[a]\nb = 1\n[ a . c ] # c\n[[c]]\n[[ c ]]\n",
    "a = [1, 2, 3]", "a = []", "a = [ # one\n\n  1, # two\n  2\n  ,\n # three\n]\n",
    "a = [[1], ['b', {c = 1}]]", "a = {}", "a = { b = 1, c.d = 2 }", "a = +1_000", "a = -0",
    "a = 0xDEAD_beef", "a = 0o17", "a = 0b1_0", "a = 1.5e+1_0", "a = -0.0", "a = 1e06",
    "a = [inf, +inf, -inf, nan, +nan, -nan]", "a = [true, false]", "a = 'C:\\x\"'",
    "a = \"\\\"\\\\\\b\\u00E9\\U0001F600\"", 'a = """"""', 'a = """\nb "c" ""d\\\n   e\r\n\\"""f"""',
    'a = """"b"""""', "a = '''b\n'c' ''d'''''", "a = '\t'", "a = 1979-05-27", "a = 1979-05-27T07:32:00Z",
    "a = 1979-05-27 07:32:00.999999-07:00", "a = 2024-02-29t00:00:00", "a = 2000-02-29", "a = 07:32:00.5",
    "a = 0001-12-31", "a = ''''''''",
]  # fmt: skip

REJECTED = [
    "a‸", "a =‸", "a = ‸\n", "‸= 1", "a = 01‸", "a = +‸", "a = 1_‸", "a = 1_‸_0", "a = ‸_1", "a = 1.‸",
    "a = ‸.5", "a = 1.‸e5", "a = 0x‸G", "a = -0‸x1", "a = 0x‸", "a = ‸True", "a = nan‸a", "a = 1e‸",
    "a = 1e1‸.5", 'a = "‸', 'a = "a‸\nb"', 'a = "\\‸a"', 'a = "\\ud‸800"', 'a = "\\U001‸10000"',
    'a = "‸\x7f"', "a = 'a‸\nb'", 'a = """"""""‸"', 'a = """a\\ ‸b"""', 'a = """a\r‸b"""', 'a = "x" ‸"y"',
    "a = [1‸", "a = [1 ‸2]", "a = [‸,]", "a = {b = 1,‸}", "a = {b = 1‸\n}", "a = {b = 1 ‸c = 2}",
    "a = 1 ‸b = 2", "a ‸b = 1", "a. ‸= 1", "[a‸", "[a]‸]", "[[a]‸", "[ ‸[a]]", "[‸]", "[a.‸]\n",
    "[a] ‸b = 1", "a = 1979-1‸3-01", "a = 1979-04-3‸1", "a = 2023-02-2‸9", "a = 1900-02-2‸9",
    "a = 000‸0-01-01", "a = 1979-05-27T‸7:32:00", "a = 1979-05-27T07:32‸", "a = 1979-05-27T2‸4:00:00",
    "a = 23:59:‸60", "a = 1979-05-27T07:32:00.‸Z", "a = 07:32:00‸Z", "a = 1979-05-27  ‸07:32:00", "# ‸\x00",
    "a = 1 # ‸\x1f", "a = 1\r‸b = 2", "a‸é = 1", "‸\ufeffa = 1", "\n" * 20 + "‸\na = 1",
    "a =" + " " * 100 + "‸ 1",
]  # fmt: skip


@pytest.mark.parametrize("text", ACCEPTED)
def test_accepted(text: str) -> None:
    assert is_valid(text)
    assert_accepted("toml", text)


@pytest.mark.parametrize("text", REJECTED)
def test_rejected(text: str) -> None:
    assert_rejected("toml", text)


@pytest.mark.parametrize("text", ["a = 1\na = 2", "[a]\n[a]", "a = {b = 1, b = 2}", "a = 1\na.b = 2"])
def test_keys_may_repeat(text: str) -> None:
    """No context-free grammar can forbid it."""
    assert beyond_form(text)
    assert_accepted("toml", text)


@pytest.mark.parametrize("seed", range(20))
def test_edited_texts_have_the_verdict_of_python(seed: int) -> None:
    assert disagreements("toml", ACCEPTED, is_valid, seed=seed, beyond_form=beyond_form) == []
