"""The component `monitoring`: its alerts and its dashboard."""
