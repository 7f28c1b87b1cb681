"""What makes the data that `structgen eval` brings along: schemas with instances, and tasks with answers."""
