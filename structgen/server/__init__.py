"""A server for one machine with OpenAI's interface."""
