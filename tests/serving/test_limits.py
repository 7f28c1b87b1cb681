"""Limits of a process that receives only specs which met the limits of another."""

from structgen.serving.limits import RequestLimits


def test_limits_are_relaxed_for_specs_that_passed_a_probe():
    limits = RequestLimits(install_seconds=1e-5, compile_seconds=1.0)
    passed = limits.relaxed()
    assert (passed.install_seconds, passed.compile_seconds) == (4e-5, 4.0)
    assert passed.compile_bytes > limits.compile_bytes and passed.max_pending > limits.max_pending
    assert passed.max_bytes == limits.max_bytes and passed.slow_mask_seconds == limits.slow_mask_seconds
