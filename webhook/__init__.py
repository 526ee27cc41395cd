"""GPU admission for Kubernetes: completes GPU pods, chooses their node, refuses bad GPU specs, explains why."""
