"""The cluster as events tell it, and what was promised."""
