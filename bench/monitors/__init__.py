"""Language servers as monitors on real projects: how often they refuse correct code, and what they change in a model's
code.
"""
