"""Metrics and logs. Only `cli`, `server` and `feeds` import it."""
