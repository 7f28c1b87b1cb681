"""vLLM with the plugin, served and asked by the official client; every answer is checked by another library."""
