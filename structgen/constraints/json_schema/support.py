"""How faithfully a keyword or format is followed: the words that `check` and the documentation use."""

from enum import Enum

__all__ = ["Support"]


class Support(Enum):
    """Declared for every keyword and format."""

    EXACT = "exact"
    APPROXIMATE = "approximate"
    """Narrower than the specification, in the way that the note says; never wider."""
    ANNOTATION = "annotation"
    UNSUPPORTED = "unsupported"
