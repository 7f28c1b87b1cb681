"""The levels of support of a keyword or format, used by `check` and the documentation."""

from enum import Enum

__all__ = ["Support"]


class Support(Enum):
    """Declared for every keyword and format."""

    EXACT = "exact"
    APPROXIMATE = "approximate"
    """Narrower than the specification, as the note says; never wider."""
    ANNOTATION = "annotation"
    UNSUPPORTED = "unsupported"
