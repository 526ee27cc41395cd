"""The command line: each command is a module of its own."""
