"""The cluster as the commands see it: read from an API server or a file, and written to one."""
