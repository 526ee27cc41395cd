"""The state of the cluster, and reservations."""
