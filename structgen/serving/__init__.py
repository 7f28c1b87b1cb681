"""What serving engines have in common: requests in, constraints out, within limits. For the plugins and the server."""
