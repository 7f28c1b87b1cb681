"""Regular expressions as constraints: Python's dialect and that of ECMA-262, read by hand-written parsers."""

from .constraint import Dialect, RegexConstraint, pattern_language, regex
from .features import FEATURES, Feature
from .parser import RegexLimits

__all__ = ["FEATURES", "Dialect", "Feature", "RegexConstraint", "RegexLimits", "pattern_language", "regex"]
