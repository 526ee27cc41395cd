"""What would become of pods: the real engine, a model of the stock scheduler, and the cluster as it is."""
