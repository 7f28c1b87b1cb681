"""How far the distributions of samplers are from the exact one, and the cost of samplers."""
