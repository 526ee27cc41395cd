"""Devices one by one: what nodes have, what claims and pods have of it, and what is free."""
