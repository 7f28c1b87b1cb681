"""Settings from the environment: given values are used, and wrong ones raise."""

import pytest

from structgen.errors import OptionError
from structgen.serving.settings import VARIABLE, Settings, read_settings


def test_without_a_variable_the_defaults_hold(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    assert read_settings() == Settings()


def test_given_settings_are_used(monkeypatch):
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
