"""Metrics and logs. Called from the edges only."""
