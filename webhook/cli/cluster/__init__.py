"""Reads a cluster for the commands, from an API server or from a file, and writes snapshots of it."""
