"""Generation with and without drafts: its speed, and a check that both draw the same tokens."""
