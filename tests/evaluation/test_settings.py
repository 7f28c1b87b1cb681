"""The settings of a run are saved and loaded again; instances are tokenized."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from structgen.errors import OptionError
from structgen.evaluation.settings import Counted, RunOptions, described, options_of
from structgen.evaluation.worker import _encoder
from structgen.vocabulary import Vocabulary


@given(
    engines=st.lists(st.sampled_from(["structgen", "unconstrained"]), min_size=1, max_size=3),
    sample=st.none() | st.integers(1, 9),
    generate=st.integers(0, 3),
    seconds=st.floats(0.1, 100),
    tasks=st.lists(st.sampled_from(["calling", "extraction"])),
)
def test_options_are_read_as_they_were_written(**given: Any) -> None:
    options = RunOptions(**given)
    settings = json.loads(json.dumps(described(options, [Counted("d", "d", {"p": 3}, "abc")], 1, 2)))
    assert options_of(settings) == options
    assert settings["datasets"] == [
        {"name": "d", "spec": "d", "parts": {"p": 3}, "schemas": 3, "digest": "abc"}
    ]
    assert settings["machine"]["cpus"] and settings["versions"]["structgen"]


def test_runs_with_settings_of_another_version_are_not_resumed() -> None:
    settings = described(RunOptions(), [], 1, 1)
    for changed, said in (
        ({"options": settings["options"] | {"new": 1}}, r"differ from this version's in \['new'\]"),
        ({"options": None}, "does not record its options"),
        ({"engines": {"structgen": "0"}}, "started with structgen 0"),
        ({"versions": {"jsonschema-rs": "0"}}, "started with jsonschema-rs 0"),
    ):
        with pytest.raises(OptionError, match=said):
            options_of(settings | changed)


def test_a_key_is_named_and_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "sk-secret")
    report = json.dumps(described(RunOptions(api_key_env="MY_KEY"), [], 1, 1))
    assert "MY_KEY" in report and "sk-secret" not in report


def test_instances_are_tokenised_as_the_tokenizer_does_or_byte_by_byte() -> None:
    tokens = [bytes([i]) for i in range(256)] + [b"ab", None]
    words = {"ab": [256], "\x02ab": [2, 256]}

    def encode(text: str) -> list[int]:
        return words.get(text, [0])  # which spells something else

    vocabulary = Vocabulary(tokens, [257], encoder=encode)
    assert _encoder(vocabulary)("ab") == [256]
    assert _encoder(vocabulary)("é") == [0xC3, 0xA9]
