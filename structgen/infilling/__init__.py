"""Filling the holes of a text with a model that writes from the left (docs/diffusion.md)."""

from .fill import Infilling, Method, infill

__all__ = ["Infilling", "Method", "infill"]
