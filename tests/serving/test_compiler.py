"""Compiled constraints: they open matchers; slow ones have an engine of their own or are refused."""

import pytest

from structgen.errors import LimitExceeded
from structgen.serving.compiler import ConstraintCompiler
from structgen.serving.limits import RequestLimits

from .specs import BYTES


@pytest.fixture(scope="module")
def compiler():
    with ConstraintCompiler(BYTES, RequestLimits(compile_seconds=30.0), workers=1) as made:
        yield made


def test_a_compiled_spec_opens_matchers(compiler):
    compiled = compiler.compile("regex", "ab?")
    first, second = compiled.open(), compiled.open()
    assert first.advance(ord("a"))
    assert second.tokens == []
    assert first.is_complete()
    assert compiled.constraint.describe() == "the pattern /ab?/"


def test_text_and_value_are_different_specs(compiler):
    assert compiler.compile("json", "true").open().advance(ord("1"))
    assert compiler.compile("json", True).open().advance(ord("1"))


def test_a_constraint_that_takes_long_to_build_is_refused():
    limits = RequestLimits(install_seconds=1e-7)
    with ConstraintCompiler(BYTES, limits, workers=1) as compiler:
        with pytest.raises(LimitExceeded) as caught:
            compiler.compile("regex", "a")
        assert caught.value.limit == "install_seconds"


def test_a_spec_with_a_slow_mask_has_an_engine_of_its_own():
    limits = RequestLimits(slow_mask_seconds=1e-9)
    with ConstraintCompiler(BYTES, limits, workers=1) as compiler:
        compiled = compiler.compile("regex", "ab")
        assert compiled.is_slow
        assert compiled.vocabulary.engine is not compiler.vocabulary.engine
        assert compiled.vocabulary.native is compiler.vocabulary.native
        assert compiler.stats.slow == 1
