"""GPU admission for Kubernetes: completes GPU pods, chooses their nodes, refuses wrong GPU requests and says why."""
