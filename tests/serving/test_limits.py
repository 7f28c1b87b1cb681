"""Limits of a process that receives only specs which met the limits of another."""

from structgen.serving.limits import RequestLimits


def test_limits_are_relaxed_for_specs_that_passed_a_probe():
    limits = RequestLimits(install_seconds=1e-5, compile_seconds=1.0)
    passed = limits.relaxed()
    assert (passed.install_seconds, passed.compile_seconds) == (4e-5, 4.0)
    assert passed.compile_bytes > limits.compile_bytes and passed.max_pending > limits.max_pending
    assert passed.max_bytes == limits.max_bytes and passed.slow_mask_seconds == limits.slow_mask_seconds


def test_the_time_to_build_is_for_each_started_part_of_a_spec():
    limits = RequestLimits(install_seconds=0.5)
    assert [limits.install_seconds_for(size) for size in (0, 1, 65_536, 65_537, 1 << 20)] == [
        0.5,
        0.5,
        0.5,
        1.0,
        8.0,
    ]
