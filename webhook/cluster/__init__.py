"""The state of the cluster, kept up to date by watch events, and the reservations."""
