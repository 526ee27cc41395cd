"""The state of the cluster: watch events go from here to nodes, devices and all else that is kept of objects."""
