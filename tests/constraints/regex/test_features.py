"""The parsers support the features as declared."""

from __future__ import annotations

from typing import Any

import pytest

from structgen.constraints.regex import FEATURES, Feature
from structgen.constraints.regex.ecma import EcmaParser, StrictEcmaParser
from structgen.constraints.regex.parser import Parser
from structgen.constraints.regex.python import PythonParser
from structgen.errors import RegexError, RegexSyntaxError, RegexUnsupported


def outcome(parser: type[Parser], pattern: str) -> str:
    try:
        parser(pattern).parse()
    except RegexUnsupported:
        return "unsupported"
    except RegexSyntaxError:
        return "absent"
    return "accepted"


@pytest.mark.parametrize("feature", FEATURES, ids=lambda feature: feature.name)
def test_each_example_does_what_is_declared(feature: Feature) -> None:
    assert outcome(PythonParser, feature.example) == _expected(feature.python)
    assert outcome(EcmaParser, feature.example) == _expected(feature.ecma)
    strict = outcome(StrictEcmaParser, feature.example)
    if feature.ecma == "exact":
        assert strict == "accepted"
    else:
        assert strict in ("absent", feature.ecma)


def test_python_is_never_lenient() -> None:
    assert all(feature.python != "lenient" for feature in FEATURES)


def test_names_are_distinct() -> None:
    assert len({feature.name for feature in FEATURES}) == len(FEATURES)


@pytest.mark.parametrize(
    "feature", [f for f in FEATURES if "unsupported" in (f.python, f.ecma)], ids=lambda f: f.name
)
def test_each_refusal_shows_the_place_and_says_what_to_do(feature: Feature) -> None:
    parser: Any = PythonParser if feature.python == "unsupported" else EcmaParser
    with pytest.raises(RegexError) as caught:
        parser("ab" + feature.example).parse()
    error = caught.value
    assert error.position >= 2
    assert "^" in str(error).splitlines()[3]
    assert error.hint


def _expected(level: str) -> str:
    return level if level in ("unsupported", "absent") else "accepted"
