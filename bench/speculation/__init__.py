"""Generation with and without drafts: its cost, and a check that both draw the same."""
