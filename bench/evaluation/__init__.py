"""Generators of the data that `structgen eval` includes: schemas with instances, and tasks with answers."""
