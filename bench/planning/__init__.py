"""Plans under temporal logic: two worlds, and what a small model makes of them."""
