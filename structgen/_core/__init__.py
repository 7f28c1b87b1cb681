"""The native core: vocabulary trie, automata, masks. See ``docs/architecture.md``."""

import os

from ._native import *  # noqa: F403
from ._native import after_fork, before_fork, main_thread_is_here

if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=before_fork, after_in_parent=after_fork, after_in_child=after_fork)
    os.register_at_fork(after_in_child=main_thread_is_here)
