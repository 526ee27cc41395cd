"""Simulation of new pods on a snapshot of a cluster: the webhook's own code, and a model of the stock scheduler."""
