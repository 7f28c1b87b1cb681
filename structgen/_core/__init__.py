"""The native core: vocabulary trie, automata, masks. See ``docs/architecture.md``."""

from ._native import *  # noqa: F403
