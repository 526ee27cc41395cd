"""The policy: all settings, and how they are read and checked."""
