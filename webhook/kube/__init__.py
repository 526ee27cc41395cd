"""Kubernetes data: pods, quantities, reviews, patches, selectors, YAML and CEL. Nothing here knows a policy."""
