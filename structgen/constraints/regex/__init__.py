"""Regular expressions as constraints: the dialects of Python, ECMA-262 and Rust, parsed by hand-written parsers."""

from .constraint import Dialect, RegexConstraint, pattern_language, regex
from .features import FEATURES, Feature
from .parser import RegexLimits

__all__ = ["FEATURES", "Dialect", "Feature", "RegexConstraint", "RegexLimits", "pattern_language", "regex"]
