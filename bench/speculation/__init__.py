"""Generation with drafts and without: what it costs, and that it draws the same."""
