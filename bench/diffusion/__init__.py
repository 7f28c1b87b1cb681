"""Diffusion models and canvases: training a small one, and what constraints on them cost and bring."""
