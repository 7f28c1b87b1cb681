"""The server that some of these tests evaluate compiles in processes that only CPU time limits."""

from tests.unhurried import unhurried_processes

__all__ = ["unhurried_processes"]
