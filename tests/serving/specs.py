"""Specs that the tests of probes and compilers share."""

import structgen as sg

__all__ = ["BYTES", "SLOW", "UNLIMITED_BYTES"]

BYTES = sg.Vocabulary.of_bytes()
# Under the limits of a vocabulary for serving it is refused after some seconds of CPU time,
SLOW = "start: a+\na: " + " | ".join(f'"{i}" a?' for i in range(20_000))
# and without them it takes close to a minute.
UNLIMITED_BYTES = BYTES.with_limits(call_steps=1 << 40)
