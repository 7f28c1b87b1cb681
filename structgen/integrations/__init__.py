"""structgen inside other engines. One module per engine; each needs that engine installed."""
