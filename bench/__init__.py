"""Benchmarks of speed and of placement. `python -m bench` runs them; README.md has the results."""
