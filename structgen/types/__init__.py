"""Python types as constraints on text, and text as Python values; `structgen.types.output` has the rules."""

from .functions import BoundCall
from .output import OutputType, constraint_for_type, output_type
from .thinking import Thinking

__all__ = ["BoundCall", "OutputType", "Thinking", "constraint_for_type", "output_type"]
