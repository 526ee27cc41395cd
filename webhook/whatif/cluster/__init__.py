"""A cluster as it was read: its objects, and what its GPUs, pods and nodes are in words and numbers."""
