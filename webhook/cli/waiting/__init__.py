"""Why pods wait: what the scheduler would find, node by node, in words and with what would change it."""
