"""Storage: the only SQL of the server."""
