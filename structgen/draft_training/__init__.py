"""Training of drafters: collect a model's own texts and hidden states, train weights on them, evaluate the result.

The command is `structgen draft`; see `docs/learned-drafts.md`.
"""
