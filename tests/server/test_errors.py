"""Which status an error of the library has before and in the middle of a text."""

from __future__ import annotations

import pytest

pytest.importorskip("fastapi")

from structgen.errors import GenerationError, LimitExceeded, SchemaInvalid
from structgen.server.errors import ShuttingDown, failed, of_error


@pytest.mark.parametrize(
    ("error", "before", "midway"),
    [
        (SchemaInvalid("no schema", pointer="#"), 400, 500),
        (GenerationError("it broke"), 400, 500),
        (LimitExceeded("too much", limit="mask_steps"), 400, 422),
        (LimitExceeded("too many wait", limit="max_lanes"), 429, 429),
        (LimitExceeded("it is not there", limit="worker"), 503, 503),
        (ShuttingDown("it ends"), 503, 503),
    ],
)
def test_statuses(error: GenerationError, before: int, midway: int) -> None:
    assert (of_error(error, "response_format").status, failed(error).status) == (before, midway)
    assert ("Retry-After" in failed(error).headers) == (midway in (429, 503))
