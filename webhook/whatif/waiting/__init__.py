"""Finds why pods wait: repeats the checks of the scheduler on every node, and names each cause with a fix."""
