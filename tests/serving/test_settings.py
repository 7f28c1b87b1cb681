"""Settings from the environment: what is given counts, and nothing wrong is ignored."""

import pytest

from structgen.errors import OptionError
from structgen.serving.settings import VARIABLE, Settings, read_settings


def test_without_a_variable_all_is_as_usual(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    assert read_settings() == Settings()


def test_what_is_given_counts(monkeypatch):
    monkeypatch.setenv(
        VARIABLE, '{"compile_seconds": 2, "workers": 3, "whitespace": "compact", "ordered": false}'
    )
    found = read_settings()
    assert (found.limits.compile_seconds, found.workers) == (2, 3)
    assert (found.limits.whitespace, found.limits.ordered) == ("compact", False)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not valid JSON"),
        ("[]", "a JSON object"),
        ('{"seconds": 1}', "unknown setting 'seconds'"),
        ('{"max_matcher_processes": 1}', "unknown setting 'max_matcher_processes'"),
        ('{"workers": 0}', "workers is 0"),
        ('{"workers": 1.5}', "workers is 1.5"),
        ('{"ordered": 1}', "true or false"),
        ('{"whitespace": "none"}', "one of flexible"),
        ('{"max_bytes": "1"}', "a number above 0"),
    ],
)
def test_errors_name_what_is_wrong(text, message):
    with pytest.raises(OptionError) as caught:
        read_settings(text)
    assert message in str(caught.value)
