"""Settings of the server, also from the options of `structgen serve`."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from structgen.cli import serve
from structgen.errors import OptionError
from structgen.server.settings import ServerSettings
from structgen.tools import FORMATS, ToolFormat


def settings_of(*arguments: str) -> ServerSettings:
    parser = argparse.ArgumentParser()
    serve._add_arguments(parser)
    return serve._settings(parser.parse_args(arguments))


def test_whether_answers_are_complete_within_their_tokens() -> None:
    assert not settings_of().close_within_budget
    assert settings_of("--close-within-budget").close_within_budget


def test_a_setting_of_a_wrong_type_is_refused() -> None:
    with pytest.raises(OptionError, match="close_within_budget is 'yes'; it must be True or False"):
        ServerSettings(close_within_budget="yes")  # type: ignore[arg-type]


@pytest.fixture
def described(tmp_path: Path) -> Iterator[Path]:
    """Return a file that describes a tool format of the name "of_a_file"."""
    format = ToolFormat(
        "of_a_file", "", call="<run>$name $arguments</run>", marker="<run>", specials=("<run>", "</run>")
    )
    file = tmp_path / "of_a_file.json"
    file.write_text(json.dumps(format.as_data()), "utf-8")
    yield file
    FORMATS.pop("of_a_file", None)


def test_a_file_describes_the_tool_format(described: Path) -> None:
    assert settings_of("--tool-format", str(described)).tool_format == "of_a_file"
    assert FORMATS["of_a_file"].call == "<run>$name $arguments</run>"
    assert settings_of("--tool-format", "gemma4").tool_format == "gemma4"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "No such file"),
        ("{", "Expecting"),
        ("[]", "is no JSON object"),
        ('{"name": "x"}', "the field 'call' of a tool format is missing"),
        ('{"name": "x", "models": "", "call": "x", "marker": "y"}', "call needs"),
    ],
)
def test_files_that_describe_no_tool_format(tmp_path: Path, content: str | None, message: str) -> None:
    file = tmp_path / "wrong.json"
    if content is not None:
        file.write_text(content)
    with pytest.raises(OptionError, match=message):
        settings_of("--tool-format", str(file))


def test_an_unknown_tool_format_is_refused() -> None:
    with pytest.raises(OptionError, match="there is no tool format 'gema4'") as caught:
        settings_of("--tool-format", "gema4")
    assert "Did you mean gemma4?" in str(caught.value)
