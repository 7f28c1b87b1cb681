"""Python types as constraints on text, and text as Python values. The rules are in `structgen.types.output`."""

from .functions import BoundCall
from .output import OutputType, constraint_for_type, output_type

__all__ = ["BoundCall", "OutputType", "constraint_for_type", "output_type"]
