"""One probe: it reads a random text each time."""

from structgen.serving import probe
from structgen.serving.limits import RequestLimits

from .specs import BYTES


def test_the_texts_of_a_probe_differ(monkeypatch):
    """Otherwise a spec could be slow on every text except the one that is probed."""
    seen = set()
    draw = probe._one_of
    monkeypatch.setattr(probe, "_one_of", lambda *given: (found := draw(*given), seen.add(found))[0])
    for _ in range(4):
        probe.probe_compile("regex", "[a-z]{24}", probe.serving_vocabulary(BYTES), RequestLimits())
    assert len(seen) > 20
