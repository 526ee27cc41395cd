"""Files shipped with the program: default policy, webhook configurations, and the cluster and pods of `make demo`."""
