"""Samplers on tasks that people have, under the embedded model; see `__main__`."""
