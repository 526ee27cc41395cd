"""The table of nodes: what each has, what is held there by pods and reservations, what is measured there."""
