"""Filling the holes of a text with a model that generates from left to right (docs/diffusion.md)."""

from .fill import Infilling, Method, infill

__all__ = ["Infilling", "Method", "infill"]
