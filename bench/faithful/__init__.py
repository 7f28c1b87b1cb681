"""How faithful samplers are: their laws beside the exact one, and what they cost."""
