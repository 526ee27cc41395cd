"""Placement: filters, scores and ranks nodes for a pod."""
