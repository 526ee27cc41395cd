"""One file per injector: what it does to a pod, in the words of a cluster administrator, then its settings, then its method."""
