"""Constraints composed of others: free text, special tokens, repetition, dispatch on triggers, reasoning, lists.

Each is a scannerless grammar whose symbols may be other constraints. Regular parts stay regular expressions.
"""

from .composed import Composition, body_of
from .elements import Special, optional, repeat, special, text
from .forbidding import forbid
from .ltl_lists import OrderedItems, ltl_over
from .reasoning_block import CappedReasoning, Reasoning, ReasoningOptions, reasoning
from .token_sets import Tokens, token, tokens
from .trigger_dispatch import dispatch

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
