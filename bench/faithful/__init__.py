"""How faithful samplers are: their distributions compared with the exact one, and their cost."""
