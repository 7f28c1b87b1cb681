"""Find the tokens that continue after a trigger.

Why: with ``crossing="cut"`` such tokens are not allowed, so that no drawn token has to be refused.
Invariant: a token is one of them if and only if the scanner finds a trigger before its last byte.
Cost: the scanner reads every token that holds a trigger's byte, once for each kind of state; kept with the scanner.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict

import numpy as np
from numpy.typing import NDArray

from structgen.vocabulary import Vocabulary

from .scanning import Scan, Scanner

__all__ = ["crossing_tokens"]

_KEPT = 256
_Kept = OrderedDict[Scan, NDArray[np.int32]]
_known: weakref.WeakKeyDictionary[Scanner, weakref.WeakKeyDictionary[Vocabulary, _Kept]] = (
    weakref.WeakKeyDictionary()
)


def crossing_tokens(scanner: Scanner, scan: Scan, vocabulary: Vocabulary) -> NDArray[np.int32]:
    """Return the bitmask of these tokens, shape ``[vocabulary.words]``."""
    kept = _known.setdefault(scanner, weakref.WeakKeyDictionary()).setdefault(vocabulary, OrderedDict())
    control = Scan(scanner.lexer.control(scan.lexed), scan.patterns, 0, 0)
    words = kept.get(control)
    if words is None:
        words = kept[control] = _found(scanner, control, vocabulary)
        if len(kept) > _KEPT:
            kept.popitem(last=False)
    else:
        kept.move_to_end(control)
    return words


def _found(scanner: Scanner, control: Scan, vocabulary: Vocabulary) -> NDArray[np.int32]:
    bits = np.zeros(vocabulary.words * 32, dtype=np.uint8)
    triggers = frozenset(scanner.triggers(control.lexed))
    for token in range(vocabulary.size):
        data = vocabulary.token_bytes(token)
        if not data or len(data) < 2 or triggers.isdisjoint(data[:-1]):
            continue
        scan = control
        for byte in data[:-1]:
            scan, triggered, _ = scanner.step(scan, byte)
            if triggered:
                bits[token] = 1
                break
    return np.packbits(bits, bitorder="little").view(np.int32)
