"""``python -m structgen``: the command line."""

from structgen.cli import program

program()
