"""Diffusion models and canvases: training a small model, and the cost and benefit of constraints on it."""
