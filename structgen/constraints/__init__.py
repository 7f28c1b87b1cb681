"""Constraints: front ends that read what the user wrote and lower it to the IR of the native core.

One package per kind of constraint. The kinds do not know one another; `base` holds what they share, and `algebra` the
operators that combine them.
"""

from . import algebra  # installs the operators of constraints

__all__ = ["algebra"]
