"""Issues, rotates and serves certificates."""
