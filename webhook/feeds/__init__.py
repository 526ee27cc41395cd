"""What comes from outside: watches, the ConfigMap of the policy, GPU metrics."""
