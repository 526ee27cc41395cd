"""All profiles: every unit with its settings, in run order."""
