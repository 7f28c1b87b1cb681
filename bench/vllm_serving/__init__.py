"""vLLM with the plugin, served to the official client; another library checks every answer."""
