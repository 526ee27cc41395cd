"""One unit of each kind, added by the steps in CONTRIBUTING: `tests/policy/test_units.py` sees that nothing else is needed."""
