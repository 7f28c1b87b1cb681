"""Constraints made of constraints: free text, special tokens, repetition, dispatch on triggers, reasoning.

What they say is a scannerless grammar whose symbols may be other constraints; what is regular stays one expression.
"""

from .composed import Composition, body_of
from .dispatching import dispatch
from .forbidding import forbid
from .parts import Special, optional, repeat, special, text
from .temporal import OrderedItems, ltl_over
from .thinking import CappedReasoning, Reasoning, ReasoningOptions, reasoning
from .token_parts import Tokens, token, tokens

__all__ = [
    "CappedReasoning",
    "Composition",
    "OrderedItems",
    "Reasoning",
    "ReasoningOptions",
    "Special",
    "Tokens",
    "body_of",
    "dispatch",
    "forbid",
    "ltl_over",
    "optional",
    "reasoning",
    "repeat",
    "special",
    "text",
    "token",
    "tokens",
]
