"""Constraints: front ends that read what the user wrote and lower it to the native automaton's IR.

One module per kind, blind to one another; `base` holds what they share, `algebra` what combines them.
"""
