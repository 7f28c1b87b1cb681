"""Limits on what one request may use, how its JSON is written, and what the compiler keeps."""

from __future__ import annotations

from dataclasses import dataclass, replace

from structgen.constraints.json_schema.options import Integers
from structgen.constraints.json_schema.whitespace import WhitespaceName

__all__ = ["DEFAULT_LIMITS", "INSTALL_BYTES", "RequestLimits"]

INSTALL_BYTES = 64 << 10
"""Bytes of a spec for which an automaton may take `RequestLimits.install_seconds` to build."""
_MOST_LOWERED = 4
"""Largest factor by which the lowered form of a spec raises the limit that the spec's own size gives."""


@dataclass(frozen=True)
class RequestLimits:
    """Limits on one request, the form of its JSON, and the sizes of the compiler's caches.

    A specification ("spec") is what a request sends to describe its constraint, such as a schema or a pattern.
    """

    max_bytes: int = 1 << 20
    """UTF-8 bytes of a spec as JSON or text."""
    max_choices: int = 100_000
    """Texts of one choice."""
    max_tags: int = 4_096
    """Formats in one structural tag."""
    max_depth: int = 64
    """Levels of formats inside each other."""
    whitespace: WhitespaceName = "flexible"
    """White space in JSON texts. Every setting bounds its length."""
    ordered: bool = True
    """Write keys of JSON objects in the order in which the schema declares them, as OpenAI's API promises."""
    integers: Integers = "digits"
    """Write integers without a fraction or an exponent."""
    compile_seconds: float = 5.0
    """CPU time of a compile probe: to read and compile one spec, and to compute its first masks."""
    quick_seconds: float = 0.05
    """CPU time after which a probe counts as slow. Half of the workers, but at least one, may be busy with slow probes
    while other specs wait."""
    compile_bytes: int = 1 << 30
    """Memory that a probe may use beyond its vocabulary, in bytes."""
    install_seconds: float = 0.05
    """CPU time to build the automaton in the serving process, during which no other Python code runs there; for each
    started 64 KiB of the spec, or of its lowered form, which is what is built and counts as at most four times the
    spec. A busy machine lengthens CPU time. So if the estimated work meets this limit, the CPU time may be four times
    the limit for the spec alone. (The OpenAI-compatible server isolates such constraints instead of refusing them: see
    `isolating_compiler`.)"""
    slow_mask_seconds: float = 0.005
    """CPU time of one mask above which a constraint counts as slow: it gets an engine of its own, or is isolated."""
    max_matcher_processes: int = 16
    """Matcher processes, one for each isolated constraint in use (OpenAI-compatible server only)."""
    matcher_bytes: int = 256 << 20
    """Memory of a matcher process beyond its vocabulary, in bytes."""
    step_seconds: float = 1.0
    """CPU time of one token in a matcher process."""
    cache_entries: int = 512
    """Compiled specs that are kept for later requests."""
    max_pending: int = 256
    """Specs that wait for a probe; more are refused at once."""

    def install_seconds_for(self, size: int, lowered: int = 0) -> float:
        """Return the CPU time in which an automaton must be built.

        Args:
            size: The bytes of the spec.
            lowered: The bytes of its lowered form, if they are known.
        """
        parts = max(1, -(-size // INSTALL_BYTES))
        return self.install_seconds * max(parts, min(-(-lowered // INSTALL_BYTES), _MOST_LOWERED * parts))

    def relaxed(self) -> RequestLimits:
        """Return wider limits for a process that receives only specs which met these limits in another process.

        Measured times differ between runs, and a refusal in the second process would be an error of the server.
        """
        return replace(
            self,
            compile_seconds=4 * self.compile_seconds,
            install_seconds=4 * self.install_seconds,
            compile_bytes=2 * self.compile_bytes,
            max_pending=16 * self.max_pending,
        )


DEFAULT_LIMITS = RequestLimits()
