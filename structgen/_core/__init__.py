"""The native core: vocabulary trie, automata, masks. See ``docs/architecture.md``."""

import os

try:
    from ._native import *  # noqa: F403
    from ._native import after_fork, before_fork, main_thread_is_here
except ImportError as error:
    from .missing import core_missing

    raise core_missing(error) from None

if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=before_fork, after_in_parent=after_fork, after_in_child=after_fork)
    os.register_at_fork(after_in_child=main_thread_is_here)
