"""Tries pods on a snapshot of a cluster: the code of the webhook decides, and a model of the scheduler says where they start."""
