"""What is shipped with the program: the default policy, and the cluster and pods of `make demo`."""
