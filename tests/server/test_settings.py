"""Settings of the server, also from the options of `structgen serve`."""

from __future__ import annotations

import argparse

import pytest

from structgen.cli import serve
from structgen.errors import OptionError
from structgen.server.settings import ServerSettings


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
