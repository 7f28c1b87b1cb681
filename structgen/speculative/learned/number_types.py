"""The types of numbers that tensors of a file may have."""

from __future__ import annotations

import torch

__all__ = ["FLOATS", "WHOLES"]

FLOATS = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
"""The types of weights."""
WHOLES = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
"""The types of numbers of tokens."""
