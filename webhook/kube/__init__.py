"""What Kubernetes calls things: pods, quantities, reviews, patches, YAML. Nothing here knows of a policy."""
