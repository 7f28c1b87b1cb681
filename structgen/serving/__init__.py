"""What serving engines have in common: requests in, constraints out, within limits. Built by the plugins and the server."""
